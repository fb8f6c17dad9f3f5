from .explorer import write_explorer as write_explorer
from .page import write_report as write_report

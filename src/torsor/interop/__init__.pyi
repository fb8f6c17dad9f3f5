from .continuations import Continuations as Continuations
from .continuations import for_lm_eval as for_lm_eval

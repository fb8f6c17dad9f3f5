from .continuation import Stepwise as Stepwise
from .continuation import generate as generate
from .sampling import Sampling as Sampling

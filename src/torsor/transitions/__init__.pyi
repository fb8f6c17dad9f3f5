from .base import InputTransition as InputTransition
from .base import Transition as Transition
from .block_conformal import BlockConformal as BlockConformal
from .block_decay import BlockDecay as BlockDecay
from .frequency import Geometric as Geometric
from .frequency import Still as Still
from .frequency import Uniform as Uniform
from .token_permutation import TokenPermutation as TokenPermutation

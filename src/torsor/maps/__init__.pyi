from .base import LinearMap as LinearMap
from .dense import Dense as Dense
from .diagonal import Diagonal as Diagonal
from .householder import Householder as Householder
from .permutation import Permutation as Permutation
from .scaled_rotation import ScaledRotation as ScaledRotation

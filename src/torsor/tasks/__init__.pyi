from .base import IGNORED as IGNORED
from .base import Batch as Batch
from .base import Task as Task
from .proportion import Proportion as Proportion
from .scores import Scores as Scores
from .scores import score as score
from .word_problem import WordProblem as WordProblem

"""Every experiment and every table by its name."""

from torsor.experiments.experiment import Experiment, nearest_setting
from torsor.experiments.language import LANGUAGE
from torsor.experiments.list_ops import LIST_OPS
from torsor.experiments.optimizer_robustness import OPTIMIZERS
from torsor.experiments.recurrent_characters import RECURRENT_CHARACTERS
from torsor.experiments.rotate_the_loop import WORD_PROBLEMS
from torsor.experiments.state_tracking import STATE_TRACKING
from torsor.experiments.subgroups import CHARACTERS
from torsor.experiments.table import Table
from torsor.experiments.tables_recurrent import TABLES as RECURRENT
from torsor.experiments.tables_rotate_the_loop import TABLES as ROTATE_THE_LOOP
from torsor.experiments.tables_subgroups import TABLES as SUBGROUPS
from torsor.experiments.tables_tracking import TABLES as LEARNED_TRACKERS
from torsor.experiments.tracking import TRACKING

_RECURRENT = (*STATE_TRACKING, *LIST_OPS, *RECURRENT_CHARACTERS)
EXPERIMENTS: dict[str, Experiment] = {
    each.name: each for each in (*WORD_PROBLEMS, *LANGUAGE, *CHARACTERS, *OPTIMIZERS, *_RECURRENT, *TRACKING)
}
TABLES: dict[str, Table] = {each.name: each for each in (*ROTATE_THE_LOOP, *SUBGROUPS, *RECURRENT, *LEARNED_TRACKERS)}


def find(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        ValueError: when there is none; the nearest right name is told.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}{nearest_setting(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]


def find_table(name: str) -> Table:
    """The table of this name.

    Raises:
        ValueError: when there is none; the nearest right name is told.
    """
    if name not in TABLES:
        raise ValueError(f"there is no table {name!r}{nearest_setting(name, TABLES)}")
    return TABLES[name]

"""Every experiment by its name."""

from torsor.experiments.experiment import Experiment, nearest
from torsor.experiments.rotate_the_loop import WORD_PROBLEMS

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in WORD_PROBLEMS}


def find(name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        ValueError: when there is none; the nearest right name is told.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"there is no experiment {name!r}{nearest(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]

"""Toeplitz defects of a trained run's transition at several numbers of steps."""

from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path

import torch

from torsor.diagnostics import toeplitz_defect
from torsor.experiments.run import load


@torch.no_grad()
def trained_defects(run: Path, steps: Sequence[int]) -> list[tuple[float, float]]:
    """The defect over own blocks and over the whole vector for each number of steps.

    Args:
        run: a run folder whose model has a transition.
        steps: numbers of iterates.

    Raises:
        ValueError: when the run's model has no transition.
    """
    transition = load(run).transition
    if transition is None:
        raise ValueError(f"{run} must hold a model with a transition, it has none")
    # from the parameters in float64: a chart built in float32 is orthogonal to 1e-7 only
    carry = deepcopy(transition).to("cpu", torch.float64)()
    found = [toeplitz_defect(carry, steps=each) for each in steps]
    return [(each.own.mean, each.whole.mean) for each in found]

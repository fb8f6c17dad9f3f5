"""A depth for each sequence, those that have ended taken out of the batch, against all to the largest depth."""

from typing import Any

import numpy as np

from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.bench.looped import training_update, useful_flops, word_model
from torsor.recurrence.depth import Poisson
from torsor.recurrence.loop import Steps
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw

MEAN, LARGEST, GRADIENT = 8.0, 24, 4
ALL = "all to the largest depth"


def measure(
    limits: Limits, rounds: int = 15, widths: tuple[int, ...] = (128, 512), batch: int = 32, length: int = 64
) -> dict[str, Any]:
    """Time training steps at depths from a Poisson law of mean 8, the gradient through the last 4 loops.

    In one round both forms take the same draws. The reference computes every sequence as often as the deepest one
    and holds none of them back, which is the least that a batch without compaction can cost.

    Args:
        limits: of this machine.
        rounds: turns that both forms take, each with draws of its own.
        widths: of the 1/1/1 model, multiples of 8.
        batch: sequences.
        length: tokens of each.

    Returns:
        A row for both forms at each width; useful operations are those of each sequence to its own depth, the mean
        over the rounds.

    Raises:
        ValueError: when a number is out of range.
    """
    keep_freed_memory()
    depth, rows = Poisson(MEAN, LARGEST), []

    def each(update: int) -> Steps:
        return depth.per_sequence(0, update, batch)

    def largest(update: int) -> Steps:
        return int(depth.per_sequence(0, update, batch).max())

    drawn = [depth.per_sequence(0, update, batch).tolist() for update in range(1, rounds + 1)]  # 0 is the warm-up's
    for width in widths:
        cases = {}
        for name, steps_of in ((ALL, largest), ("compaction", each)):
            model = word_model(width, GRADIENT)
            operations = sum(useful_flops(model, 1, length, steps, GRADIENT) for row in drawn for steps in row)
            cases[f"width {width}, {name}"] = Case(
                training_update(model, adamw(model, 1e-3), batch, length, steps_of),
                operations / max(1, len(drawn)),
                items=batch * length,
                unit="tokens",
                reference=None if name == ALL else f"width {width}, {ALL}",
                given=list(model.parameters()),
            )
        rows += compare(cases, limits, rounds)
    settings = {"batch": batch, "length": length, "mean": MEAN, "largest": LARGEST, "gradient": GRADIENT}
    settings["largest of a batch, mean"] = float(np.mean([max(row) for row in drawn])) if drawn else 0.0
    return {"settings": settings, "rows": rows}

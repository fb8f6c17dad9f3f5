"""How the looped training step grows with its loops: time, share of the matrix peak, and memory."""

from typing import Any

from torsor.bench.harness import Case, compare, grown
from torsor.bench.limits import Limits
from torsor.bench.looped import training_update, useful_flops, word_model
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw


def measure(
    limits: Limits,
    rounds: int = 7,
    widths: tuple[int, ...] = (128, 512),
    depths: tuple[int, ...] = (1, 2, 4, 8, 16, 32),
    batch: int = 16,
    length: int = 64,
) -> dict[str, Any]:
    """Time a training step of the 1/1/1 model at every width and number of loops.

    Args:
        limits: of this machine.
        rounds: turns that each depth takes.
        widths: of the residual stream, multiples of 8.
        depths: at least five numbers of loops.
        batch: sequences.
        length: tokens of each.

    Returns:
        A row for each width and depth, and how seconds and memory grow with the depth.

    Raises:
        ValueError: when a number is out of range.
    """
    keep_freed_memory()
    rows, growths = [], []
    for width in widths:
        model = word_model(width)
        optimizer, cases = adamw(model, 1e-3), {}
        for depth in depths:
            call = training_update(model, optimizer, batch, length, lambda _, depth=depth: depth)
            cases[f"width {width}, {depth} loops"] = Case(
                call,
                useful_flops(model, batch, length, depth),
                items=batch * length,
                unit="tokens",
                given=list(model.parameters()),
            )
        found = compare(cases, limits, rounds)
        rows += found
        for what, key in (("seconds", "seconds"), ("memory", "peak_bytes")):
            growths.append(grown(f"{what}, width {width}", "loops", depths, [row[key] for row in found]))
    return {"settings": {"batch": batch, "length": length, "layers": "1/1/1"}, "rows": rows, "growth": growths}

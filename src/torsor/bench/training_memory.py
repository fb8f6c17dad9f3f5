"""How the memory of a training step grows with the loops in the gradient, and with those outside of it."""

from typing import Any

from torsor.bench.harness import Case, compare, grown
from torsor.bench.limits import Limits
from torsor.bench.looped import training_update, useful_flops, word_model
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw


def measure(
    limits: Limits,
    rounds: int = 5,
    width: int = 128,
    batch: int = 16,
    length: int = 64,
    gradients: tuple[int, ...] = (1, 2, 4, 8, 16, 32),
    executed: tuple[int, ...] = (4, 8, 16, 32, 64),
    held: int = 4,
) -> dict[str, Any]:
    """Count peak memory: of more and more loops in the gradient out of equally many, and of more and more outside it.

    Args:
        limits: of this machine.
        rounds: turns that each case takes.
        width: of the 1/1/1 model, a multiple of 8.
        batch: sequences.
        length: tokens of each.
        gradients: at least five numbers of loops in the gradient, of the largest that are executed.
        executed: at least five numbers of loops, of which the gradient passes through the last ``held``.
        held: those.

    Returns:
        A row for each case, and how memory and time grow with either number.

    Raises:
        ValueError: when a number is out of range.
    """
    keep_freed_memory()
    deepest, rows, growths = max(gradients), [], []
    sweeps = (
        ("loops in the gradient", {n: (deepest, n) for n in gradients}),
        ("loops executed", {n: (n, held) for n in executed}),
    )
    for over, pairs in sweeps:
        cases = {
            f"{steps} loops, {grad_steps} in the gradient": _case(width, batch, length, steps, grad_steps)
            for steps, grad_steps in pairs.values()
        }
        found = compare(cases, limits, rounds)
        rows += found
        for what, key in (("memory", "peak_bytes"), ("seconds", "seconds")):
            growths.append(grown(what, over, list(pairs), [row[key] for row in found]))
    settings = {"width": width, "batch": batch, "length": length, "layers": "1/1/1"}
    return {"settings": settings, "rows": rows, "growth": growths}


def _case(width: int, batch: int, length: int, steps: int, grad_steps: int) -> Case:
    model = word_model(width, grad_steps)
    call = training_update(model, adamw(model, 1e-3), batch, length, lambda _: steps)
    operations = useful_flops(model, batch, length, steps, grad_steps)
    return Case(call, operations, items=batch * length, unit="tokens", given=list(model.parameters()))

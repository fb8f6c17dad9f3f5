"""What a step by a conformal map costs as the state gets wider, beside a step by a free matrix."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torsor.bench.harness import Case, compare, grown
from torsor.bench.limits import Limits
from torsor.training.memory import keep_freed_memory
from torsor.transitions import BlockConformal, Free, Transition


def measure(
    limits: Limits,
    rounds: int = 11,
    widths: Sequence[int] = (64, 128, 256, 512, 1024, 2048, 4096),
    dense_widths: Sequence[int] = (64, 128, 256, 512, 1024),
    tokens: int = 1024,
) -> dict[str, Any]:
    """Time building the map, one step, and the gradient of parameters and state, at every width.

    Args:
        limits: of this machine.
        rounds: turns that each width takes.
        widths: at least five, multiples of 8.
        dense_widths: at least five, of the free matrix.
        tokens: states that are carried.

    Returns:
        A row for each width of both, and the exponents of their time.

    Raises:
        ValueError: when a number is out of range.
    """
    keep_freed_memory()
    rows, growths = [], []
    kinds: tuple[tuple[str, Callable[[int], Transition], Sequence[int]], ...] = (
        ("conformal map", lambda width: BlockConformal(width, groups=2), widths),
        ("free matrix", Free, dense_widths),
    )
    for name, make, sizes in kinds:
        cases = {f"{name}, width {width}": _case(make(width), tokens, name == "free matrix") for width in sizes}
        found = compare(cases, limits, rounds)
        rows += found
        growths.append(grown(f"seconds of the {name}", "width", sizes, [row["seconds"] for row in found]))
    return {"settings": {"tokens": tokens}, "rows": rows, "growth": growths}


def _case(transition: Transition, tokens: int, dense: bool) -> Case:
    dim = transition.dim
    state, cotangent = torch.randn(tokens, dim, requires_grad=True), torch.randn(tokens, dim)
    wanted: list[Tensor] = [state, *(p for p in transition.parameters() if p.requires_grad)]

    def call() -> None:
        torch.autograd.grad(transition()(state), wanted, cotangent, allow_unused=True)  # the input gain is not used

    # a matrix: two for each multiply-add, once forward and twice backward; a plane: a product and a sum of complex
    # numbers, six for two coordinates, forward, and the same for each of its two gradients
    operations = 6 * dim * dim * tokens if dense else 9 * dim * tokens
    # forward reads the state and writes one, backward reads both and the cotangent's, and writes one
    return Case(call, operations, 5 * state.nbytes)

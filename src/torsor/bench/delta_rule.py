"""The delta rule in chunks against the loop over its maps: time, and differences."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from torsor.bench.differences import relative_differences, with_gradients
from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.recurrence.delta_rule import delta_rule, delta_rule_reference
from torsor.training.memory import keep_freed_memory

Rule = Callable[..., tuple[Tensor, Tensor]]


def arguments(batch: int, length: int, heads: int, maps: int, size: int) -> list[Tensor]:
    """Queries, keys of norm 1, values, betas in (0, 2) and a state, all wanting gradients."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    keys = normalize(normal(batch, length, heads, maps, size), dim=-1)
    betas = 2 * torch.rand(batch, length, heads, maps, generator=generator)
    queries, values = normal(batch, length, heads, size), normal(batch, length, heads, maps, size)
    return [each.requires_grad_() for each in (queries, keys, values, betas, normal(batch, heads, size, size))]


def measure(
    limits: Limits,
    rounds: int = 7,
    batch: int = 64,
    length: int = 128,
    heads: int = 4,
    maps: int = 2,
    size: int = 16,
) -> dict[str, Any]:
    """Time forward and backward passes in turns, and compare their results.

    Args:
        limits: of this machine.
        rounds: turns that each case takes.
        batch: sequences.
        length: tokens of each.
        heads: states of each sequence.
        maps: of one token.
        size: rows and columns of a state.

    Returns:
        A row for each form, and the largest differences from the loop in float64, relative to the largest number.

    Raises:
        ValueError: when a size is below 1.
    """
    sizes = {"batch": batch, "length": length, "heads": heads, "maps": maps, "size": size}
    for name, each in (sizes | {"rounds": rounds}).items():
        if each < 1:
            raise ValueError(f"{name} must be at least 1, got {each}")
    keep_freed_memory()
    given = arguments(**sizes)
    # A map reads a row and writes one, a token reads another: two operations for each entry of a state, forward and
    # twice backward. All that is given is read in both directions, and its gradient written.
    operations = 6 * batch * length * heads * size**2 * (2 * maps + 1)
    moved = 3 * sum(each.nbytes for each in given)
    tokens = batch * length

    def case(rule: Rule, reference: str | None = None) -> Case:
        call = partial(with_gradients, rule, given)
        return Case(call, operations, moved, reference=reference, items=tokens, unit="tokens", given=given)

    cases = {"loop": case(delta_rule_reference), "in chunks": case(delta_rule, "loop")}
    rows = compare(cases, limits, rounds)
    return {"settings": sizes, "rows": rows, "differences": _differences(given)}


def _differences(given: Sequence[Tensor]) -> dict[str, float]:
    exact = [each.detach().double().requires_grad_() for each in given]
    names = ("read", "state", *(f"gradient of {name}" for name in ("query", "key", "value", "beta", "state")))
    found, expected = with_gradients(delta_rule, exact), with_gradients(delta_rule_reference, exact)
    return relative_differences(names, found, expected)

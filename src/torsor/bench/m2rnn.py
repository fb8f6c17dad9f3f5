"""The M²RNN recurrence in chunks against a careful loop, and against a loop that writes into its results."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torsor.bench.differences import relative_differences
from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.recurrence import m2rnn
from torsor.recurrence.m2rnn import m2rnn_reference
from torsor.training.memory import keep_freed_memory

Recurrence = Callable[..., tuple[Tensor, Tensor]]
CAREFUL = "careful loop"
NAMES = ("q", "k", "v", "weight", "forget", "state")


def arguments(batch: int, length: int, heads: int, key_dim: int, value_dim: int) -> list[Tensor]:
    """Normal queries, keys and values, even gates, the identity as weight and a zero state, all wanting gradients."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    made = [
        normal(batch, length, heads, key_dim),
        normal(batch, length, heads, key_dim),
        normal(batch, length, heads, value_dim),
        torch.eye(value_dim).expand(heads, -1, -1).clone(),
        torch.rand(batch, length, heads, generator=generator),
        torch.zeros(batch, heads, key_dim, value_dim),
    ]
    return [each.requires_grad_() for each in made]


def written_loop(
    q: Tensor, k: Tensor, v: Tensor, weight: Tensor, forget: Tensor, state: Tensor, gradient_clip: None = None
) -> tuple[Tensor, Tensor]:
    """Every state written into one tensor by its index, which makes the backward pass quadratic in the length."""
    written = k[..., None] * v[..., None, :]
    states = q.new_empty(written.shape)
    for t in range(q.shape[1]):
        gate = forget[:, t, :, None, None]
        state = gate * state + (1 - gate) * torch.tanh(state @ weight + written[:, t])
        states[:, t] = state
    return (q[..., None, :] @ states).squeeze(-2), state


def measure(
    limits: Limits,
    rounds: int = 5,
    batch: int = 4,
    length: int = 1024,
    heads: int = 8,
    key_dim: int = 64,
    value_dim: int = 16,
    written_length: int = 128,
) -> dict[str, Any]:
    """Time forward and backward passes in turns, count their peak memory, and compare their results.

    Args:
        limits: of this machine.
        rounds: turns that each case takes.
        batch: sequences.
        length: elements of each.
        heads: states of each.
        key_dim: rows of a state.
        value_dim: columns of a state.
        written_length: length at which the loop that writes is timed beside the others; its time grows
            as the square. 0 leaves it out.

    Returns:
        For each length and clip a row for every case, and one for its forward pass; and the largest differences
        between the chunked form and the careful loop, relative to the largest number.

    Raises:
        ValueError: when a size is below 1, or ``written_length`` below 0.
    """
    sizes = {"batch": batch, "length": length, "heads": heads, "key_dim": key_dim, "value_dim": value_dim}
    for name, size in (sizes | {"rounds": rounds}).items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if written_length < 0:
        raise ValueError(f"written_length must not be negative, got {written_length}")
    keep_freed_memory()
    loops: dict[str, Recurrence] = {CAREFUL: m2rnn_reference, "in chunks": m2rnn}
    written = loops | {"loop that writes": written_loop}
    timed = [(length, None, written if written_length == length else loops), (length, 1.0, loops)]
    if written_length not in {0, length}:
        timed.append((written_length, None, written))
    rows, differences = [], {}
    for elements, clip, forms in timed:
        given = arguments(**(sizes | {"length": elements}))
        place = f"length {elements}, clip {'none' if clip is None else f'{clip:g}'}"
        cases = {}
        for name, loop in forms.items():
            for use, case in _uses(loop, given, clip).items():
                reference = None if name == CAREFUL else f"{place}: {CAREFUL}{use}"
                cases[f"{place}: {name}{use}"] = replace(case, reference=reference)
        rows += compare(cases, limits, rounds)
        differences[place] = _differences(given, clip)
    return {"settings": sizes, "rows": rows, "differences": differences}


def _uses(loop: Recurrence, given: list[Tensor], clip: float | None) -> dict[str, Case]:
    def forward() -> None:
        with torch.no_grad():
            loop(*given, gradient_clip=clip)

    q, k, v, weight, forget, _ = given
    states, columns = q.numel() * v.shape[-1], weight.shape[-1]
    # of each number of a state: a product with the weight, a multiply-add for what is written, one to read it; what is
    # read and the results; backward the same again, for gradients of twice as many, which are written
    operations, read, written = states * (2 * columns + 4), sum(each.nbytes for each in (q, k, v, forget)), v.nbytes
    tokens = {"items": q.shape[0] * q.shape[1], "unit": "tokens"}
    return {
        "": Case(lambda: _pass(loop, given, clip), 3 * operations, 3 * read + 2 * written, **tokens, given=given),
        ", forward": Case(forward, operations, read + written, **tokens),
    }


def _pass(loop: Recurrence, given: list[Tensor], clip: float | None) -> tuple[Tensor, ...]:
    outputs, state = loop(*given, gradient_clip=clip)
    return outputs, state, *torch.autograd.grad([outputs, state], given, [outputs.detach(), state.detach()])


def _differences(given: list[Tensor], clip: float | None) -> dict[str, float]:
    found, expected = _pass(m2rnn, given, clip), _pass(m2rnn_reference, given, clip)
    names = ("outputs", "last state", *(f"gradient of {name}" for name in NAMES))
    return relative_differences(names, found, expected)

"""The M²RNN recurrence in chunks against a careful loop, and against a loop that writes into its results."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torsor.bench.clock import take_turns
from torsor.bench.peak_memory import peak_bytes
from torsor.recurrence import m2rnn
from torsor.recurrence.m2rnn import m2rnn_reference
from torsor.training.memory import keep_freed_memory

Recurrence = Callable[..., tuple[Tensor, Tensor]]
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
    batch: int = 4,
    length: int = 1024,
    heads: int = 8,
    key_dim: int = 64,
    value_dim: int = 16,
    rounds: int = 5,
    written_length: int = 128,
) -> dict[str, Any]:
    """Time forward and backward passes in turns, count their peak memory, and compare their results.

    Args:
        batch: sequences.
        length: elements of each.
        heads: states of each.
        key_dim: rows of a state.
        value_dim: columns of a state.
        rounds: turns that each case takes.
        written_length: length at which the loop that writes is timed beside the others; its time grows
            as the square. 0 leaves it out.

    Returns:
        A plain dictionary: for each length and clip the seconds and the peak bytes of every case, each with
        the ratio to the chunked form, that of seconds taken round by round; and the largest
        difference between the chunked form and the careful loop, relative to the largest number.

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
    loops: dict[str, Recurrence] = {"in chunks": m2rnn, "careful loop": m2rnn_reference}
    given = arguments(*sizes.values())
    rows = [_row(given, loops, clip, rounds) for clip in (None, 1.0)]
    if written_length:
        short = arguments(**(sizes | {"length": written_length}))
        rows.append(_row(short, loops | {"loop that writes": written_loop}, None, rounds))
    return {"threads": torch.get_num_threads(), "torch": torch.__version__, **sizes, "rounds": rounds, "rows": rows}


def _row(given: list[Tensor], loops: dict[str, Recurrence], clip: float | None, rounds: int) -> dict[str, Any]:
    def forward(loop: Recurrence) -> None:
        with torch.no_grad():
            loop(*given, gradient_clip=clip)

    passes = {name: lambda loop=loop: _pass(loop, given, clip) for name, loop in loops.items()}
    timed = passes | {f"{name}, forward": lambda loop=loop: forward(loop) for name, loop in loops.items()}
    timings = take_turns(timed, rounds)
    memory = {name: peak_bytes(call, given) for name, call in passes.items()}
    cases = {}
    for name in loops:
        ratio, low, high = timings.ratio(name, "in chunks")
        cases[name] = {
            "seconds": timings.median(name),
            "forward_seconds": timings.median(f"{name}, forward"),
            "over_chunks": ratio,
            "quartiles": [low, high],
            **timings.spread(name, "in chunks"),
            "peak_bytes": memory[name],
            "memory_over_chunks": memory[name] / memory["in chunks"],
        }
    return {
        "length": given[0].shape[1],
        "gradient_clip": clip,
        "cases": cases,
        "differences": _differences(given, clip),
    }


def _pass(loop: Recurrence, given: list[Tensor], clip: float | None) -> tuple[Tensor, ...]:
    outputs, state = loop(*given, gradient_clip=clip)
    return outputs, state, *torch.autograd.grad([outputs, state], given, [outputs.detach(), state.detach()])


def _differences(given: list[Tensor], clip: float | None) -> dict[str, float]:
    found, expected = _pass(m2rnn, given, clip), _pass(m2rnn_reference, given, clip)
    names = ("outputs", "last state", *(f"gradient of {name}" for name in NAMES))
    pairs = zip(names, found, expected, strict=True)
    return {name: float(((one - other).abs().max() / other.abs().max()).detach()) for name, one, other in pairs}

"""The scan in two passes against loops over the tokens: time, memory, differences, and time by length."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, final
from weakref import WeakSet

import torch
from torch import Tensor

from torsor.bench.differences import relative_differences
from torsor.bench.harness import Case, compare, growths
from torsor.bench.limits import Limits
from torsor.maps import ScaledRotation
from torsor.recurrence import linear_scan
from torsor.recurrence.linear_scan import linear_scan_reference
from torsor.training.memory import keep_freed_memory

# from scales, angles and inputs to the states
Scan = Callable[[Tensor, Tensor, Tensor], Tensor]


def arguments(batch: int, length: int, heads: int, head_dim: int, own: bool = False) -> list[Tensor]:
    """Scales from 0.9 to 0.999, any angles, of all tokens or of each, and normal inputs, all wanting gradients."""
    generator = torch.Generator().manual_seed(0)
    leading = (batch, length) if own else ()

    def even(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator)

    scale = (0.9 + 0.099 * even(*leading, heads)).repeat_interleave(head_dim // 2, dim=-1)
    angle = 6.28 * even(*leading, heads * head_dim // 2)
    inputs = torch.randn(batch, length, heads * head_dim, generator=generator)
    return [each.requires_grad_() for each in (scale, angle, inputs)]


def in_two_passes(scale: Tensor, angle: Tensor, inputs: Tensor) -> Tensor:
    """The scan of this package."""
    return linear_scan(ScaledRotation(scale, angle), inputs)[0]


def complex_loop(scale: Tensor, angle: Tensor, inputs: Tensor) -> Tensor:
    """One complex product and sum for every token, in PyTorch's complex numbers."""
    multiplier = torch.polar(scale, angle)
    added = torch.view_as_complex(inputs.unflatten(-1, (-1, 2)))
    own = multiplier.unbind(1) if multiplier.ndim > 1 else [multiplier] * added.shape[1]
    state, states = torch.zeros_like(added[:, 0]), []
    for factor, new in zip(own, added.unbind(1), strict=True):
        state = factor * state + new
        states.append(state)
    return torch.view_as_real(torch.stack(states, dim=1)).flatten(-2)


def dense_loop(heads: int, fused: bool = False) -> Scan:
    """One product with a matrix for each head, and a sum, for every token; or both in one operation."""

    def scan(scale: Tensor, angle: Tensor, inputs: Tensor) -> Tensor:
        size = inputs.shape[-1] // heads
        blocks = ScaledRotation(scale, angle).dense().unflatten(0, (heads, size)).unflatten(-1, (heads, size))
        matrices = blocks.diagonal(dim1=0, dim2=2).permute(2, 1, 0)
        added = inputs.unflatten(-1, (heads, size)).permute(1, 2, 0, 3)
        state, states = torch.zeros_like(added[0]), []
        for new in added.unbind(0):
            state = torch.baddbmm(new, state, matrices) if fused else state @ matrices + new
            states.append(state)
        return torch.stack(states).permute(2, 0, 1, 3).flatten(-2)

    return scan


def measure(
    limits: Limits,
    rounds: int = 5,
    batch: int = 4,
    length: int = 4096,
    heads: int = 8,
    head_dim: int = 32,
    lengths: Sequence[int] = (1024, 4096, 16384, 65536, 262144),
) -> dict[str, Any]:
    """Time forward and backward passes in turns, count their memory, and compare their results.

    Args:
        limits: of this machine.
        rounds: turns that each case takes.
        batch: sequences.
        length: tokens of each.
        heads: of the state; the dense loops have a matrix for each.
        head_dim: coordinates of a head, even.
        lengths: of one sequence each, at which the scan is timed; in one turn all read about equally many tokens.

    Returns:
        A row for every case with one map of all tokens and with a map for each, and the bytes that it keeps for the
        gradient; a row for each length, and how its time grows; and the largest differences from the reference in
        float64, relative to the largest number.

    Raises:
        ValueError: when a size is below 1 or ``head_dim`` is odd.
    """
    sizes = {"batch": batch, "length": length, "heads": heads, "head_dim": head_dim}
    for name, size in (sizes | {"rounds": rounds, "lengths": min(lengths, default=1)}).items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if head_dim % 2:
        raise ValueError(f"head_dim must be even, got {head_dim}")
    keep_freed_memory()
    dense: dict[str, Scan] = {"dense loop": dense_loop(heads), "dense loop, fused": dense_loop(heads, fused=True)}
    each: dict[str, Scan] = {"complex loop": complex_loop, "scan": in_two_passes}
    rows, differences = [], {}
    for maps, scans in {"one map": dense | each, "a map for each token": each}.items():
        given, first = arguments(batch, length, heads, head_dim, own=scans is each), next(iter(scans))
        cases = {}
        for name, scan in scans.items():
            reference = None if name == first else f"{maps}: {first}"
            cases[f"{maps}: {name}"] = replace(_case(scan, given), reference=reference, given=given)
        for row, scan in zip(compare(cases, limits, rounds), scans.values(), strict=True):
            rows.append(row | {"kept_bytes": kept_bytes(scan, given)})
        differences[maps] = _differences(given)
    turns = {size: max(lengths) // size for size in lengths}
    cases = {
        f"scan, length {size}, {times} times": _case(in_two_passes, arguments(1, size, heads, head_dim), times)
        for size, times in turns.items()
    }
    found = compare(cases, limits, rounds)
    seconds = {size: row["seconds"] / times for (size, times), row in zip(turns.items(), found, strict=True)}
    growth = growths("seconds of the scan", "tokens", seconds)
    return {"settings": sizes, "rows": rows + found, "growth": growth, "differences": differences}


def _case(scan: Scan, given: Sequence[Tensor], times: int = 1) -> Case:
    """Forward and backward passes, one after the other."""
    scale, angle, inputs = given

    def call() -> None:
        for _ in range(times):
            passed(scan, given)

    # A product and a sum of complex numbers are eight for two coordinates, forward, and the same for the gradients of
    # the inputs and of the map. Forward reads the inputs and writes the states, backward reads these and the
    # cotangent and writes a gradient; the map is read twice, and its gradient written.
    moved = 5 * inputs.nbytes + 3 * (scale.nbytes + angle.nbytes)
    tokens = inputs.shape[0] * inputs.shape[1]
    return Case(call, 12 * inputs.numel() * times, moved * times, items=tokens * times, unit="tokens")


def passed(scan: Scan, given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The states and the gradients of all that is given."""
    states = scan(*given)
    return states, *torch.autograd.grad(states, given, torch.ones_like(states))


def kept_bytes(scan: Scan, given: Sequence[Tensor]) -> int:
    """The bytes that autograd holds between the forward and the backward pass, what was given excepted."""
    held: WeakSet[_Kept] = WeakSet()

    def keep(tensor: Tensor) -> _Kept:
        kept = _Kept(tensor)
        held.add(kept)
        return kept

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept.tensor):
        states = scan(*given)
    known = {each.untyped_storage().data_ptr() for each in given}
    storages = {each.tensor.untyped_storage().data_ptr(): each.tensor.untyped_storage().nbytes() for each in held}
    del states  # until here, it is what holds them
    return sum(size for place, size in storages.items() if place not in known)


@final
class _Kept:
    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _differences(given: list[Tensor]) -> dict[str, float]:
    given = [each.detach().double().requires_grad_() for each in given]

    def one_by_one(scale: Tensor, angle: Tensor, inputs: Tensor) -> Tensor:
        return linear_scan_reference(ScaledRotation(scale, angle), inputs)[0]

    names = ("states", *(f"gradient of {name}" for name in ("scale", "angle", "inputs")))
    return relative_differences(names, passed(in_two_passes, given), passed(one_by_one, given))

"""The scan in two passes against loops over the tokens: time, memory, differences, and time by length."""

from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import WeakSet

import torch
from torch import Tensor

from torsor.bench.clock import take_turns
from torsor.bench.peak_memory import peak_bytes
from torsor.maps import ScaledRotation
from torsor.recurrence import linear_scan
from torsor.recurrence.linear_scan import linear_scan_reference
from torsor.training.memory import keep_freed_memory

# from scales, angles and inputs to the states
Scan = Callable[[Tensor, Tensor, Tensor], Tensor]
SCAN = "scan"


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
    batch: int = 4,
    length: int = 4096,
    heads: int = 8,
    head_dim: int = 32,
    rounds: int = 5,
    lengths: Sequence[int] = (1024, 4096, 16384, 65536, 262144),
) -> dict[str, Any]:
    """Time forward and backward passes in turns, count their memory, and compare their results.

    Args:
        batch: sequences.
        length: tokens of each.
        heads: of the state; the dense loops have a matrix for each.
        head_dim: coordinates of a head, even.
        rounds: turns that each case takes.
        lengths: of one sequence each, at which the scan is timed; in one turn all read equally many tokens.

    Returns:
        A plain dictionary: for a map of all tokens and for maps of each, the median seconds of every case, with its
        ratio to the scan round by round and quartiles, its peak bytes and the bytes that it keeps for the
        gradient; the largest differences from the reference in float64, relative to the largest number;
        and the seconds for a token by length, with the ratio to the shortest.

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
    one, each = (arguments(batch, length, heads, head_dim, own) for own in (False, True))
    shared: dict[str, Scan] = {
        SCAN: in_two_passes,
        "complex loop": complex_loop,
        "dense loop": dense_loop(heads),
        "dense loop, fused": dense_loop(heads, fused=True),
    }
    own: dict[str, Scan] = {SCAN: in_two_passes, "complex loop": complex_loop}
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        **sizes,
        "rounds": rounds,
        "one_map": _cases(shared, one, rounds),
        "a_map_for_each_token": _cases(own, each, rounds),
        "differences": {"one map": _differences(one), "a map for each token": _differences(each)},
        "lengths": _by_length(lengths, heads, head_dim, rounds),
    }


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


def _cases(scans: dict[str, Scan], given: list[Tensor], rounds: int) -> dict[str, dict[str, Any]]:
    timings = take_turns({name: lambda scan=scan: passed(scan, given) for name, scan in scans.items()}, rounds)
    rows = {}
    for name, scan in scans.items():
        ratio, low, high = timings.ratio(name, SCAN)
        rows[name] = {
            "seconds": timings.median(name),
            "over_scan": ratio,
            "quartiles": [low, high],
            **timings.spread(name, SCAN),
            "peak_bytes": peak_bytes(lambda scan=scan: passed(scan, given), given),
            "kept_bytes": kept_bytes(scan, given),
        }
    return rows


def _differences(given: list[Tensor]) -> dict[str, float]:
    given = [each.detach().double().requires_grad_() for each in given]

    def one_by_one(scale: Tensor, angle: Tensor, inputs: Tensor) -> Tensor:
        return linear_scan_reference(ScaledRotation(scale, angle), inputs)[0]

    names = ("states", *(f"gradient of {name}" for name in ("scale", "angle", "inputs")))
    pairs = zip(names, passed(in_two_passes, given), passed(one_by_one, given), strict=True)
    return {name: float(((one - other).abs().max() / other.abs().max()).detach()) for name, one, other in pairs}


def _by_length(lengths: Sequence[int], heads: int, head_dim: int, rounds: int) -> list[dict[str, Any]]:
    longest = max(lengths, default=1)

    def reading(length: int) -> Callable[[], None]:
        given = arguments(1, length, heads, head_dim)

        def read() -> None:
            for _ in range(longest // length):
                passed(in_two_passes, given)

        return read

    timings = take_turns({str(length): reading(length) for length in lengths}, rounds)
    rows = []
    for length in lengths:
        seconds = timings.median(str(length)) / (longest // length * length)
        ratio = seconds / rows[0]["seconds_per_token"] if rows else 1.0
        rows.append({"length": length, "seconds_per_token": seconds, "over_shortest": ratio})
    return rows

"""What the M²RNN recurrence accepts: shapes and heads that fit, one type, gates that are gates, rising boundaries."""

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor


def require_arguments(arguments: Mapping[str, Tensor], state: Tensor | None, cu_seqlens: Tensor | None) -> None:
    """Refuse tensors that are no recurrence together.

    Args:
        arguments: ``q``, ``k``, ``v``, ``weight`` and ``forget``, in this order.
        state: the state before the first element, or None.
        cu_seqlens: the boundaries of packed sequences, or None.

    Raises:
        ValueError: as described at ``m2rnn``; the first mistake found, in one line.
    """
    _require_shapes(arguments, cu_seqlens is not None)
    _require_types(arguments)
    heads = _require_heads(arguments)
    q, v, forget = arguments["q"], arguments["v"], arguments["forget"]
    low, high = (float(each) for each in forget.detach().aminmax())
    if not 0 <= low <= high <= 1:  # false for a gate that is not a number, too
        raise ValueError(f"forget must lie in [0, 1], got {high if low >= 0 else low}")
    sequences = q.shape[0] if cu_seqlens is None else require_boundaries(cu_seqlens, q.shape[-3])
    shape, wide = (sequences, heads, q.shape[-1], v.shape[-1]), torch.promote_types(q.dtype, torch.float32)
    if state is not None and (state.shape != shape or state.dtype != wide):
        raise ValueError(f"state must be {_name(wide)} of shape {shape}, got {_name(state.dtype)} of {_shape(state)}")


def require_boundaries(cu_seqlens: Tensor, length: int) -> int:
    """Refuse what are no boundaries of sequences laid end to end, and count the sequences.

    Raises:
        ValueError: when they are not integers, or do not start at 0, rise and end at the length.
    """
    if cu_seqlens.dtype not in {torch.int64, torch.int32} or cu_seqlens.ndim != 1 or len(cu_seqlens) < 2:
        got = f"{_name(cu_seqlens.dtype)} of shape {_shape(cu_seqlens)}"
        raise ValueError(f"cu_seqlens must hold at least two integers in one axis, got {got}")
    boundaries = cu_seqlens.tolist()
    if boundaries[0] != 0 or boundaries[-1] != length:
        raise ValueError(f"cu_seqlens must go from 0 to the length = {length}, got {boundaries[0]} to {boundaries[-1]}")
    for before, after in pairwise(boundaries):
        if before >= after:
            raise ValueError(f"cu_seqlens must rise, each sequence holding an element, got {after} after {before}")
    return len(boundaries) - 1


def require_clipping(gradient_clip: float | None, clip_mode: str) -> None:
    """Refuse a bound that is no bound, and an unknown mode.

    Raises:
        ValueError: when ``gradient_clip`` is not positive and finite, or ``clip_mode`` is unknown.
    """
    if gradient_clip is not None and not 0 < gradient_clip < math.inf:
        raise ValueError(f"gradient_clip must be positive and finite or None, got {gradient_clip}")
    if clip_mode not in {"total", "carry"}:
        raise ValueError(f'clip_mode must be "total" or "carry", got "{clip_mode}"')


def _require_shapes(arguments: Mapping[str, Tensor], packed: bool) -> None:
    q, v = arguments["q"], arguments["v"]
    if q.ndim != 4 and not (packed and q.ndim == 3):
        raise ValueError(f"q must have shape (batch, length, heads, dim), got {_shape(q)}")
    if packed and q.ndim == 4 and q.shape[0] != 1:
        raise ValueError(f"with cu_seqlens, q must have a batch of 1 or no batch axis, got {_shape(q)}")
    *before, _, key_dim = q.shape
    value_dim = v.shape[-1] if v.ndim else 0
    wanted = {
        "k": (*before, "heads", key_dim),
        "v": (*before, "heads", value_dim),
        "weight": ("heads", value_dim, value_dim),
        "forget": (*before, "heads"),
    }
    for name, shape in wanted.items():
        given = arguments[name].shape
        fits = len(given) == len(shape)
        if not fits or any(want not in ("heads", got) for want, got in zip(shape, given, strict=True)):
            words = ", ".join(map(str, shape))
            raise ValueError(f"{name} must have shape ({words}) beside q and v, got {_shape(arguments[name])}")
    for name, each in arguments.items():
        if not each.numel():
            raise ValueError(f"{name} must not be empty, got shape {_shape(each)}")


def _require_types(arguments: Mapping[str, Tensor]) -> None:
    names = ", ".join(f"{name} {_name(each.dtype)}" for name, each in arguments.items())
    narrow = arguments["q"].dtype
    if not narrow.is_floating_point:
        raise ValueError(f"q must be of floating point, got {_name(narrow)}")
    wide = torch.promote_types(narrow, torch.float32)
    if {arguments[name].dtype for name in ("k", "v")} != {narrow}:
        raise ValueError(f"q, k and v must have one type, got {names}")
    if not {arguments[name].dtype for name in ("weight", "forget")} <= {narrow, wide}:
        raise ValueError(f"weight and forget must have the type of q{_or(narrow, wide)}, got {names}")


def _require_heads(arguments: Mapping[str, Tensor]) -> int:
    counts = {name: each.shape[0 if name == "weight" else -2] for name, each in arguments.items() if name != "forget"}
    counts["forget"] = arguments["forget"].shape[-1]
    heads = max(counts.values())
    if any(heads % count for count in counts.values()):
        got = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise ValueError(f"heads must divide the largest number of them = {heads}, got {got}")
    return heads


def _or(narrow: torch.dtype, wide: torch.dtype) -> str:
    return "" if narrow == wide else f" or {_name(wide)}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _shape(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)

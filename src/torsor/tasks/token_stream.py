"""A stream of tokens as tasks and scores read it."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from torsor.kinds import kind_of
from torsor.tasks.base import IGNORED


@runtime_checkable
class TokenStream(Protocol):
    """Tokens one after the other: a tensor or an array with one axis, or ``torsor.text.TokenShards`` on the disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice, /) -> Any: ...


def require_stream(name: str, stream: TokenStream) -> None:
    """Refuse what has not one axis of integers.

    Raises:
        ValueError: with the shape or the type.
    """
    if not isinstance(stream, TokenStream) or (isinstance(stream, Tensor | np.ndarray) and stream.ndim < 1):
        raise ValueError(f"{name} must be integers with one axis, got {kind_of(stream)}")
    first = np.asarray(stream[:1])
    if first.ndim != 1 or first.dtype.kind not in "iu":
        kind = f"{first.dtype} with {first.ndim} axes" if first.ndim != 1 else str(first.dtype)
        raise ValueError(f"{name} must be integers with one axis, got {kind}")


def rows_of(stream: TokenStream, starts: Int64[np.ndarray, "batch"], length: int) -> Int[Tensor, "batch length"]:
    """Rows of ``length`` tokens that begin at ``starts``, int64, in memory."""
    rows = np.empty((len(starts), length), dtype=np.int64)
    for row, start in zip(rows, starts.tolist(), strict=True):
        row[:] = np.asarray(stream[start : start + length])
    return torch.from_numpy(rows)


def without(targets: Int[Tensor, "batch length"], special: Sequence[int]) -> Int[Tensor, "batch length"]:
    """The targets with -100 in the place of each special token."""
    return targets.masked_fill(torch.isin(targets, torch.tensor(tuple(special), dtype=torch.int64)), IGNORED)

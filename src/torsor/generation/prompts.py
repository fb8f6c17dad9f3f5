"""Texts of different lengths as one batch: packed end to end, or padded on either side."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor


@final
@dataclass(frozen=True)
class Prompts:
    """Sequences of tokens, one for each row of a batch, end to end. Padding is dropped before anything is read.

    Args:
        tokens: of all rows, one row after the other.
        lengths: of the rows, each at least 1.

    Raises:
        ValueError: when there is no row, a row is empty, or the lengths do not sum to the number of tokens.

    Example:
        >>> prompts = Prompts.of([[5, 6, 7], [8]])
        >>> prompts.lengths, [row.tolist() for row in prompts.rows()]
        ((3, 1), [[5, 6, 7], [8]])
    """

    tokens: Int[Tensor, "total"]
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.lengths:
            raise ValueError("prompts must have at least one row, got none")
        if min(self.lengths) < 1:
            raise ValueError(f"every prompt must have at least one token, got none in row {_first_empty(self.lengths)}")
        if self.tokens.shape != (sum(self.lengths),):
            raise ValueError(
                f"lengths must sum to the number of tokens = {tuple(self.tokens.shape)}, got {sum(self.lengths)}"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def rows(self) -> tuple[Int[Tensor, "_"], ...]:
        """Each row's tokens."""
        return self.tokens.split(self.lengths)

    @staticmethod
    def of(rows: Sequence[Sequence[int]], device: torch.device | None = None) -> "Prompts":
        """Lists of tokens.

        Raises:
            ValueError: when there is no row or a row is empty.
        """
        tokens = torch.tensor([token for row in rows for token in row], dtype=torch.int64, device=device)
        return Prompts(tokens, tuple(len(row) for row in rows))

    @staticmethod
    def packed(tokens: Int[Tensor, "total"], bounds: Int[Tensor, "bounds"]) -> "Prompts":
        """Rows end to end: row ``i`` is ``tokens[bounds[i] : bounds[i + 1]]``, as ``cu_seqlens`` has it.

        Raises:
            ValueError: when the bounds do not rise from 0 to the number of tokens.
        """
        places = bounds.tolist()
        if len(places) < 2 or places[0] != 0 or places[-1] != len(tokens):
            raise ValueError(f"bounds must rise from 0 to the number of tokens = {len(tokens)}, got {places}")
        return Prompts(tokens, tuple(end - start for start, end in pairwise(places)))

    @staticmethod
    def padded(tokens: Int[Tensor, "batch length"], mask: Bool[Tensor, "batch length"]) -> "Prompts":
        """Rows padded to one length, on the left or on the right.

        Args:
            tokens: with anything at the padded places.
            mask: True where a token is the row's own; they must lie together.

        Raises:
            ValueError: when a row has no token of its own, or padding between its tokens.
        """
        if mask.shape != tokens.shape or mask.dtype != torch.bool:
            raise ValueError(
                f"mask must be bool of shape {tuple(tokens.shape)}, "
                f"got {str(mask.dtype).removeprefix('torch.')} of {tuple(mask.shape)}"
            )
        runs = mask[:, 0].int() + (mask[:, 1:] & ~mask[:, :-1]).sum(1)
        if (runs > 1).any():
            row = int(runs.argmax())
            raise ValueError(f"padding must lie before or after a row's own tokens, got some between in row {row}")
        return Prompts(tokens[mask], tuple(mask.sum(1).tolist()))


def _first_empty(lengths: Sequence[int]) -> int:
    return next(row for row, length in enumerate(lengths) if length < 1)

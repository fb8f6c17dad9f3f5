"""The states of a batch of sequences, each kept by itself."""

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from torsor.interop.sequence_cache import SequenceCache


@final
class RowCache(SequenceCache):
    """One state for every sequence: a tensor, or tuples of tensors, with a first axis of one.

    Args:
        read: ``read(tokens, state)`` gives the logits of a piece and the state after it.
        states: one for each sequence.
    """

    def __init__(self, read: Callable[[Tensor, Any], tuple[Tensor, Any]], states: Sequence[Any]) -> None:
        self._read = read
        self.states: list[Any] = list(states)

    def __len__(self) -> int:
        return len(self.states)

    def take(self, rows: Sequence[int]) -> None:
        self.states = [self.states[row] for row in rows]

    def read(
        self, tokens: Int[Tensor, "batch length"], kept: Bool[Tensor, "batch length"], steps: int | None
    ) -> Float[Tensor, "batch length classes"]:
        require_no_steps(steps)
        alike: dict[tuple[Any, ...], list[int]] = {}  # what is read as one batch
        for row, count in enumerate(kept.sum(dim=1).tolist()):
            if count:
                alike.setdefault((count, _shapes(self.states[row])), []).append(row)
        pieces: list[tuple[list[int], Tensor]] = []
        for (count, _), rows in alike.items():
            piece = tokens[rows][kept[rows]].view(len(rows), count)
            read, state = self._read(piece, _joined([self.states[row] for row in rows]))
            for number, row in enumerate(rows):
                self.states[row] = _row(state, number)
            pieces.append((rows, read))
        logits = pieces[0][1].new_zeros(*tokens.shape, pieces[0][1].shape[-1])
        for rows, read in pieces:
            logits[rows, : read.shape[1]] = read
        return logits


def require_no_steps(steps: int | None) -> None:
    """Refuse a number of loops where there is no loop.

    Raises:
        ValueError: when one is given.
    """
    if steps is not None:
        raise ValueError(f"steps must be None for a model without a loop, got {steps}")


def _joined(states: Sequence[Any]) -> Any:
    if isinstance(states[0], Tensor):
        return torch.cat(list(states))
    return tuple(_joined(parts) for parts in zip(*states, strict=True))


def _row(state: Any, number: int) -> Any:
    return state[number : number + 1] if isinstance(state, Tensor) else tuple(_row(part, number) for part in state)


def _shapes(state: Any) -> tuple[Any, ...]:
    return tuple(state.shape) if isinstance(state, Tensor) else tuple(_shapes(part) for part in state)

"""The states of a batch of sequences, each kept by itself, as transformers' generation moves them about."""

from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor


@final
class RowCache:
    """One state for every sequence: a tensor, or tuples of tensors, with a first axis of one.

    Sequences that have read different numbers of tokens stand side by side, so that padding is never read. The
    methods without an argument's description are those that ``generate`` calls on its caches.

    Args:
        states: one for each sequence.
    """

    is_compileable = False
    to_legacy_cache = None

    def __init__(self, states: Sequence[Any]) -> None:
        self.states = list(states)
        self.seen = 0

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions have been seen, padding included."""
        return self.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let sequence ``i`` go on from the state of sequence ``beam_idx[i]``."""
        self.states = [self.states[row] for row in beam_idx.tolist()]

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Let every state be followed by its copies."""
        self.states = [state for state in self.states for _ in range(repeats)]

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these sequences alone."""
        self.reorder_cache(indices)

    def taken(self, rows: Sequence[int]) -> Any:
        """The states of several sequences as one of a batch; they must have read equally many tokens."""
        return _joined([self.states[row] for row in rows])

    def put(self, rows: Sequence[int], state: Any) -> None:
        """Put the state of a batch in the places of its sequences."""
        for number, row in enumerate(rows):
            self.states[row] = _row(state, number)

    def form(self, row: int) -> tuple[Any, ...]:
        """What must agree between sequences that are read as one batch."""
        return _shapes(self.states[row])


def _joined(states: Sequence[Any]) -> Any:
    if isinstance(states[0], Tensor):
        return torch.cat(list(states))
    return tuple(_joined(parts) for parts in zip(*states, strict=True))


def _row(state: Any, number: int) -> Any:
    return state[number : number + 1] if isinstance(state, Tensor) else tuple(_row(part, number) for part in state)


def _shapes(state: Any) -> tuple[Any, ...]:
    return tuple(state.shape) if isinstance(state, Tensor) else tuple(_shapes(part) for part in state)

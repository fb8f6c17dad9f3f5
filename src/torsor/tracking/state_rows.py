"""States by their rows: the bits of each word's state, and states of some words joined to one of all."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor


def tensors_of(state: Any) -> Iterator[Tensor]:
    """The tensors in tuples, lists and dictionaries, in order; anything else is passed over."""
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, dict):
        for value in state.values():
            yield from tensors_of(value)
    elif isinstance(state, tuple | list):
        for value in state:
            yield from tensors_of(value)


def bits_of_rows(state: Any, rows: int) -> list[bytes]:
    """For each word the bits of its rows of all tensors: equal where the states are equal to the last bit.

    Args:
        state: as ``torsor.tracking.reading.has_words_first`` admits it.
        rows: how many words it holds.
    """
    parts = [part.detach().cpu().contiguous().reshape(rows, -1).view(torch.uint8) for part in tensors_of(state)]
    return [b"".join(part[row].numpy().tobytes() for part in parts) for row in range(rows)]


def joined(states: Sequence[Any]) -> Any:
    """The states of some words after those of others, of equal form, along the first axis of every tensor."""
    first = states[0]
    if isinstance(first, Tensor):
        return torch.cat(list(states))
    if isinstance(first, dict):
        return {key: joined([state[key] for state in states]) for key in first}
    if isinstance(first, tuple | list):
        return type(first)(joined(list(parts)) for parts in zip(*states, strict=True))
    return first

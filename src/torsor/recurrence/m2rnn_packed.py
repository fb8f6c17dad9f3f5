"""Sequences of different lengths laid end to end, computed together and each as if it were alone."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

State = tuple[Tensor, ...]
"""Tensors whose first axis is the sequence."""
Core = Callable[[Sequence[Tensor], State], tuple[Tensor, State]]
"""``core(inputs, state) -> (outputs, state)`` for inputs "batch length ..." of equal lengths."""


def packed(core: Core, inputs: Sequence[Tensor], state: State, boundaries: Sequence[int]) -> tuple[Tensor, State]:
    """The outputs "1 length ..." and last states of sequences that lie between boundaries of one long sequence.

    The longest come first and those that have ended leave the batch, so that nothing is padded: a pad,
    even one that keeps the state, would clip a gradient once more.

    Args:
        core: the recurrence of a batch of equal lengths. It must give in two pieces what it gives in one.
        inputs: each "1 length ...".
        state: "sequences ...", before the first element of each.
        boundaries: from 0 to the length, rising.
    """
    starts, ends = boundaries[:-1], boundaries[1:]
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]
    order = sorted(range(len(lengths)), key=lambda number: -lengths[number])
    rising = sorted(set(lengths))
    device = inputs[0].device
    place = torch.tensor(order, device=device)
    first = torch.tensor(starts, device=device)[place, None]
    state = tuple(part[place] for part in state)
    outputs, positions, ended = [], [], []
    for begin, end in zip([0, *rising], rising, strict=False):
        running = sum(length >= end for length in lengths)
        if running < len(state[0]):
            ended.append(tuple(part[running:] for part in state))
            state = tuple(part[:running] for part in state)
        here = first[:running] + torch.arange(begin, end, device=device)
        output, state = core([each[0, here] for each in inputs], state)
        outputs.append(output.flatten(0, 1))
        positions.append(here.flatten())
    joined = torch.cat(outputs)[torch.cat(positions).argsort()]
    back = place.argsort()
    return joined[None], tuple(torch.cat(parts)[back] for parts in zip(state, *reversed(ended), strict=True))

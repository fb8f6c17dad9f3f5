"""Sequences of different lengths laid end to end, computed together and each as if it were alone."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Core = Callable[[Sequence[Tensor], Tensor], tuple[Tensor, Tensor]]
"""``core(inputs, state) -> (outputs, state)`` for inputs "batch length ..." of equal lengths."""


def packed(core: Core, inputs: Sequence[Tensor], state: Tensor, boundaries: Sequence[int]) -> tuple[Tensor, Tensor]:
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
    place = torch.tensor(order, device=state.device)
    first = torch.tensor(starts, device=state.device)[place, None]
    state = state[place]
    outputs, positions, ended = [], [], []
    for begin, end in zip([0, *rising], rising, strict=False):
        running = sum(length >= end for length in lengths)
        if running < len(state):
            state, last = state.split([running, len(state) - running])
            ended.append(last)
        here = first[:running] + torch.arange(begin, end, device=state.device)
        output, state = core([each[0, here] for each in inputs], state)
        outputs.append(output.flatten(0, 1))
        positions.append(here.flatten())
    joined = torch.cat(outputs)[torch.cat(positions).argsort()]
    return joined[None], torch.cat([state, *reversed(ended)])[place.argsort()]

"""The M²RNN recurrence in kernels of Triton: a program carries some rows of one head's state through time."""

from collections.abc import Sequence
from typing import final

import torch
import triton
from torch import Tensor

from torsor.recurrence import m2rnn_kernels
from torsor.recurrence.m2rnn_chunked import parts_of
from torsor.recurrence.m2rnn_passes import Passes

# Numbers of the state that one program carries; more would not fit its registers. Its rows do not depend on each other.
TILE = 1024


@final
class InKernels(Passes):
    """In two kernels: one walks forward and computes the states of a chunk again, one walks back through a chunk.

    As ``InChunks`` in what is kept, in the work and in both ways to clip. A sum over programs is taken in one order,
    so that two runs are equal bit for bit.
    """

    def forward(self, inputs: Sequence[Tensor], state: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
        inputs = [_in_memory(each) for each in inputs]
        q, _, v = inputs[:3]
        parts, sizes = parts_of(q.shape[1]), _Sizes(inputs, state.shape)
        outputs = v.new_empty(sizes.tiles, *q.shape[:2], *state.shape[1::2])
        kept = state.new_empty(len(parts) if keep else 0, *state.shape)
        last = torch.empty_like(state, memory_format=torch.contiguous_format)
        sizes.advance(inputs, _in_memory(state), slice(0, q.shape[1]), outputs, kept, parts[0].stop, last)
        return _sum_of_tiles(outputs), last, kept

    def backward(
        self, grads: Sequence[Tensor], inputs: Sequence[Tensor], kept: Tensor, clip: float | None, carry_alone: bool
    ) -> tuple[Tensor, ...]:
        inputs = [_in_memory(each) for each in inputs]
        q, _, v, weight, _ = inputs
        parts, sizes = parts_of(q.shape[1]), _Sizes(inputs, kept.shape[1:])
        read, carry = _in_memory(grads[0]), _in_memory(grads[1]).clone()
        states = kept.new_empty(parts[0].stop, *kept.shape[1:])
        of_weight = v.new_zeros(sizes.tiles, *carry.shape[:2], *weight.shape[1:])
        found = [torch.empty_like(each) for each in inputs]
        for number, part in reversed(list(enumerate(parts))):
            sizes.advance(inputs, kept[number], part, None, states, 1, None)
            parts_found = sizes.sweep(inputs, part, states, read, carry, of_weight, clip, carry_alone)
            for whole, each in zip((*found[:3], found[4].unsqueeze(-1)), parts_found, strict=True):
                whole[:, part] = each.unflatten(2, (whole.shape[2], -1)).sum(3)
        found[3] = of_weight.sum((0, 1)).unflatten(0, (len(weight), -1)).sum(1)
        return *found, carry


@final
class _Sizes:
    """What every launch is told, and the launches."""

    def __init__(self, inputs: Sequence[Tensor], shape: Sequence[int]) -> None:
        q, k, v, weight, forget = inputs
        self.batch, self.heads, key_dim, value_dim = shape
        columns = max(16, triton.next_power_of_2(value_dim))
        rows = max(16, min(TILE // columns, triton.next_power_of_2(key_dim)))
        self.tiles = triton.cdiv(key_dim, rows)
        self.grid = self.batch * self.heads, self.tiles
        self.told = {
            "length": q.shape[1],
            "heads": self.heads,
            # how many neighbours share one of each
            "of_q": self.heads // q.shape[2],
            "of_k": self.heads // k.shape[2],
            "of_v": self.heads // v.shape[2],
            "of_weight": self.heads // len(weight),
            "of_forget": self.heads // forget.shape[2],
            "key_dim": key_dim,
            "value_dim": value_dim,
            "rows": rows,
            "columns": columns,
            "enable_fp_fusion": True,
        }

    def advance(
        self,
        inputs: Sequence[Tensor],
        state: Tensor,
        part: slice,
        outputs: Tensor | None,
        states: Tensor,
        every: int,
        last: Tensor | None,
    ) -> None:
        """Write the outputs, the state before every so many steps, and the last; whichever is wanted."""
        q, k, v, weight, forget = inputs
        with torch.cuda.device_of(state):
            m2rnn_kernels.advance[self.grid](
                *(q, k, v, weight, forget, state, outputs, states, last, part.start, part.stop - part.start, every),
                **self.told,
                reads=outputs is not None,
                keeps=len(states) > 0,
                ends=last is not None,
            )

    def sweep(
        self,
        inputs: Sequence[Tensor],
        part: slice,
        states: Tensor,
        read: Tensor,
        carry: Tensor,
        of_weight: Tensor,
        clip: float | None,
        carry_alone: bool,
    ) -> tuple[Tensor, ...]:
        """Take ``carry`` from the end of a part to its start, add to ``of_weight``, give the part's other gradients."""
        q, k, v, weight, forget = inputs
        of_length = self.batch, part.stop - part.start, self.heads
        of_q, of_k = q.new_empty(2, *of_length, q.shape[-1])
        of_v = v.new_empty(self.tiles, *of_length, v.shape[-1])
        of_forget = v.new_empty(self.tiles, *of_length, 1)
        with torch.cuda.device_of(read):
            m2rnn_kernels.sweep[self.grid](
                *(q, k, v, weight, forget, states, read, carry, of_weight, of_q, of_k, of_v, of_forget),
                *(part.start, part.stop - part.start),
                **self.told,
                bound=clip,  # known when the kernel is compiled: an argument would be rounded to float32
                carry_alone=carry_alone,
            )
        return of_q, of_k, _sum_of_tiles(of_v), _sum_of_tiles(of_forget)


def _in_memory(x: Tensor) -> Tensor:
    """As a kernel reads it: in one piece, and with the sign that torch may have put off."""
    return x.resolve_neg().contiguous()


def _sum_of_tiles(x: Tensor) -> Tensor:
    return x[0] if len(x) == 1 else x.sum(0)

"""The M²RNN recurrence in chunks: the states between chunks are kept, the others computed again on the way back."""

import math
from collections.abc import Callable, Sequence
from typing import final

import torch
from torch import Tensor

from torsor.recurrence.m2rnn_passes import Passes

# The largest product of a key's and a value's entries from which a state is taken to have entries of that size, too.
LARGE_WRITE = 1.0


def chunk_of(length: int) -> int:
    """How many steps a chunk has: at least 16, and so many that what is kept grows as the root of the length.

    From 8 to 128 steps the time differs by 6 % at most (one core, batch 4, length 1024, 8 heads of 64 x 16).
    """
    return max(16, math.isqrt(length // 3))


@final
class InChunks(Passes):
    """In operations of torch, a chunk of steps at a time.

    Forward, one state of every chunk is kept; backward, the states of one chunk at a time are computed
    again, bit for bit. Inside, axes are ordered "steps heads batch ...": a step is then one product for each head.
    """

    def forward(self, inputs: Sequence[Tensor], state: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, weight, forget = inputs
        batch, length = q.shape[:2]
        heads, key_dim, value_dim = state.shape[1:]
        parts = parts_of(length)
        matrices = _joined(weight, heads)
        states = state.new_empty(parts[0].stop + 1, heads, batch, key_dim, value_dim)
        states[0] = state.transpose(0, 1)
        proposed = torch.empty_like(states[1:])
        kept = states.new_empty(len(parts) if keep else 0, *states.shape[1:])
        outputs = q.new_empty(batch, length, heads, value_dim)
        steps = 0
        for number, part in enumerate(parts):
            if number:
                states[0] = states[steps]
            if len(kept):
                kept[number] = states[0]
            steps = part.stop - part.start
            _advance(states, proposed[:steps], matrices, *_inputs(k, v, forget, part, heads))
            read = _rows(q, part, heads).unsqueeze(-2) @ states[1 : steps + 1]
            outputs[:, part] = read.squeeze(-2).permute(2, 0, 1, 3)
        return outputs, states[steps].transpose(0, 1).contiguous(), kept

    def backward(
        self, grads: Sequence[Tensor], inputs: Sequence[Tensor], kept: Tensor, clip: float | None, carry_alone: bool
    ) -> tuple[Tensor, ...]:
        q, k, v, weight, forget = inputs
        grad_outputs, grad_last = grads
        parts, heads = parts_of(q.shape[1]), kept.shape[1]
        matrices = _joined(weight, heads)
        turned = matrices.mT.contiguous()
        grad_matrices = torch.zeros_like(matrices)
        grad_q, grad_k, grad_v, grad_forget = (torch.empty_like(each) for each in (q, k, v, forget))
        carry = grad_last.transpose(0, 1).contiguous().clone()
        states = kept.new_empty(parts[0].stop + 1, *kept.shape[1:])
        buffers = kept.new_empty(2, parts[0].stop, *kept.shape[1:])
        for number, part in reversed(list(enumerate(parts))):
            steps = part.stop - part.start
            keys, values, gates = _inputs(k, v, forget, part, heads)
            queries, read = _rows(q, part, heads), _rows(grad_outputs, part, heads)
            into_product, into_gate = buffers[:, :steps]
            states[0] = kept[number]
            _advance(states, into_product, matrices, keys, values, gates)
            before, after = states[:steps], states[1 : steps + 1]
            # with H the state before, Z what the tanh gave: H - Z for the gate, (1 - f) (1 - Z^2) for the product
            torch.sub(before, into_product, out=into_gate)
            into_product.square_().sub_(1).mul_(gates - 1)
            _sweep(carry, into_product, into_gate, turned, queries, read, gates, clip, carry_alone)
            grad_matrices += (before.flatten(2, 3).mT @ into_product.flatten(2, 3)).sum(0)
            _put(grad_q, part, read.unsqueeze(-2) @ after.mT)
            _put(grad_k, part, values.unsqueeze(-2) @ into_product.mT)
            _put(grad_v, part, keys.unsqueeze(-2) @ into_product)
            _put(grad_forget.unsqueeze(-1), part, into_gate.sum((-2, -1))[..., None, None])
        grad_weight = grad_matrices.unflatten(0, (weight.shape[0], -1)).sum(1)
        return grad_q, grad_k, grad_v, grad_weight, grad_forget, carry.transpose(0, 1)


def _advance(states: Tensor, proposed: Tensor, matrices: Tensor, keys: Tensor, values: Tensor, gates: Tensor) -> None:
    """Fill ``states[1:]`` from ``states[0]``, and ``proposed`` with what the tanh gives at every step."""
    doubled = matrices * 2  # exact, and so is the other doubling: the tanh is taken of half of what they give
    torch.mul(keys.unsqueeze(-1) * 2, values.unsqueeze(-2), out=proposed)
    tanh_of_half_ = _choose_tanh(keys, values)
    steps = zip(
        proposed.unbind(),
        proposed.flatten(2, 3).unbind(),
        states.unbind(),
        states.flatten(2, 3).unbind(),
        states[1:].unbind(),
        gates.unbind(),
        strict=False,  # the last chunk may be shorter than the buffer of states
    )
    for new, new_rows, before, before_rows, after, gate in steps:
        new_rows.baddbmm_(before_rows, doubled)
        tanh_of_half_(new, after)
        torch.lerp(new, before, gate, out=after)


def _choose_tanh(keys: Tensor, values: Tensor) -> Callable[[Tensor, Tensor], None]:
    """How to replace ``x`` by tanh(x / 2), given a scratch tensor: on a CPU, torch's own takes most of a step.

    By the sigmoid it takes a fifth, but its rounding error is that of a number near one. So where nothing large is
    written, it is taken by expm1, in half the time of torch's own and right near zero too.
    """
    if keys.device.type != "cpu":
        return _by_tanh
    return _by_sigmoid if float(keys.abs().amax() * values.abs().amax()) > LARGE_WRITE else _by_expm1


def _by_tanh(x: Tensor, scratch: Tensor) -> None:
    x.mul_(0.5).tanh_()


def _by_sigmoid(x: Tensor, scratch: Tensor) -> None:
    x.sigmoid_().mul_(2).sub_(1)


def _by_expm1(x: Tensor, scratch: Tensor) -> None:
    x.clamp_(-40, 40).expm1_()  # the tanh is one from there on, and expm1 would overflow further out
    torch.add(x, 2, out=scratch)
    x.div_(scratch)


def _sweep(
    carry: Tensor,
    into_product: Tensor,
    into_gate: Tensor,
    turned: Tensor,
    queries: Tensor,
    grads: Tensor,
    gates: Tensor,
    clip: float | None,
    carry_alone: bool,
) -> None:
    """Take the gradient of a chunk's last state back to its first, in place, and multiply it in at every step."""
    carry_rows = carry.flatten(1, 2)
    steps = zip(
        into_product.unbind(),
        into_product.flatten(2, 3).unbind(),
        into_gate.unbind(),
        queries.unsqueeze(-1).unbind(),
        grads.unsqueeze(-2).unbind(),
        gates.unbind(),
        strict=True,
    )
    for product, product_rows, change, query, grad, gate in reversed(list(steps)):
        if clip is not None and carry_alone:
            carry.clamp_(-clip, clip)
        carry.addcmul_(query, grad)
        if clip is not None and not carry_alone:
            carry.clamp_(-clip, clip)
        change.mul_(carry)
        product.mul_(carry)
        carry.mul_(gate)
        carry_rows.baddbmm_(product_rows, turned)


def parts_of(length: int) -> list[slice]:
    """The steps of every chunk, which are equally many in all but the last."""
    chunk = min(chunk_of(length), length)
    return [slice(start, min(start + chunk, length)) for start in range(0, length, chunk)]


def _inputs(k: Tensor, v: Tensor, forget: Tensor, part: slice, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    return _rows(k, part, heads), _rows(v, part, heads), _rows(forget.unsqueeze(-1), part, heads).unsqueeze(-1)


def _rows(x: Tensor, part: slice, heads: int) -> Tensor:
    """A chunk of "batch length own dim" as "steps heads batch dim", each of its own heads repeated."""
    x = x[:, part].permute(1, 2, 0, 3)
    own = x.shape[1]
    return x.unsqueeze(2).expand(-1, -1, heads // own, -1, -1).flatten(1, 2).contiguous()


def _put(grad: Tensor, part: slice, rows: Tensor) -> None:
    """Sum "steps heads batch 1 dim" over the heads that were repeated, and write it into "batch length own dim"."""
    own = grad.shape[2]
    grad[:, part] = rows.squeeze(-2).unflatten(1, (own, -1)).sum(2).permute(2, 0, 1, 3)


def _joined(weight: Tensor, heads: int) -> Tensor:
    return weight.repeat_interleave(heads // weight.shape[0], dim=0)

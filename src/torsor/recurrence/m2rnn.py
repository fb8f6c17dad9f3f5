"""The M²RNN recurrence: a matrix state that each step mixes by a free matrix inside a tanh, behind a gate."""

from collections.abc import Sequence
from typing import Any, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.recurrence.kernels import kernels_serve
from torsor.recurrence.m2rnn_chunked import InChunks
from torsor.recurrence.m2rnn_packed import packed
from torsor.recurrence.m2rnn_passes import Passes, through
from torsor.recurrence.m2rnn_requirements import require_arguments, require_clipping

ClipMode = Literal["total", "carry"]


def m2rnn(
    q: Float[Tensor, "*batch length query_heads key_dim"],
    k: Float[Tensor, "*batch length key_heads key_dim"],
    v: Float[Tensor, "*batch length value_heads value_dim"],
    weight: Float[Tensor, "weight_heads value_dim value_dim"],
    forget: Float[Tensor, "*batch length forget_heads"],
    state: Float[Tensor, "sequences heads key_dim value_dim"] | None = None,
    gradient_clip: float | None = None,
    clip_mode: ClipMode = "total",
    cu_seqlens: Int[Tensor, "boundaries"] | None = None,
) -> tuple[Float[Tensor, "*batch length heads value_dim"], Float[Tensor, "sequences heads key_dim value_dim"]]:
    r"""Carry a matrix through time, in every head: write by an outer product, mix, squash, keep a part, read.

    .. math::

        Z_t = \tanh(H_{t-1} W + k_t v_t^\top), \qquad H_t = f_t H_{t-1} + (1 - f_t) Z_t, \qquad y_t = H_t^\top q_t

    ``weight`` acts on the rows of the state, from the right. Nothing is normalised or scaled. There are
    as many heads as the argument with the most has; the others' heads are repeated, each for a run of
    neighbours. Half precision is computed and carried in float32, float64 in float64. On a GPU kernels of Triton
    compute it, where ``docs/kernels.md`` says so.

    Guarantees, each a test in ``tests/laws/test_m2rnn_laws.py`` or ``tests/fast/test_m2rnn.py``:

    * it equals ``m2rnn_reference`` in outputs, state and every gradient, at any length;
    * in float32 it is nearly as exact as the reference, where writes are small too: within 1e-6 of the largest number
      and twice the reference's own error;
    * a sequence in pieces equals the sequence in one, in its gradients too, clipped or not;
    * packed sequences equal each sequence alone, in outputs, states and gradients;
    * a row of the state is a vector RNN of its own, which its element of k drives;
    * at a gate of 1 the state stays bit for bit, at a gate of 0 nothing of it remains but what the tanh lets through;
    * no entry of the state leaves [-1, 1], if the first has none outside;
    * for the gradient, the memory kept besides the arguments grows as the root of the length.

    Nothing is promised of the norm of a state, nor does the matrix keep one: it is free.

    Args:
        q: queries. With ``cu_seqlens``, the batch is 1 or its axis is left out, here and below.
        k: keys.
        v: values.
        weight: :math:`W` of every head.
        forget: the gate :math:`f_t`, in [0, 1]: 1 keeps.
        state: the state before the first element, in float32 for half precision; None for zeros.
        gradient_clip: a bound on the elements of the gradient that reaches a state; None for none.
        clip_mode: ``"total"`` clips all of the gradient that reaches :math:`H_t`, from :math:`y_t` and from the
            step after. ``"carry"`` clips what comes from the step after, or to the last state, alone. They
            differ as soon as :math:`q_t` times the gradient of :math:`y_t` is not small beside the bound.
        cu_seqlens: the boundaries of sequences laid end to end, from 0 to the length; None for one
            sequence in each row of the batch.

    Returns:
        The outputs, and the state after the last element of every sequence.

    Raises:
        ValueError: when shapes do not fit together, the heads of one do not divide the most, types
            differ, an argument is empty, a gate is outside [0, 1], the boundaries do not start at 0,
            rise and end at the length, the state has another shape or type, or the clip is no bound.

    Example:
        >>> q, k, v = torch.ones(1, 3, 1, 4), torch.ones(1, 3, 1, 4), torch.ones(1, 3, 2, 5)
        >>> outputs, state = m2rnn(q, k, v, weight=torch.eye(5)[None], forget=torch.full((1, 3, 1), 0.5))
        >>> outputs.shape, state.shape
        (torch.Size([1, 3, 2, 5]), torch.Size([1, 2, 4, 5]))
    """
    require_arguments({"q": q, "k": k, "v": v, "weight": weight, "forget": forget}, state, cu_seqlens)
    require_clipping(gradient_clip, clip_mode)
    wide = torch.promote_types(q.dtype, torch.float32)
    state = _start(q, k, v, weight, forget, cu_seqlens) if state is None else state
    matrices, passes = weight.to(wide), _passes(state)

    def core(inputs: Sequence[Tensor], state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        q, k, v, forget = inputs
        outputs, last = through(passes, (q, k, v, matrices, forget), state[0], gradient_clip, clip_mode == "carry")
        return outputs, (last,)

    inputs = [each.to(wide) for each in (q, k, v, forget)]
    if cu_seqlens is None:
        outputs, (state,) = core(inputs, (state,))
        return outputs.to(q.dtype), state
    bare = q.ndim == 3
    inputs = [each[None] if bare else each for each in inputs]
    outputs, (state,) = packed(core, inputs, (state,), cu_seqlens.tolist())
    return (outputs[0] if bare else outputs).to(q.dtype), state


def m2rnn_reference(
    q: Float[Tensor, "*batch length query_heads key_dim"],
    k: Float[Tensor, "*batch length key_heads key_dim"],
    v: Float[Tensor, "*batch length value_heads value_dim"],
    weight: Float[Tensor, "weight_heads value_dim value_dim"],
    forget: Float[Tensor, "*batch length forget_heads"],
    state: Float[Tensor, "sequences heads key_dim value_dim"] | None = None,
    gradient_clip: float | None = None,
    clip_mode: ClipMode = "total",
    cu_seqlens: Int[Tensor, "boundaries"] | None = None,
) -> tuple[Float[Tensor, "*batch length heads value_dim"], Float[Tensor, "sequences heads key_dim value_dim"]]:
    """The formula, written down: one step after the other, one sequence after the other, the gradient by autograd."""
    require_arguments({"q": q, "k": k, "v": v, "weight": weight, "forget": forget}, state, cu_seqlens)
    require_clipping(gradient_clip, clip_mode)
    state = _start(q, k, v, weight, forget, cu_seqlens) if state is None else state
    if cu_seqlens is not None:
        axis, outputs, states = q.ndim - 3, [], []
        pieces = [each.split(cu_seqlens.diff().tolist(), axis) for each in (q, k, v, forget)]
        for first, *piece in zip(state, *pieces, strict=True):
            query, key, value, gate = (each.flatten(0, axis)[None] for each in piece)
            output, last = m2rnn_reference(query, key, value, weight, gate, first[None], gradient_clip, clip_mode)
            outputs.append(output)
            states.append(last)
        joined = torch.cat(outputs, dim=1)
        return joined if axis else joined[0], torch.cat(states)
    heads, wide, carried = state.shape[1], state.dtype, state
    matrices = weight.to(wide).repeat_interleave(heads // len(weight), dim=0)
    spread = [x.to(wide).repeat_interleave(heads // x.shape[2], dim=2) for x in (q, k, v, forget)]
    outputs = []
    # unbind and stack: indexing inside the loop would make the backward pass quadratic in the length
    for query, key, value, gate in zip(*(each.unbind(1) for each in spread), strict=True):
        proposed = torch.tanh(carried @ matrices + key.unsqueeze(-1) * value.unsqueeze(-2))
        gate = gate[:, :, None, None]
        free = gate * carried + (1 - gate) * proposed
        carried = free if gradient_clip is None else _clip_gradient(free, gradient_clip)
        outputs.append((query.unsqueeze(-2) @ (carried if clip_mode == "total" else free)).squeeze(-2))
    return torch.stack(outputs, dim=1).to(q.dtype), carried


def _clip_gradient(x: Tensor, bound: float) -> Tensor:
    clipped: Any = _ClippedGradient.apply(x, bound)
    return clipped


@final
class _ClippedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bound: float) -> Tensor:
        ctx.bound = bound
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return grads[0].clamp(-ctx.bound, ctx.bound), None


def _passes(state: Tensor) -> Passes:
    if not kernels_serve(state, value_dim=state.shape[-1]):
        return InChunks()
    from torsor.recurrence.m2rnn_triton import InKernels  # here, since it imports Triton, which is optional

    return InKernels()


def _start(q: Tensor, k: Tensor, v: Tensor, weight: Tensor, forget: Tensor, cu_seqlens: Tensor | None) -> Tensor:
    heads = max(q.shape[-2], k.shape[-2], v.shape[-2], len(weight), forget.shape[-1])
    sequences = len(q) if cu_seqlens is None else len(cu_seqlens) - 1
    wide = torch.promote_types(q.dtype, torch.float32)
    return q.new_zeros(sequences, heads, q.shape[-1], v.shape[-1], dtype=wide)

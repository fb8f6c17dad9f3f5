"""Causal self-attention with rotary positions and normalised queries and keys."""

from typing import Any, final

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from torsor.derivatives import without_derivative
from torsor.layers.feedforward import residual_linear
from torsor.layers.norm import inverse_rms
from torsor.layers.rotary import rotate
from torsor.layers.value_gate import ValueGate

# The published normalisation of queries and keys has no weight, and the machine epsilon of float32 for its own.
QUERY_KEY_EPS = 1.1920928955078125e-07
# Above this length the square of scores no longer fits the cache, and torch's blockwise attention is faster.
SCORES_LENGTH = 256


@final
class Attention(nn.Module):
    r"""Add causal attention to a residual stream.

    Queries and keys are turned by their position (rotary, adjacent pairs) and then normalised to
    unit root mean square; scores are divided by :math:`\sqrt{d}` of a head. No bias, no dropout. With
    a gate, each token's value embedding is weighed by it and added to the token's values.

    Args:
        width: of the residual stream, a multiple of ``2 * heads``.
        heads: number of heads.
        value_gate: of as many heads; None for an attention without value embeddings.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``2 * heads``, the gate has another
            number of heads, or value embeddings are given to an attention without a gate.
    """

    def __init__(self, width: int, heads: int, value_gate: ValueGate | None = None) -> None:
        super().__init__()
        if heads < 1 or width < 1 or width % (2 * heads):
            raise ValueError(f"width must be a positive multiple of 2 * heads = {2 * heads}, got {width}")
        if value_gate is not None and value_gate.heads != heads:
            raise ValueError(f"value_gate must have the attention's number of heads = {heads}, got {value_gate.heads}")
        self.heads = heads
        self.value_gate = value_gate
        self.query: nn.Linear = nn.Linear(width, width, bias=False)
        self.key: nn.Linear = nn.Linear(width, width, bias=False)
        self.value: nn.Linear = nn.Linear(width, width, bias=False)
        self.out: nn.Linear = nn.Linear(width, width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        residual: Float[Tensor, "batch length width"],
        rotary: Complex[Tensor, "length half"],
        values: Float[Tensor, "batch length width"] | None = None,
        gain: Float[Tensor, "width"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """Attention over ``gain * x``, added to ``residual``; the gain is folded into the matrices."""
        # three matrices for the optimizer, one product for the machine; joining them costs a thousandth of it
        weight = torch.cat([self.query.weight, self.key.weight, self.value.weight])
        joined = linear(x, weight if gain is None else weight * gain)
        joined = joined.unflatten(-1, (3, self.heads, -1))
        if values is not None:
            if self.value_gate is None:
                raise ValueError("values must be None for an attention without a value_gate, got a tensor")
            joined[:, :, 2] += self.value_gate(x, values, gain)
        mixed = causal_attention(joined, rotary)
        return residual_linear(residual, mixed, self.out.weight)


def causal_attention(
    joined: Float[Tensor, "batch length 3 heads head_dim"], rotary: Complex[Tensor, "length half"]
) -> Float[Tensor, "batch length width"]:
    """Equal to ``causal_attention_reference`` in outputs and first derivatives; short ones on a CPU are fused."""
    by_hand = joined.device.type == "cpu" and joined.dtype != torch.bfloat16 and joined.shape[1] <= SCORES_LENGTH
    if by_hand and not torch.compiler.is_compiling():  # a compiler fuses by itself, and cannot see into strides
        return _CausalAttention.apply(joined, rotary)
    query, key, value = _turned_and_normalised(joined, rotary)
    return scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).flatten(2)


def causal_attention_reference(
    joined: Float[Tensor, "batch length 3 heads head_dim"], rotary: Complex[Tensor, "length half"]
) -> Float[Tensor, "batch length width"]:
    """The formula, written down."""
    query, key, value = _turned_and_normalised(joined, rotary)
    scores = query @ key.mT / query.shape[-1] ** 0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return (scores.masked_fill(future, float("-inf")).softmax(-1) @ value).transpose(1, 2).flatten(2)


def _turned_and_normalised(joined: Tensor, rotary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = joined.unbind(2)

    def prepare(x: Tensor) -> Tensor:
        turned = rotate(x, rotary)
        wide = turned.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * (wide.square().mean(-1, keepdim=True) + QUERY_KEY_EPS).rsqrt()).to(x.dtype).transpose(1, 2)

    return prepare(query), prepare(key), value.transpose(1, 2)


@final
class _CausalAttention(torch.autograd.Function):
    """Turn, normalise, score, weigh and mix by hand: two batched products forward, four backward."""

    @staticmethod
    def forward(ctx: Any, joined: Tensor, rotary: Tensor) -> Tensor:
        batch, length, _, heads, head_dim = joined.shape
        query_key = joined[:, :, :2]
        inverse = inverse_rms(query_key, QUERY_KEY_EPS)
        turned = torch.view_as_complex(query_key.unflatten(-1, (-1, 2))) * rotary[:, None, None]
        unit = joined.new_empty(2, batch, heads, length, head_dim)
        torch.mul(_by_head(torch.view_as_real(turned).flatten(-2)), _by_head(inverse), out=unit)
        query, key = unit.view(2, batch * heads, length, head_dim)
        value = joined[:, :, 2].transpose(1, 2).reshape(batch * heads, length, head_dim)
        scores = torch.baddbmm(joined.new_empty(()), query, key.mT, beta=0, alpha=head_dim**-0.5)
        future = joined.new_full((length, length), float("-inf")).triu_(1)
        weights = scores.add_(future).softmax(-1)
        mixed = torch.bmm(weights, value)
        ctx.save_for_backward(unit, inverse, value, weights, mixed, rotary)
        return mixed.view(batch, heads, length, head_dim).transpose(1, 2).reshape(batch, length, heads * head_dim)

    @staticmethod
    @without_derivative("causal_attention")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        unit, inverse, value, weights, mixed, rotary = ctx.saved_tensors
        _, batch, heads, length, head_dim = unit.shape
        query, key = unit.view(2, batch * heads, length, head_dim)
        grad = grad.view(batch, length, heads, head_dim).transpose(1, 2).reshape(batch * heads, length, head_dim)
        grad_joined = grad.new_empty(batch, length, 3, heads, head_dim)
        grad_value = torch.bmm(weights.mT, grad).view(batch, heads, length, head_dim)
        grad_joined[:, :, 2] = grad_value.transpose(1, 2)
        mean = (grad * mixed).sum(-1, keepdim=True)
        grad_scores = torch.bmm(grad, value.mT).sub_(mean).mul_(weights)
        grad_unit = torch.empty_like(unit)
        scale = head_dim**-0.5
        into_query, into_key = grad_unit.view(2, batch * heads, length, head_dim)
        torch.baddbmm(into_query, grad_scores, key, beta=0, alpha=scale, out=into_query)
        torch.baddbmm(into_key, grad_scores.mT, query, beta=0, alpha=scale, out=into_key)
        along = (grad_unit * unit).mean(-1, keepdim=True)
        grad_unit.addcmul_(unit, along, value=-1)
        back = _by_position(grad_unit).mul(inverse)
        turned = torch.view_as_complex(back.unflatten(-1, (-1, 2))) * rotary.conj()[:, None, None]
        grad_joined[:, :, :2] = torch.view_as_real(turned).flatten(-2)
        return grad_joined, None


def _by_head(x: Tensor) -> Tensor:
    """From "batch length kind heads dim" to "kind batch heads length dim"."""
    return x.permute(2, 0, 3, 1, 4)


def _by_position(x: Tensor) -> Tensor:
    """From "kind batch heads length dim" to "batch length kind heads dim"."""
    return x.permute(1, 3, 0, 2, 4)

"""Causal attention between group elements by the similarity of their matrices, without any projection."""

from typing import Any, final

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from torsor.derivatives import without_derivative
from torsor.groups import MatrixGroup
from torsor.layers.alibi import distance_bias
from torsor.layers.full_precision import full_dtype, full_precision
from torsor.transitions.base import Float32Island

# In units of similarity for each position; from the usual 2^-8 of one head training was seen to end worse.
INITIAL_SLOPE = 0.5


@final
class GroupAttention(Float32Island):
    r"""The weighted mean :math:`A_i = \sum_{j \le i} \alpha_{ij} H_j` of the states up to each position.

    The scores are :math:`\beta \operatorname{Re} \operatorname{tr}(H_i^* H_j) - m (i - j)` and :math:`\alpha` is
    their softmax. The factor :math:`\beta`, an inverse temperature, and the slope :math:`m` are learned and
    may take either sign. The mean is a matrix that lies off the group.

    At the start :math:`\beta` is one over ``dim``, so that the scores of similarity lie between -1 and 1.
    From 1 a position would attend almost to its own token alone, whose similarity is ``dim``, and
    training was seen to end worse. The slope starts at 0.5.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * causal: a state changes no mean before it;
    * moving all states by one element from the left moves the means by it;
    * a sequence in pieces, each handed the states ``seen`` before it, equals the sequence in one.

    Args:
        group: that the states lie on.
    """

    def __init__(self, group: MatrixGroup) -> None:
        super().__init__()
        self.group = group
        self.inverse_temperature: nn.Parameter = nn.Parameter(torch.tensor(1 / group.dim, dtype=full_dtype()))
        self.slope: nn.Parameter = nn.Parameter(torch.tensor(INITIAL_SLOPE, dtype=full_dtype()))

    def forward(
        self, states: Inexact[Tensor, "batch length ..."], past: Float[Tensor, "batch past ambient"] | None = None
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        """The means, and all states so far as flat real vectors: the next piece's ``past``."""
        flat = self.group.flatten(states)
        seen = flat if past is None else torch.cat([past, flat], dim=1)
        return self.group.unflatten(trace_attention(flat, seen, self.inverse_temperature, self.slope)), seen


def trace_attention(
    states: Float[Tensor, "batch length ambient"],
    seen: Float[Tensor, "batch seen ambient"],
    inverse_temperature: Float[Tensor, ""],
    slope: Float[Tensor, ""],
) -> Float[Tensor, "batch length ambient"]:
    """Equal to ``trace_attention_reference`` in outputs and first derivatives; a whole sequence at once is fused.

    Args:
        states: the last ``length`` of those seen, which the means are taken for.
        seen: all states so far, which the means are taken of.
        inverse_temperature: factor of the similarities.
        slope: what a score loses with each position of distance.
    """
    with full_precision(states):
        if states is seen:
            return _SelfAttention.apply(states, inverse_temperature, slope)
        return trace_attention_reference(states, seen, inverse_temperature, slope)


def trace_attention_reference(states: Tensor, seen: Tensor, inverse_temperature: Tensor, slope: Tensor) -> Tensor:
    """The formula, written down."""
    bias = distance_bias(slope, states.shape[1], seen.shape[1], states.dtype)
    return (inverse_temperature * (states @ seen.mT) + bias).softmax(-1) @ seen


@final
class _SelfAttention(torch.autograd.Function):
    """States that are queries, keys and values at once: two batched products forward, three backward."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, inverse_temperature: Tensor, slope: Tensor) -> Tensor:
        bias = distance_bias(slope, states.shape[1], states.shape[1], states.dtype)
        weights = torch.bmm(states, states.mT).mul_(inverse_temperature).add_(bias).softmax(-1)
        mean = torch.bmm(weights, states)
        ctx.save_for_backward(states, weights, mean, inverse_temperature)
        return mean

    @staticmethod
    @without_derivative("trace_attention")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        states, weights, mean, inverse_temperature = ctx.saved_tensors
        with full_precision(grad):
            along = (grad * mean).sum(-1, keepdim=True)
            grad_scores = torch.bmm(grad, states.mT).sub_(along).mul_(weights)
            # query and key are one, so that a pair of positions meets twice
            both = torch.bmm(grad_scores + grad_scores.mT, states)
            grad_inverse_temperature = (both * states).sum() / 2
            at = torch.arange(states.shape[1], device=states.device, dtype=states.dtype)
            grad_slope = (grad_scores.sum(0) * (at - at[:, None])).sum()
            grad_states = torch.baddbmm(both.mul_(inverse_temperature), weights.mT, grad)
        return grad_states, grad_inverse_temperature, grad_slope

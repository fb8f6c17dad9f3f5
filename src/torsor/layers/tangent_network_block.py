"""A layer of the group transformer whose second move is a small network on the tangent."""

from typing import final

from jaxtyping import Float, Inexact
from torch import Tensor
from torch.nn.functional import gelu

from torsor.layers.tangent import move
from torsor.layers.two_tangent_block import TwoTangentBlock


@final
class TangentNetworkBlock(TwoTangentBlock):
    r"""Attention without drive or mixing, then a network of two layers on the state's own tangent.

    .. math::

        H_i \leftarrow H_i \exp(\Pi(H_i^* A_i)), \qquad
        H_i \leftarrow H_i \exp(\text{mix}_2(\text{gelu}(\text{mix}_1(\Pi(H_i), b_1)), b_2))

    As many parameters as ``SerialBlock``; the non-linearity stands on the coordinates.

    Arguments are those of ``TwoTangentBlock``.
    """

    def forward(
        self,
        states: Inexact[Tensor, "batch length ..."],
        tokens: Inexact[Tensor, "batch length ..."],
        past: Float[Tensor, "batch past ambient"] | None = None,
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        context, seen = self.attention(states, past)
        states = move(self.group, states, self.group.relative(states, context))
        own = self.position_tangent(self.group, states, tokens)
        inner = gelu(self.mixing(own, self.attention_drive, 0))
        return move(self.group, states, self.mixing(inner, self.position_drive, 1)), seen

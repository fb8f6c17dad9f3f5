"""A layer of the group transformer in two moves: along what is attended to, then along the state's own tangent."""

from typing import final

from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.layers.tangent import move
from torsor.layers.two_tangent_block import TwoTangentBlock


@final
class SerialBlock(TwoTangentBlock):
    r"""Attention, then a layer for each position by itself.

    .. math::

        H_i \leftarrow H_i \exp(\text{mix}_1(\Pi(H_i^* A_i), b_1)), \qquad
        H_i \leftarrow H_i \exp(\text{mix}_2(\Pi(H_i), b_2))

    with :math:`A_i` the mean that ``GroupAttention`` takes off the group, and drives :math:`b_1, b_2`. The first
    tangent is the Riemannian gradient of the similarity to :math:`A_i`.

    Arguments are those of ``TwoTangentBlock``.
    """

    def forward(
        self,
        states: Inexact[Tensor, "batch length ..."],
        tokens: Inexact[Tensor, "batch length ..."],
        past: Float[Tensor, "batch past ambient"] | None = None,
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        context, seen = self.attention(states, past)
        attended = self.group.relative(states, context)
        states = move(self.group, states, self.mixing(attended, self.attention_drive, 0))
        own = self.position_tangent(self.group, states, tokens)
        return move(self.group, states, self.mixing(own, self.position_drive, 1)), seen

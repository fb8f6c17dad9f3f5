"""A layer of the group transformer in one move, along the attended and the own tangent joined."""

from typing import final

from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.layers.tangent import move
from torsor.layers.two_tangent_block import TwoTangentBlock


@final
class ParallelBlock(TwoTangentBlock):
    r"""Both tangents of ``SerialBlock`` taken at one state, :math:`H_i \leftarrow H_i \exp(\text{join}(T_1 a, T_2 f))`.

    Here :math:`a = \Pi(H_i^* A_i) + b_1` and :math:`f = \Pi(H_i) + b_2`, and :math:`T_1, T_2` are the
    mixing's maps of two places. As many parameters as ``SerialBlock``; where the maps are the identity
    and the mixing has no bracket, one of the two drives is redundant.

    Arguments are those of ``TwoTangentBlock``.
    """

    def forward(
        self,
        states: Inexact[Tensor, "batch length ..."],
        tokens: Inexact[Tensor, "batch length ..."],
        past: Float[Tensor, "batch past ambient"] | None = None,
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        context, seen = self.attention(states, past)
        attended = self.group.relative(states, context) + self.attention_drive
        own = self.position_tangent(self.group, states, tokens) + self.position_drive
        tangent = self.mixing.join(self.mixing.transform(attended, 0), self.mixing.transform(own, 1))
        return move(self.group, states, tangent), seen

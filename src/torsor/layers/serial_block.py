"""A layer of the group transformer in two moves: along what is attended to, then along the state's own tangent."""

from typing import final

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import normal
from torsor.layers.group_attention import GroupAttention
from torsor.layers.group_block import GroupBlock
from torsor.layers.mixing import MixingKind
from torsor.layers.tangent import TangentSource, move, own_tangent


@final
class SerialBlock(GroupBlock):
    r"""Attention, then a layer for each position by itself.

    .. math::

        H_i \leftarrow H_i \exp(\text{mix}_1(\Pi(H_i^* A_i), b_1)), \qquad
        H_i \leftarrow H_i \exp(\text{mix}_2(\Pi(H_i), b_2))

    with :math:`A_i` the mean that ``GroupAttention`` takes off the group, and drives :math:`b_1, b_2` in the
    algebra, of :math:`k` dimensions. The first tangent is the Riemannian gradient of the similarity to
    :math:`A_i`. Parameters: :math:`2 k + 2`, and those of a mixing of two places.

    Args:
        group: that the states lie on.
        mixing: what the tangents go through.
        generator: of the initial values; None takes torch's global one. The drives start normal of size 0.01.
        position_tangent: the second tangent: ``own_tangent``, or ``token_tangent`` for
            :math:`\Pi(H_i^* M_{x_i})`, with which the whole block does not change when all states and
            tokens are moved by one element from the left.
    """

    def __init__(
        self,
        group: MatrixGroup,
        mixing: MixingKind,
        generator: torch.Generator | None = None,
        *,
        position_tangent: TangentSource = own_tangent,
    ) -> None:
        super().__init__()
        self.group = group
        self.attention = GroupAttention(group)
        self.position_tangent = position_tangent
        self.mixing = mixing(group, 2, generator)
        self.attention_drive = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))
        self.position_drive = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))

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

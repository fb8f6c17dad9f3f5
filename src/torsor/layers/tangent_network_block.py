"""A layer of the group transformer whose second move is a small network on the tangent."""

from typing import final

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn
from torch.nn.functional import gelu

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import normal
from torsor.layers.group_attention import GroupAttention
from torsor.layers.group_block import GroupBlock
from torsor.layers.mixing import MixingKind
from torsor.layers.tangent import TangentSource, move, own_tangent


@final
class TangentNetworkBlock(GroupBlock):
    r"""Attention without drive or mixing, then a network of two layers on the state's own tangent.

    .. math::

        H_i \leftarrow H_i \exp(\Pi(H_i^* A_i)), \qquad
        H_i \leftarrow H_i \exp(\text{mix}_2(\text{gelu}(\text{mix}_1(\Pi(H_i), b_1)), b_2))

    As many parameters as ``SerialBlock``; the non-linearity stands on the coordinates.

    Arguments are those of ``SerialBlock``.
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
        self.inner_drive = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))
        self.outer_drive = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))

    def forward(
        self,
        states: Inexact[Tensor, "batch length ..."],
        tokens: Inexact[Tensor, "batch length ..."],
        past: Float[Tensor, "batch past ambient"] | None = None,
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        context, seen = self.attention(states, past)
        states = move(self.group, states, self.group.relative(states, context))
        own = self.position_tangent(self.group, states, tokens)
        inner = gelu(self.mixing(own, self.inner_drive, 0))
        return move(self.group, states, self.mixing(inner, self.outer_drive, 1)), seen

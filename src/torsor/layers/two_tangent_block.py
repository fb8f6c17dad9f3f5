"""What the blocks share that move along what a state attends to and along a tangent of its own."""

from abc import ABC

import torch
from torch import nn

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import normal
from torsor.layers.group_attention import GroupAttention
from torsor.layers.group_block import GroupBlock
from torsor.layers.mixing import Mixing, MixingKind
from torsor.layers.tangent import TangentSource, own_tangent


class TwoTangentBlock(GroupBlock, ABC):
    r"""The parts: attention, a mixing of two places, and two drives in the algebra, of :math:`k` dimensions.

    Parameters: :math:`2 k + 2`, and those of a mixing of two places.

    Args:
        group: that the states lie on.
        mixing: what the tangents go through.
        generator: of the initial values; None takes torch's global one. The drives start normal of size 0.01.
        position_tangent: a state's own tangent: ``own_tangent`` for :math:`\Pi(H_i)`, or ``token_tangent`` for
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
        self.attention: GroupAttention = GroupAttention(group)
        self.position_tangent = position_tangent
        self.mixing: Mixing = mixing(group, 2, generator)
        self.attention_drive: nn.Parameter = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))
        self.position_drive: nn.Parameter = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))

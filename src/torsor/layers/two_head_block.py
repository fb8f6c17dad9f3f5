"""A layer of the group transformer with two heads of attention and no layer for each position."""

from typing import final

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import full_dtype, normal
from torsor.layers.group_attention import INITIAL_SLOPE, trace_attention
from torsor.layers.group_block import GroupBlock
from torsor.layers.mixing import Mixing, MixingKind
from torsor.layers.tangent import move


@final
class TwoHeadBlock(GroupBlock):
    r"""Two heads that differ in their slope, :math:`H_i \leftarrow H_i \exp(\text{join}(a_1, a_2))`.

    Head :math:`h` has :math:`a_h = T_h \, \Pi(H_i^* A_i^{(h)}) + b_h`, where :math:`T_h` is the mixing's map of
    its place and :math:`A_i^{(h)}` the mean of ``GroupAttention`` at inverse temperature 1, which is not learned,
    and slope :math:`m_h`, at the start 0.5 and 0.05. As many parameters as ``SerialBlock``.

    Args:
        group: that the states lie on.
        mixing: what the tangents go through.
        generator: of the initial values; None takes torch's global one. The drives start normal of size 0.01.
    """

    def __init__(self, group: MatrixGroup, mixing: MixingKind, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.group = group
        self.mixing: Mixing = mixing(group, 2, generator)
        self.slopes: nn.Parameter = nn.Parameter(torch.tensor([INITIAL_SLOPE, INITIAL_SLOPE / 10], dtype=full_dtype()))
        self.first_drive: nn.Parameter = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))
        self.second_drive: nn.Parameter = nn.Parameter(normal(0.01, group.algebra_dim, generator=generator))

    def forward(
        self,
        states: Inexact[Tensor, "batch length ..."],
        tokens: Inexact[Tensor, "batch length ..."],
        past: Float[Tensor, "batch past ambient"] | None = None,
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        group, flat = self.group, self.group.flatten(states)
        seen = flat if past is None else torch.cat([past, flat], dim=1)
        unit = torch.ones_like(self.slopes[0])

        def head(place: int, drive: Tensor) -> Tensor:
            context = group.unflatten(trace_attention(flat, seen, unit, self.slopes[place]))
            return self.mixing.transform(group.relative(states, context), place) + drive

        tangent = self.mixing.join(head(0, self.first_drive), head(1, self.second_drive))
        return move(group, states, tangent), seen

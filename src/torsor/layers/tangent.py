"""Where the tangent at a state comes from, and how a state moves along one."""

from collections.abc import Callable

from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.groups import MatrixGroup

TangentSource = Callable[[MatrixGroup, Tensor, Tensor], Tensor]
"""From a group, states and the elements of their tokens to coordinates: ``own_tangent`` or ``token_tangent``."""


def own_tangent(
    group: MatrixGroup, state: Inexact[Tensor, "..."], token: Inexact[Tensor, "..."]
) -> Float[Tensor, "*batch algebra"]:
    r"""The state's own part in the algebra, :math:`\Pi(H)`; the token is not read."""
    return group.to_coordinates(state)


def token_tangent(
    group: MatrixGroup, state: Inexact[Tensor, "..."], token: Inexact[Tensor, "..."]
) -> Float[Tensor, "*batch algebra"]:
    r"""The tangent from the state towards its token, :math:`\Pi(H^* M_x)`; equal for :math:`G H` and :math:`G M_x`."""
    return group.relative(state, token)


def move(
    group: MatrixGroup, state: Inexact[Tensor, "..."], tangent: Float[Tensor, "*batch algebra"]
) -> Inexact[Tensor, "..."]:
    r"""The state moved along a tangent, :math:`H \exp(U)`: on the group again, in the component where it was."""
    return group.compose(state, group.exp(group.from_coordinates(tangent)))

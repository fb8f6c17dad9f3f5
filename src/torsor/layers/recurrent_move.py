"""How a recurrent state on a group reads its next token: four forms with the same parameters."""

from collections.abc import Callable

from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.groups import MatrixGroup
from torsor.layers.mixing import Mixing
from torsor.layers.tangent import move

RecurrentMove = Callable[[MatrixGroup, Mixing, Tensor, Tensor, Tensor], Tensor]
"""From a group, mixing, states, the elements and the drives of the next tokens to the next states."""


def move_to_token(
    group: MatrixGroup,
    mixing: Mixing,
    state: Inexact[Tensor, "batch ..."],
    token: Inexact[Tensor, "batch ..."],
    drive: Float[Tensor, "batch algebra"],
) -> Inexact[Tensor, "batch ..."]:
    r"""Along the tangent towards the token: :math:`H \exp(\text{mix}(\Pi(H^* M_x), E_x))`."""
    return move(group, state, mixing(group.relative(state, token), drive))


def move_from_token(
    group: MatrixGroup,
    mixing: Mixing,
    state: Inexact[Tensor, "batch ..."],
    token: Inexact[Tensor, "batch ..."],
    drive: Float[Tensor, "batch algebra"],
) -> Inexact[Tensor, "batch ..."]:
    r"""From the token along the tangent towards the state: :math:`M_x \exp(\text{mix}(\Pi(M_x^* H), E_x))`.

    As in a layer of ``GroupTransformer`` the token's own element is moved and the past is its context. The new state
    lies in the component of the token, whichever the old one lay in.
    """
    return move_to_token(group, mixing, token, state, drive)


def move_then_multiply(
    group: MatrixGroup,
    mixing: Mixing,
    state: Inexact[Tensor, "batch ..."],
    token: Inexact[Tensor, "batch ..."],
    drive: Float[Tensor, "batch algebra"],
) -> Inexact[Tensor, "batch ..."]:
    r"""Along the state's own tangent, then by the token, :math:`H \exp(\text{mix}(\Pi(H), E_x)) \, M_x`."""
    return group.compose(move_by_drive(group, mixing, state, token, drive), token)


def move_by_drive(
    group: MatrixGroup,
    mixing: Mixing,
    state: Inexact[Tensor, "batch ..."],
    token: Inexact[Tensor, "batch ..."],
    drive: Float[Tensor, "batch algebra"],
) -> Inexact[Tensor, "batch ..."]:
    r"""Along the state's own tangent, :math:`H \exp(\text{mix}(\Pi(H), E_x))`; the token's element is not read."""
    return move(group, state, mixing(group.to_coordinates(state), drive))

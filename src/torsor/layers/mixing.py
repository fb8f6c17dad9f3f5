"""What becomes of a tangent before a state moves along it: nothing, a bracket with a drive, or a learned matrix."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import full_dtype, full_precision, normal
from torsor.transitions.base import Float32Island


class Mixing(Float32Island, ABC):
    r"""Turn a relative tangent :math:`r` and a free drive :math:`b` into the tangent of a move.

    All are coordinates in the algebra of a group. Two operations make the move,
    :math:`U = \text{join}(\text{transform}(r), b)`: what stands in the place of the identity map, and
    how two tangents become one. One layer has one mixing for all its ``places``.

    To add a mixing: a final class with the two operations, and one line in ``tests/cases.py``.

    Args:
        group: in whose algebra the tangents lie, of dimension :math:`k`.
        places: how many tangents of a layer are transformed, each in its own way.
        generator: of the initial values; None takes torch's global one.

    Raises:
        ValueError: when ``places`` is below 1.
    """

    def __init__(self, group: MatrixGroup, places: int = 1, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if places < 1:
            raise ValueError(f"places must be at least 1, got {places}")
        self.group = group
        self.places = places
        self._make_parameters(generator)

    @abstractmethod
    def _make_parameters(self, generator: torch.Generator | None) -> None:
        """Make the parameters, at their initial values."""

    @abstractmethod
    def transform(self, tangent: Float[Tensor, "*batch algebra"], place: int = 0) -> Float[Tensor, "*batch algebra"]:
        """The map of one place, from 0: what stands where there could be the identity."""

    @abstractmethod
    def join(
        self, left: Float[Tensor, "*#batch algebra"], right: Float[Tensor, "*#batch algebra"]
    ) -> Float[Tensor, "*out algebra"]:
        """One tangent from two."""

    @final
    def forward(
        self, tangent: Float[Tensor, "*#batch algebra"], drive: Float[Tensor, "*#batch algebra"], place: int = 0
    ) -> Float[Tensor, "*out algebra"]:
        """The tangent of a move: the transformed tangent joined with the drive."""
        return self.join(self.transform(tangent, place), drive)

    def extra_repr(self) -> str:
        return f"{self.group}, places={self.places}"


MixingKind = Callable[[MatrixGroup, int, torch.Generator | None], Mixing]
"""What makes the mixing of a layer, such as the class ``LinearMixing``: from its group, places and generator."""


@final
class IdentityMixing(Mixing):
    r"""No mixing, :math:`U = r + b`, without parameters.

    Arguments are those of ``Mixing``.
    """

    def _make_parameters(self, generator: torch.Generator | None) -> None:
        pass

    def transform(self, tangent: Float[Tensor, "*batch algebra"], place: int = 0) -> Float[Tensor, "*batch algebra"]:
        return tangent

    def join(
        self, left: Float[Tensor, "*#batch algebra"], right: Float[Tensor, "*#batch algebra"]
    ) -> Float[Tensor, "*out algebra"]:
        return left + right


@final
class BCHMixing(Mixing):
    r"""The series of Baker, Campbell and Hausdorff to its first bracket: :math:`U = r + b + \frac{\gamma}{2} [r, b]`.

    One parameter, :math:`\gamma`, for all places. At :math:`\gamma = 1` the bracket is that of the
    series, so that :math:`\exp(U)` is :math:`\exp(r) \exp(b)` up to third order; at :math:`\gamma = 0`,
    where it starts, there is no mixing. On a commutative group, a torus, no gradient reaches it.

    Arguments are those of ``Mixing``.
    """

    def _make_parameters(self, generator: torch.Generator | None) -> None:
        self.bracket_weight: nn.Parameter = nn.Parameter(torch.zeros((), dtype=full_dtype()))

    def transform(self, tangent: Float[Tensor, "*batch algebra"], place: int = 0) -> Float[Tensor, "*batch algebra"]:
        return tangent

    def join(
        self, left: Float[Tensor, "*#batch algebra"], right: Float[Tensor, "*#batch algebra"]
    ) -> Float[Tensor, "*out algebra"]:
        dim = self.group.algebra_dim
        with full_precision(left):
            if right.ndim == 1 and left.numel() >= dim**2:
                # the bracket with one drive for all is a matrix, cheaper than as many products as there are tangents
                identity = torch.eye(dim, dtype=right.dtype, device=right.device)
                return left @ (identity + self.bracket_weight / 2 * self.group.bracket(identity, right)) + right
            return left + right + self.bracket_weight / 2 * self.group.bracket(left, right)


@final
class LinearMixing(Mixing):
    r"""A learned matrix in each place, :math:`U = W r + b`, of :math:`k^2` parameters.

    :math:`W` starts as the identity with normal noise of size 0.01 on every entry; from a random matrix of
    norm 1 a recurrent model was seen to diverge.

    Arguments are those of ``Mixing``.
    """

    def _make_parameters(self, generator: torch.Generator | None) -> None:
        dim = self.group.algebra_dim

        def near_identity() -> nn.Parameter:
            noise = normal(0.01, dim, dim, generator=generator)
            return nn.Parameter(noise + torch.eye(dim, dtype=noise.dtype, device=noise.device))

        self.weights: nn.ParameterList = nn.ParameterList([near_identity() for _ in range(self.places)])

    def transform(self, tangent: Float[Tensor, "*batch algebra"], place: int = 0) -> Float[Tensor, "*batch algebra"]:
        with full_precision(tangent):
            return linear(tangent, self.weights[place])

    def join(
        self, left: Float[Tensor, "*#batch algebra"], right: Float[Tensor, "*#batch algebra"]
    ) -> Float[Tensor, "*out algebra"]:
        return left + right

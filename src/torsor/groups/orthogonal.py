"""The orthogonal group and the special orthogonal group: real matrices that keep lengths."""

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from torsor.groups.square import SquareMatrixGroup, cayley, from_special, places, special, triangle


@dataclass(frozen=True)
class RealMatrixGroup(SquareMatrixGroup, ABC):
    r"""A group of real matrices whose algebra is all skew-symmetric ones, :math:`\Pi(A) = (A - A^\top) / 2`.

    The coordinates are the entries above the diagonal, row by row.
    """

    is_complex: ClassVar[bool] = False
    smallest_dim: ClassVar[int] = 2

    @property
    @final
    def algebra_dim(self) -> int:
        return self.dim * (self.dim - 1) // 2

    @property
    @final
    def raw_shape(self) -> tuple[int, ...]:
        return (self.dim, self.dim)

    @final
    def _ambient(self, raw: Tensor) -> Tensor:
        return raw

    @final
    def _project(self, matrix: Tensor) -> Tensor:
        return (matrix - matrix.mT) / 2

    @final
    def _cayley(self, tangent: Tensor) -> Tensor:
        return cayley(tangent)

    @final
    def _to_coordinates(self, matrix: Tensor) -> Tensor:
        return (matrix - matrix.mT).flatten(-2).index_select(-1, triangle(self.dim, matrix.device)) / 2

    @final
    def _from_coordinates(self, coordinates: Tensor) -> Tensor:
        diagonal = coordinates.new_zeros(*coordinates.shape[:-1], self.dim)
        entries = torch.cat([coordinates, -coordinates, diagonal], dim=-1)
        return entries.index_select(-1, places(self.dim, entries.device)).unflatten(-1, self.shape)

    @final
    def _other_component(self, element: Tensor, component: Tensor) -> Tensor:
        sign = 1 - 2 * component.to(element.dtype)[..., None, None]
        first_row = torch.arange(self.dim, device=element.device)[:, None] == 0
        return torch.where(first_row, sign, torch.ones_like(sign)) * element


@final
@dataclass(frozen=True)
class Orthogonal(RealMatrixGroup):
    r"""The group :math:`O(d)` of real matrices with :math:`H^\top H = I`: rotations, and reflections of them.

    It has two components, of determinant 1 and -1. ``exp`` reaches the first; ``element`` reaches the
    second by the reflection :math:`F = \operatorname{diag}(-1, 1, \dots, 1)` from the left, and a
    product :math:`H \exp(U)` stays where :math:`H` is.

    Args:
        dim: :math:`d`, at least 2; :math:`O(1)` is two points, without an algebra.

    Example:
        >>> from torsor.groups import Orthogonal
        >>> group = Orthogonal(16)
        >>> group.algebra_dim, group.random((3,)).shape
        (120, torch.Size([3, 16, 16]))
    """

    @property
    def components(self) -> int:
        return 2

    def _beyond(self, matrix: Tensor, from_unitary: Tensor) -> Tensor:
        return from_unitary

    def _random(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return self._haar(shape, generator)


@final
@dataclass(frozen=True)
class SpecialOrthogonal(RealMatrixGroup):
    r"""The group :math:`SO(d)` of rotations: :math:`H^\top H = I` and :math:`\det H = 1`.

    Args:
        dim: :math:`d`, at least 2; :math:`SO(1)` is one point, without an algebra.

    Example:
        >>> from torsor.groups import SpecialOrthogonal
        >>> SpecialOrthogonal(3).algebra_dim
        3
    """

    @property
    def components(self) -> int:
        return 1

    def _beyond(self, matrix: Tensor, from_unitary: Tensor) -> Tensor:
        return from_special(matrix, from_unitary)

    def _random(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return special(self._haar(shape, generator))

"""The unitary group and the special unitary group: complex matrices that keep lengths."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, final

import torch
from torch import Tensor

from torsor.groups.square import SquareMatrixGroup, cayley, from_special, places, special, triangle


@dataclass(frozen=True)
class ComplexMatrixGroup(SquareMatrixGroup, ABC):
    r"""A group of complex matrices; the coordinates of its algebra are real.

    They are the real parts of the entries above the diagonal, row by row, then their imaginary parts,
    then coordinates of the diagonal, which is imaginary.
    """

    is_complex: ClassVar[bool] = True

    @property
    @final
    def components(self) -> int:
        return 1

    @property
    @final
    def raw_shape(self) -> tuple[int, ...]:
        return (self.dim, self.dim, 2)

    @final
    def _ambient(self, raw: Tensor) -> Tensor:
        return torch.complex(raw[..., 0], raw[..., 1])  # a view crashes where memory is not aligned

    @final
    def _to_coordinates(self, matrix: Tensor) -> Tensor:
        skew = matrix - matrix.mH
        upper = torch.view_as_real(skew.flatten(-2).index_select(-1, triangle(self.dim, matrix.device)) / 2)
        diagonal = self._to_diagonal(matrix.diagonal(dim1=-2, dim2=-1).imag)
        return torch.cat([upper[..., 0], upper[..., 1], diagonal], dim=-1)

    @final
    def _from_coordinates(self, coordinates: Tensor) -> Tensor:
        pairs = self.dim * (self.dim - 1) // 2
        real, imaginary, rest = coordinates.tensor_split((pairs, 2 * pairs), dim=-1)
        rest = self._from_diagonal(rest)
        entries = torch.complex(
            torch.cat([real, -real, torch.zeros_like(rest)], dim=-1), torch.cat([imaginary, imaginary, rest], dim=-1)
        )
        return entries.index_select(-1, places(self.dim, entries.device)).unflatten(-1, self.shape)

    @final
    def _other_component(self, element: Tensor, component: Tensor) -> Tensor:
        return element  # there is none, as ``element`` has seen

    @abstractmethod
    def _to_diagonal(self, imaginary: Tensor) -> Tensor:
        """The coordinates of the projection of an imaginary diagonal."""

    @abstractmethod
    def _from_diagonal(self, coordinates: Tensor) -> Tensor:
        """The imaginary diagonal that has these coordinates."""


@final
@dataclass(frozen=True)
class Unitary(ComplexMatrixGroup):
    r"""The group :math:`U(d)` of complex matrices with :math:`H^* H = I`, whose algebra is all :math:`X = -X^*`.

    The projection is :math:`\Pi(A) = (A - A^*) / 2`. The last :math:`d` coordinates are the diagonal's
    imaginary parts.

    Args:
        dim: :math:`d`, at least 1; :math:`U(1)` is the circle.

    Example:
        >>> from torsor.groups import Unitary
        >>> Unitary(2).algebra_dim
        4
    """

    smallest_dim: ClassVar[int] = 1

    @property
    def algebra_dim(self) -> int:
        return self.dim**2

    def _project(self, matrix: Tensor) -> Tensor:
        return (matrix - matrix.mH) / 2

    def _cayley(self, tangent: Tensor) -> Tensor:
        return cayley(tangent)

    def _to_diagonal(self, imaginary: Tensor) -> Tensor:
        return imaginary

    def _from_diagonal(self, coordinates: Tensor) -> Tensor:
        return coordinates

    def _beyond(self, matrix: Tensor, from_unitary: Tensor) -> Tensor:
        return from_unitary

    def _random(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return self._haar(shape, generator)


@final
@dataclass(frozen=True)
class SpecialUnitary(ComplexMatrixGroup):
    r"""The group :math:`SU(d)`: :math:`H^* H = I` and :math:`\det H = 1`; its algebra has no trace.

    With :math:`S = (A - A^*) / 2` the projection is :math:`\Pi(A) = S - \frac{\operatorname{tr} S}{d} I`.
    The last :math:`d - 1` coordinates are those of the diagonal's imaginary parts in the orthonormal basis
    :math:`(1, \dots, 1, -l, 0, \dots, 0) / \sqrt{l (l + 1)}`, :math:`l = 1, \dots, d - 1`, of the vectors of
    sum 0. ``cayley`` is divided by a :math:`d`-th root of its determinant,
    which differs from 1 in third order only.

    Args:
        dim: :math:`d`, at least 2; :math:`SU(1)` is one point, without an algebra.

    Example:
        >>> from torsor.groups import SpecialUnitary
        >>> SpecialUnitary(2).algebra_dim
        3
    """

    smallest_dim: ClassVar[int] = 2

    @property
    def algebra_dim(self) -> int:
        return self.dim**2 - 1

    def _project(self, matrix: Tensor) -> Tensor:
        skew = (matrix - matrix.mH) / 2
        mean = skew.diagonal(dim1=-2, dim2=-1).mean(-1)
        return skew - mean[..., None, None] * self._identity(matrix.dtype, matrix.device)

    def _cayley(self, tangent: Tensor) -> Tensor:
        # An eigenvalue i s becomes a phase 2 arctan(s / 2), and these do not sum to 0 as the s do.
        phase = 2 * (torch.linalg.eigvalsh(-1j * tangent) / 2).atan().mean(-1)
        return cayley(tangent) * torch.polar(torch.ones_like(phase), -phase)[..., None, None]

    def _to_diagonal(self, imaginary: Tensor) -> Tensor:
        return imaginary @ _sum_zero(self.dim, imaginary.dtype, imaginary.device).mT

    def _from_diagonal(self, coordinates: Tensor) -> Tensor:
        return coordinates @ _sum_zero(self.dim, coordinates.dtype, coordinates.device)

    def _beyond(self, matrix: Tensor, from_unitary: Tensor) -> Tensor:
        return from_special(matrix, from_unitary)

    def _random(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return special(self._haar(shape, generator))


@cache
def _sum_zero(dim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """An orthonormal basis of the vectors of sum 0, as ``dim - 1`` rows."""
    rows = [[1.0] * k + [-float(k)] + [0.0] * (dim - 1 - k) for k in range(1, dim)]
    with torch.inference_mode(False):
        basis = torch.tensor(rows, dtype=torch.float64) / torch.tensor(
            [[math.sqrt(k * (k + 1))] for k in range(1, dim)], dtype=torch.float64
        )
        return basis.to(dtype=dtype, device=device)

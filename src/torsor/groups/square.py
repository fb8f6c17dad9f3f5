"""What the groups of square matrices share: the matrix product, the adjoint, and the projection's coordinates."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import final

import torch
from torch import Tensor

from torsor.groups.matrix import MatrixGroup
from torsor.groups.skew_exponential import skew_exponential


@dataclass(frozen=True)
class SquareMatrixGroup(MatrixGroup, ABC):
    """A matrix group whose elements are stored as square matrices of ``dim`` rows."""

    @property
    @final
    def shape(self) -> tuple[int, ...]:
        return (self.dim, self.dim)

    @final
    def _identity(self, dtype: torch.dtype, device: torch.device | None) -> Tensor:
        return torch.eye(self.dim, dtype=dtype, device=device)

    @final
    def _compose(self, g: Tensor, h: Tensor) -> Tensor:
        return g @ h

    @final
    def _inverse(self, g: Tensor) -> Tensor:
        return g.mH

    @final
    def _exp(self, tangent: Tensor) -> Tensor:
        return skew_exponential(tangent)

    @final
    def _bracket(self, u: Tensor, v: Tensor) -> Tensor:
        # X Y - Y X = P - P^* with P = X Y, which is twice the projection of P.
        return 2 * self._to_coordinates(self._from_coordinates(u) @ self._from_coordinates(v))

    @final
    def _distance(self, matrix: Tensor) -> Tensor:
        from_unitary = torch.linalg.matrix_norm(matrix.mH @ matrix - self._identity(matrix.dtype, matrix.device))
        return self._beyond(matrix, from_unitary)

    @abstractmethod
    def _beyond(self, matrix: Tensor, from_unitary: Tensor) -> Tensor:
        """The distance of the group, given the one from all unitary matrices."""

    @final
    def _haar(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """Orthogonal or unitary matrices by the Haar measure.

        The factor Q of a Gaussian matrix, once the diagonal of R is made positive, without which Q
        depends on how the decomposition chooses its signs.
        """
        device = torch.device("cpu") if generator is None else generator.device
        dtype = self.element_dtype(torch.float64)
        gaussian = torch.randn(*shape, self.dim, self.dim, generator=generator, dtype=dtype, device=device)
        q, r = torch.linalg.qr(gaussian)
        return q * r.diagonal(dim1=-2, dim2=-1).sgn()[..., None, :]


def cayley(tangent: Tensor) -> Tensor:
    r"""The transform :math:`(I - X / 2)^{-1} (I + X / 2) = I + (I - X / 2)^{-1} X`, unitary for skew :math:`X`."""
    identity = torch.eye(tangent.shape[-1], dtype=tangent.dtype, device=tangent.device)
    return identity + torch.linalg.solve(identity - tangent / 2, tangent)


def special(unitary: Tensor) -> Tensor:
    """Divide the first row by the determinant, which takes Haar unitary matrices to Haar special ones."""
    row = torch.linalg.det(unitary).conj()[..., None] * unitary[..., 0, :]
    return torch.cat([row[..., None, :], unitary[..., 1:, :]], dim=-2)


def from_special(matrix: Tensor, from_unitary: Tensor) -> Tensor:
    """The larger of the distance from unitary matrices and that of the determinant from 1."""
    return torch.maximum(from_unitary, (torch.linalg.det(matrix) - 1).abs())


@cache
def triangle(dim: int, device: torch.device) -> Tensor:
    """Where the entries above the diagonal stand in a flattened matrix, row by row."""
    with torch.inference_mode(False):  # an index made in inference mode could not be saved for a gradient later
        rows, columns = torch.triu_indices(dim, dim, offset=1, device=device)
        return rows * dim + columns


@cache
def places(dim: int, device: torch.device) -> Tensor:
    """For each entry of a flattened matrix its number in (above the diagonal, below it mirrored, diagonal)."""
    with torch.inference_mode(False):
        upper = triangle(dim, device)
        lower = upper % dim * dim + upper // dim
        diagonal = torch.arange(dim, device=device) * (dim + 1)
        return torch.cat([upper, lower, diagonal]).argsort()

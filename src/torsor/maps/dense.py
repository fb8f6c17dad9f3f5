"""A full matrix: the reference that every structured map is compared with."""

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from torsor.maps.base import LinearMap, equal_blocks, require_wide

_TOLD = 2**20  # entries from which a print reckons nothing: a determinant takes a moment that grows with dim cubed
_WIDE = 128  # dim from which one product for each block is faster than one product with the zeros in it


@final
@dataclass(frozen=True, eq=False, repr=False)
class Dense(LinearMap):
    r"""The map :math:`x \mapsto M x` by a square matrix.

    Args:
        matrix: :math:`M`, real, float32 or float64, with any leading batch axes.
        groups: number of equal contiguous blocks on the diagonal that the map consists of; what
            stands outside them is not read.

    Raises:
        ValueError: when the matrix is not square, is in half precision, or ``groups`` does not
            divide its width.
    """

    matrix: Float[Tensor, "*batch dim dim"]
    groups: int = 1

    def __post_init__(self) -> None:
        require_wide("matrix", self.matrix)
        if self.matrix.ndim < 2 or self.matrix.shape[-1] != self.matrix.shape[-2]:
            raise ValueError(f"matrix must be square, got shape {tuple(self.matrix.shape)}")
        if self.groups < 1 or self.dim % self.groups:
            raise ValueError(f"groups must divide dim = {self.dim}, got {self.groups}")

    @property
    def dim(self) -> int:
        return self.matrix.shape[-1]

    @property
    def blocks(self) -> tuple[slice, ...]:
        return equal_blocks(self.dim, self.groups)

    def adjoint(self) -> "Dense":
        return replace(self, matrix=self.matrix.mT)

    def dense(self) -> Float[Tensor, "*batch dim dim"]:
        return _inside_blocks(self.matrix, self.groups)

    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        return torch.linalg.eigvals(self.dense().double())

    def to(self, dtype: torch.dtype) -> "Dense":
        return replace(self, matrix=self.matrix.to(dtype))

    def _carry(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(x.dtype, self.matrix.dtype)
        blockwise = self.groups > 1 and self.dim >= _WIDE
        carry = carry_blockwise if blockwise else carry_blockwise_reference
        with torch.autocast(x.device.type, enabled=False):
            return carry(x.to(wide), self.matrix.to(wide), self.groups)

    def _compose(self, other: LinearMap) -> "Dense | None":
        if isinstance(other, Dense) and other.matrix.dtype == self.matrix.dtype:
            with torch.autocast(self.matrix.device.type, enabled=False):
                return Dense(self.dense() @ other.dense(), groups=self.groups if self.groups == other.groups else 1)
        return None

    def _gains(self) -> tuple[Tensor, Tensor] | None:
        if not 0 < self.matrix.numel() <= _TOLD:
            return None
        matrix = self.dense().cpu().double()
        return torch.linalg.slogdet(matrix).logabsdet / self.dim, matrix.square().sum((-2, -1)) / self.dim

    def _power(self, exponent: int) -> "Dense":
        with torch.autocast(self.matrix.device.type, enabled=False):
            return replace(self, matrix=torch.linalg.matrix_power(self.dense(), exponent))


def carry_blockwise(
    x: Float[Tensor, "*states dim"], matrix: Float[Tensor, "*batch dim dim"], groups: int
) -> Float[Tensor, "*out dim"]:
    """Carry the part of a state in each group by that group's block on the diagonal of ``matrix``."""
    square = matrix.unflatten(-1, (groups, -1)).unflatten(-3, (groups, -1))
    blocks = square.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)  # a view, whose rows stay contiguous
    if matrix.ndim == 2:
        by_group = x.reshape(-1, groups, blocks.shape[-1]).transpose(0, 1)
        return (by_group @ blocks.mT).transpose(0, 1).reshape(x.shape)
    return (blocks @ x.unflatten(-1, (groups, -1)).unsqueeze(-1)).flatten(-3)


def carry_blockwise_reference(
    x: Float[Tensor, "*states dim"], matrix: Float[Tensor, "*batch dim dim"], groups: int
) -> Float[Tensor, "*out dim"]:
    """Carry a state by the whole matrix, the zeros between the groups included."""
    matrix = _inside_blocks(matrix, groups)
    if matrix.ndim == 2:
        return x @ matrix.T
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


def _inside_blocks(matrix: Float[Tensor, "*batch dim dim"], groups: int) -> Float[Tensor, "*batch dim dim"]:
    if groups == 1:
        return matrix
    dim = matrix.shape[-1]
    block = torch.arange(dim, device=matrix.device) // (dim // groups)
    return torch.where(block[:, None] == block, matrix, 0.0)

"""A full matrix: the reference that every structured map is compared with."""

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from torsor.maps.base import LinearMap, equal_blocks, require_wide


@final
@dataclass(frozen=True, eq=False)
class Dense(LinearMap):
    r"""The map :math:`x \mapsto M x` by a square matrix.

    Args:
        matrix: :math:`M`, real, float32 or float64, with any leading batch axes.
        groups: the matrix is block-diagonal in this many equal contiguous blocks, by promise of
            the caller and unchecked; 1 promises nothing.

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
        return self.matrix

    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        return torch.linalg.eigvals(self.matrix.double())

    def to(self, dtype: torch.dtype) -> "Dense":
        return replace(self, matrix=self.matrix.to(dtype))

    def _carry(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(x.dtype, self.matrix.dtype)
        with torch.autocast(x.device.type, enabled=False):
            if self.matrix.ndim == 2:
                return x.to(wide) @ self.matrix.to(wide).T
            return (self.matrix.to(wide) @ x.to(wide).unsqueeze(-1)).squeeze(-1)

    def _compose(self, other: LinearMap) -> "Dense | None":
        if isinstance(other, Dense) and other.matrix.dtype == self.matrix.dtype:
            with torch.autocast(self.matrix.device.type, enabled=False):
                return Dense(self.matrix @ other.matrix, groups=self.groups if self.groups == other.groups else 1)
        return None

    def _power(self, exponent: int) -> "Dense":
        with torch.autocast(self.matrix.device.type, enabled=False):
            return replace(self, matrix=torch.linalg.matrix_power(self.matrix, exponent))

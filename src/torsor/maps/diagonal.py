"""One number for each coordinate."""

from dataclasses import dataclass, replace
from math import lcm
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from torsor.maps.base import LinearMap, equal_blocks, require_wide


@final
@dataclass(frozen=True, eq=False, repr=False)
class Diagonal(LinearMap):
    r"""The map :math:`(M x)_i = m_i x_i`.

    Args:
        values: :math:`m_i`, float32 or float64, with any leading batch axes.
        groups: how many equal contiguous blocks the coordinates belong to; 1, the default, is the
            whole vector.

    Raises:
        ValueError: when the values are no tensor with an axis, are in half precision, or ``groups`` does not
            divide their count.
    """

    values: Float[Tensor, "*batch dim"]
    groups: int = 1

    def __post_init__(self) -> None:
        require_wide("values", self.values, axes=1)
        if self.groups < 1 or self.dim % self.groups:
            raise ValueError(f"groups must divide dim = {self.dim}, got {self.groups}")

    @property
    def dim(self) -> int:
        return self.values.shape[-1]

    @property
    def blocks(self) -> tuple[slice, ...]:
        return equal_blocks(self.dim, self.groups)

    def adjoint(self) -> "Diagonal":
        return self

    def dense(self) -> Float[Tensor, "*batch dim dim"]:
        return torch.diag_embed(self.values)

    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        return self.values.to(torch.complex128)

    def to(self, dtype: torch.dtype) -> "Diagonal":
        return replace(self, values=self.values.to(dtype))

    def _carry(self, x: Tensor) -> Tensor:
        return x * self.values

    def _compose(self, other: LinearMap) -> "Diagonal | None":
        if isinstance(other, Diagonal):
            return Diagonal(self.values * other.values, groups=lcm(self.groups, other.groups))
        return None

    def _gains(self) -> tuple[Tensor, Tensor]:
        return self.values.cpu().double().abs().log().mean(-1), self.values.cpu().double().square().mean(-1)

    def _power(self, exponent: int) -> "Diagonal":
        return replace(self, values=self.values**exponent)

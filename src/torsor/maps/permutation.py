"""Coordinates that change places."""

from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from torsor.maps.base import LinearMap, equal_blocks
from torsor.tensors import require_tensor


@final
@dataclass(frozen=True, eq=False, repr=False)
class Permutation(LinearMap):
    r"""The map :math:`e_i \mapsto e_{p(i)}` of the basis vectors: coordinate ``i`` goes to place ``images[i]``.

    Products of group elements are read left to right, :math:`(g h)(i) = h(g(i))`, so the map of
    :math:`g h` is ``Permutation(h) @ Permutation(g)``.

    Args:
        images: :math:`p(i)` for each ``i``, integers, with any leading batch axes.

    Raises:
        ValueError: when ``images`` is no tensor, or does not hold every place exactly once.
    """

    images: Int[Tensor, "*batch dim"]
    _origins: Int[Tensor, "*batch dim"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_tensor("images", self.images)
        if self.images.is_floating_point() or self.images.dtype == torch.bool or self.images.ndim < 1:
            what = f"{str(self.images.dtype).removeprefix('torch.')} of shape {tuple(self.images.shape)}"
            raise ValueError(f"images must be integers, at least one, got {what}")
        places, origins = self.images.sort(dim=-1)
        if not torch.equal(places, torch.arange(self.dim, device=places.device).expand_as(places)):
            raise ValueError(f"images must hold each of 0 .. {self.dim - 1} exactly once, got {self.images.tolist()}")
        object.__setattr__(self, "images", self.images.long())  # the type that gather wants
        object.__setattr__(self, "_origins", origins)

    @property
    def dim(self) -> int:
        return self.images.shape[-1]

    @property
    def blocks(self) -> tuple[slice, ...]:
        return equal_blocks(self.dim, 1)

    def adjoint(self) -> "Permutation":
        return Permutation(self._origins)

    def dense(self) -> Float[Tensor, "*batch dim dim"]:
        identity = torch.eye(self.dim, device=self.images.device)
        return identity[self._origins]

    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        return torch.linalg.eigvals(self.dense().double())

    def to(self, dtype: torch.dtype) -> "Permutation":
        return self  # places have no precision

    def _carry(self, x: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(x.shape, self.images.shape)
        return x.expand(shape).gather(-1, self._origins.expand(shape))

    def _compose(self, other: LinearMap) -> "Permutation | None":
        if isinstance(other, Permutation):
            shape = torch.broadcast_shapes(self.images.shape, other.images.shape)
            return Permutation(self.images.expand(shape).gather(-1, other.images.expand(shape)))
        return None

    def _gains(self) -> tuple[Tensor, Tensor]:
        ones = torch.ones(self.images.shape[:-1], dtype=torch.float64)
        return ones.log(), ones

    def _power(self, exponent: int) -> "Permutation":
        result = Permutation(torch.arange(self.dim, device=self.images.device).expand_as(self.images))
        factor = self
        while exponent:  # square and multiply: log2(exponent) gathers
            if exponent % 2:
                result = Permutation(factor.images.gather(-1, result.images))
            factor = Permutation(factor.images.gather(-1, factor.images))
            exponent //= 2
        return result

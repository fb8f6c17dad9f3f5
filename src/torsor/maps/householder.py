"""A product of reflections, applied without its matrix."""

from dataclasses import dataclass, field, replace
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from torsor.maps.base import LinearMap, equal_blocks, require_wide
from torsor.maps.dense import Dense


@final
@dataclass(frozen=True, eq=False, repr=False)
class Householder(LinearMap):
    r"""The map :math:`M = c\,H_1 H_2 \cdots H_k` of a scale and reflections :math:`H_i = I - 2 v_i v_i^\top / |v_i|^2`.

    The last reflection acts first. With the unit vectors as the rows of :math:`V`,

    .. math:: M = c\,(I - V^\top T V), \qquad T^{-1} = \tfrac12 I + \operatorname{striu}(V V^\top),

    so that a state costs two products with a matrix of ``reflections`` rows, whatever their order
    of application; :math:`T V` is computed once, when the map is built. From ``dim / 2``
    reflections on, the dense matrix of the map is cheaper to apply.

    Guarantees, each a test in ``tests/claims/test_charts.py``:

    * :math:`M^\top M = c^2 I` for any vectors, however long or short;
    * the determinant of :math:`M / c` is :math:`(-1)^k`;
    * it is the product of its reflections, one after the other;
    * a vector of length zero has no mirror: the map is then not a number.

    A product of two such maps keeps its reflections up to ``dim`` of them, and a power is dense.

    Args:
        vectors: :math:`v_i`, float32 or float64, with any leading batch axes; their lengths do not matter.
        scale: :math:`c`, one number for each batch axis, of the same type.

    Raises:
        ValueError: when types or batch axes differ, numbers are in half precision, or ``vectors`` has one axis.
    """

    vectors: Float[Tensor, "*batch reflections dim"]
    scale: Float[Tensor, "*batch"]
    _unit: Float[Tensor, "*batch reflections dim"] = field(init=False, repr=False)
    _joint: Float[Tensor, "*batch reflections dim"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_wide("vectors", self.vectors)
        require_wide("scale", self.scale)
        if self.vectors.ndim < 2:
            raise ValueError(f"vectors must have the axes reflections and dim, got shape {tuple(self.vectors.shape)}")
        if self.scale.dtype != self.vectors.dtype or self.scale.shape != self.vectors.shape[:-2]:
            raise ValueError(
                f"scale must agree with vectors in type and leading axes, got {self.scale.dtype} "
                f"{tuple(self.scale.shape)} and {self.vectors.dtype} {tuple(self.vectors.shape)}"
            )
        # the largest entry first, since squares of small numbers underflow; it cancels, and so does its gradient
        unit = self.vectors / self.vectors.detach().abs().amax(-1, keepdim=True)
        unit = unit / torch.linalg.vector_norm(unit, dim=-1, keepdim=True)
        with torch.autocast(unit.device.type, enabled=False):
            half = torch.full((unit.shape[-2],), 0.5, dtype=unit.dtype, device=unit.device).diag()
            joint = torch.linalg.solve_triangular((unit @ unit.mT).triu(1) + half, unit, upper=True)
        # Now and not at first use: the first use may stand under torch.no_grad, and the gradient would be lost.
        object.__setattr__(self, "_unit", unit)
        object.__setattr__(self, "_joint", joint)

    @property
    def dim(self) -> int:
        return self.vectors.shape[-1]

    @property
    def blocks(self) -> tuple[slice, ...]:
        return equal_blocks(self.dim, 1)

    def adjoint(self) -> "Householder":
        return replace(self, vectors=self.vectors.flip(-2))  # each reflection is its own adjoint

    def dense(self) -> Float[Tensor, "*batch dim dim"]:
        identity = torch.eye(self.dim, dtype=self.scale.dtype, device=self.scale.device)
        with torch.autocast(self.scale.device.type, enabled=False):
            return self.scale[..., None, None] * (identity - self._unit.mT @ self._joint)

    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        return torch.linalg.eigvals(self.to(torch.float64).dense())

    def to(self, dtype: torch.dtype) -> "Householder":
        return replace(self, vectors=self.vectors.to(dtype), scale=self.scale.to(dtype))

    def _carry(self, x: Tensor) -> Tensor:
        wide = torch.promote_types(x.dtype, self.scale.dtype)
        x, unit, joint = x.to(wide), self._unit.to(wide), self._joint.to(wide)
        with torch.autocast(x.device.type, enabled=False):
            if unit.ndim == 2:
                return self.scale * (x - x @ joint.T @ unit)
            return self.scale[..., None] * (x - (unit.mT @ (joint @ x.unsqueeze(-1))).squeeze(-1))

    def _compose(self, other: LinearMap) -> "Householder | None":
        reflections = self.vectors.shape[-2]
        if not isinstance(other, Householder) or reflections + other.vectors.shape[-2] > self.dim:
            return (
                None  # dim reflections reach every orthogonal map of their determinant; a matrix is cheaper than more
            )
        batch = torch.broadcast_shapes(self.scale.shape, other.scale.shape)
        factors = [each.vectors.expand(*batch, -1, -1) for each in (self, other)]
        return Householder(torch.cat(factors, dim=-2), self.scale * other.scale)

    def _gains(self) -> tuple[Tensor, Tensor]:
        return self.scale.cpu().double().abs().log(), self.scale.cpu().double().square()

    def _power(self, exponent: int) -> Dense:
        with torch.autocast(self.scale.device.type, enabled=False):
            return Dense(torch.linalg.matrix_power(self.dense(), exponent))

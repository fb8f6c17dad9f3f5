"""Planes that turn and shrink: never a matrix, one rotary application over the width."""

from dataclasses import dataclass, field, replace
from math import lcm
from typing import Literal, final, get_args

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from torsor.maps.base import LinearMap, equal_blocks, require_wide

Pairing = Literal["adjacent", "half-split"]


@final
@dataclass(frozen=True, eq=False, repr=False)
class ScaledRotation(LinearMap):
    r"""Turn plane :math:`i` counterclockwise by :math:`\theta_i` and scale it by :math:`c_i`.

    .. math::

        M = \bigoplus_i c_i
        \begin{pmatrix} \cos\theta_i & -\sin\theta_i \\ \sin\theta_i & \cos\theta_i \end{pmatrix}

    With ``x + iy`` for the two coordinates of a plane this is multiplication by
    :math:`\lambda_i = c_i e^{i\theta_i}`. The multipliers are computed once, when the map is
    built, in the type of ``scale`` and ``angle`` (float32 or float64).

    Guarantees, each a test in ``tests/laws/test_map_laws.py``:

    * the eigenvalues are :math:`c_i e^{\pm i\theta_i}`;
    * the power is :math:`c_i^k, k\theta_i` exactly, in exact arithmetic; in floating point the
      angle :math:`k\theta_i` carries a relative error of one rounding, an error in radians that
      grows with :math:`k\theta_i`.

    Args:
        scale: :math:`c_i`, one per plane, with any leading batch axes.
        angle: :math:`\theta_i` in radians, one per plane, of the same type as ``scale``.
        groups: number of equal contiguous groups of coordinates; planes lie inside groups.
        pairing: "adjacent" makes plane ``i`` the coordinates ``2i, 2i + 1``; "half-split" pairs
            the first half of every group with its second half.

    Raises:
        ValueError: when they are no tensors with an axis, types or shapes differ or are in half precision, or
            ``groups`` does not divide the planes.
    """

    scale: Float[Tensor, "*batch planes"]
    angle: Float[Tensor, "*batch planes"]
    groups: int = 1
    pairing: Pairing = "adjacent"
    _multiplier: Complex[Tensor, "*batch planes"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_wide("scale", self.scale, axes=1)
        require_wide("angle", self.angle, axes=1)
        if self.scale.dtype != self.angle.dtype or self.scale.shape != self.angle.shape:
            raise ValueError(
                f"scale and angle must agree in type and shape, got {self.scale.dtype} {tuple(self.scale.shape)} "
                f"and {self.angle.dtype} {tuple(self.angle.shape)}"
            )
        if self.groups < 1 or self.planes % self.groups:
            raise ValueError(f"groups must divide the number of planes = {self.planes}, got {self.groups}")
        require_pairing(self.pairing)
        # Now and not at first use: the first use may stand under torch.no_grad, and the gradient would be lost.
        multiplier = torch.complex(self.scale * self.angle.cos(), self.scale * self.angle.sin())
        object.__setattr__(self, "_multiplier", multiplier)

    @property
    def planes(self) -> int:
        """Number of planes, half of ``dim``."""
        return self.scale.shape[-1]

    @property
    def dim(self) -> int:
        return 2 * self.planes

    @property
    def blocks(self) -> tuple[slice, ...]:
        return equal_blocks(self.dim, self.groups)

    def adjoint(self) -> "ScaledRotation":
        return replace(self, angle=-self.angle)

    def dense(self) -> Float[Tensor, "*batch dim dim"]:
        first, second = self._coordinates()
        cosine, sine = self._multiplier.real, self._multiplier.imag
        matrix = self.scale.new_zeros(*self.scale.shape[:-1], self.dim, self.dim)
        matrix[..., first, first], matrix[..., first, second] = cosine, -sine
        matrix[..., second, first], matrix[..., second, second] = sine, cosine
        return matrix

    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        upper = torch.polar(self.scale.double(), self.angle.double())
        return torch.cat([upper, upper.conj()], dim=-1)

    def to(self, dtype: torch.dtype) -> "ScaledRotation":
        return replace(self, scale=self.scale.to(dtype), angle=self.angle.to(dtype))

    def _coordinates(self) -> tuple[Tensor, Tensor]:
        """The first and the second coordinate of every plane."""
        plane = torch.arange(self.planes, device=self.scale.device)
        if self.pairing == "adjacent":
            return 2 * plane, 2 * plane + 1
        half = self.planes // self.groups
        first = plane + plane // half * half
        return first, first + half

    def _carry(self, x: Tensor) -> Tensor:
        x = x.to(torch.promote_types(x.dtype, self.scale.dtype))
        if self.pairing == "adjacent":
            return torch.view_as_real(_as_complex(x) * self._multiplier).flatten(-2)
        halves = x.unflatten(-1, (self.groups, 2, -1))
        first, second = halves[..., 0, :], halves[..., 1, :]
        factor = self._multiplier.unflatten(-1, (self.groups, -1))
        cosine, sine = factor.real, factor.imag
        turned = torch.stack([cosine * first - sine * second, sine * first + cosine * second], dim=-2)
        return turned.flatten(-3)

    def _compose(self, other: LinearMap) -> "ScaledRotation | None":
        if not isinstance(other, ScaledRotation) or other.pairing != self.pairing:
            return None
        if self.pairing == "half-split" and other.groups != self.groups:
            return None  # other groups are other planes
        return ScaledRotation(
            self.scale * other.scale,
            self.angle + other.angle,
            groups=lcm(self.groups, other.groups),
            pairing=self.pairing,
        )

    def _gains(self) -> tuple[Tensor, Tensor]:
        return self.scale.cpu().double().abs().log().mean(-1), self.scale.cpu().double().square().mean(-1)

    def _power(self, exponent: int) -> "ScaledRotation":
        return replace(self, scale=self.scale**exponent, angle=self.angle * exponent)


def require_pairing(pairing: str) -> None:
    """Refuse what is not a way to pair coordinates.

    Raises:
        ValueError: when ``pairing`` is neither "adjacent" nor "half-split".
    """
    if pairing not in get_args(Pairing):
        raise ValueError(f"pairing must be 'adjacent' or 'half-split', got {pairing!r}")


def _as_complex(x: Float[Tensor, "*batch dim"]) -> Complex[Tensor, "*batch planes"]:
    """View adjacent coordinates as complex numbers, copying only where the memory layout forbids a view."""
    pairs = x.unflatten(-1, (-1, 2)).contiguous()
    if pairs.storage_offset() % 2:
        pairs = pairs.clone()
    return torch.view_as_complex(pairs)

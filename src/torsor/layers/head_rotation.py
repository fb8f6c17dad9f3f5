"""One scaled rotation for each head, in a basis that is learned too."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.groups.skew_exponential import skew_exponential
from torsor.layers.full_precision import full_dtype, normal
from torsor.maps import ScaledRotation
from torsor.transitions.base import Float32Island
from torsor.transitions.skew_symmetric import skew_matrices


@final
@dataclass(frozen=True)
class RotationStart:
    r"""Where rates and angles start: uniformly in :math:`\log(-\log\gamma)`, and uniformly from 0.

    Args:
        scales: smallest and largest rate :math:`\gamma`, in (0, 1).
        angle: largest angle, in radians.

    Raises:
        ValueError: when the scales or the angle are out of their range.
    """

    scales: tuple[float, float] = (0.9, 0.999)
    angle: float = 2 * math.pi

    def __post_init__(self) -> None:
        low, high = self.scales
        if not 0 < low <= high < 1:
            raise ValueError(f"scales must satisfy 0 < low <= high < 1, got low = {low}, high = {high}")
        if not 0 <= self.angle < math.inf:
            raise ValueError(f"angle must be finite and not negative, got {self.angle}")


@final
class HeadRotation(Float32Island):
    r"""Carry head :math:`h` by :math:`\gamma_h P_h \Theta_h P_h^\top`, a rate times a rotation.

    The rate is :math:`\gamma_h = e^{-e^{a_h}}`, the basis :math:`P_h = e^{S_h}` with :math:`S_h`
    skew-symmetric, and :math:`\Theta_h` turns the planes of adjacent coordinates by their angles. Seen in
    the basis, where the state is :math:`P_h^\top x`, the map is :math:`\gamma_h \Theta_h` alone:
    ``forward`` builds that one, ``in_basis`` takes what is written and read there.

    There are ``heads + dim * dim / (2 * heads)`` parameters, in float32 or float64 whatever the model is cast to.

    Guarantees, each a test in ``tests/claims/test_rotrnn.py``:

    * the map of a head is a rate in (0, 1) times a rotation, for any parameters, in exact arithmetic;
    * the basis is orthogonal, and only a gauge: moved into what is written and read, it changes no output;
    * rates and angles start where ``start`` says;
    * a rate that rounds to 0 or 1 leaves outputs and gradients finite.

    Args:
        dim: of the state, a positive multiple of ``2 * heads``.
        heads: number of rates.
        start: of rates and angles. The matrices :math:`S_h` start as the difference of a standard normal
            matrix and its transpose.
        generator: of the initial values; None takes torch's global one.

    Raises:
        ValueError: when ``dim`` is not a positive multiple of ``2 * heads``.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        start: RotationStart = RotationStart(),
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or dim < 1 or dim % (2 * heads):
            raise ValueError(f"dim must be a positive multiple of 2 * heads = {2 * heads}, got {dim}")
        self.dim = dim
        self.heads = heads
        fast, slow = (math.log(-math.log(scale)) for scale in start.scales)
        self.log_rate: nn.Parameter = nn.Parameter(_uniform(slow, fast, heads, generator))
        self.angle: nn.Parameter = nn.Parameter(_uniform(0.0, start.angle, dim // 2, generator))
        self.coordinates: nn.Parameter = nn.Parameter(
            normal(math.sqrt(2), dim * (dim // heads - 1) // 2, generator=generator)
        )

    def forward(self) -> ScaledRotation:
        """The map, as the basis sees it."""
        scale = (-self._rate()).exp().repeat_interleave(self.dim // self.heads // 2)
        return ScaledRotation(scale, self.angle, groups=self.heads)

    def basis(self) -> Float[Tensor, "heads head_dim head_dim"]:
        """The orthogonal matrix :math:`P_h` of every head."""
        return skew_exponential(skew_matrices(self.coordinates, self.heads, self.dim // self.heads))

    def in_basis(self, columns: Float[Tensor, "dim width"]) -> Float[Tensor, "dim width"]:
        r"""What the basis sees of vectors of the state: :math:`P_h^\top` times the rows of each head."""
        return (self.basis().mT @ columns.unflatten(0, (self.heads, -1))).flatten(0, 1)

    def input_gain(self, write: Float[Tensor, "dim width"]) -> Float[Tensor, "heads"]:
        r"""The factor :math:`\xi_h = \sqrt{(1 - \gamma_h^2) / \operatorname{tr} B_h^\top B_h}` of an input matrix.

        With it, white inputs of unit covariance hold every head at an expected square norm of 1.
        """
        # 1 - gamma^2 without cancellation where gamma is near 1
        lost = -torch.expm1(-2 * self._rate())
        size = torch.linalg.vector_norm(write.unflatten(0, (self.heads, -1)), dim=(1, 2))
        return lost.sqrt() / size.clamp(min=torch.finfo(size.dtype).tiny)

    def _rate(self) -> Tensor:
        # beyond, the scale has long rounded to 1 or 0, and the exponential's zero or infinity would make a gradient nan
        return self.log_rate.clamp(-60, 60).exp()

    def extra_repr(self) -> str:
        return f"dim={self.dim}, heads={self.heads}"


def _uniform(low: float, high: float, count: int, generator: torch.Generator | None) -> Tensor:
    return torch.empty(count, dtype=full_dtype()).uniform_(low, high, generator=generator)

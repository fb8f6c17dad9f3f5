"""The torus: independent phases, the diagonal unitary matrices stored as their diagonals."""

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from torsor.groups.matrix import MatrixGroup


@final
@dataclass(frozen=True)
class Torus(MatrixGroup):
    r"""The group :math:`T^k` of :math:`k` complex phases, multiplied one by one.

    An element is the diagonal of a unitary matrix. The algebra is imaginary vectors, with
    :math:`\Pi(A) = i \operatorname{Im} A`, and the coordinates are the :math:`k` phases, which are the
    raw numbers too. A phase that is not finite is not refused: the element is not finite either.

    Args:
        dim: :math:`k`, at least 1.

    Example:
        >>> from torsor.groups import Torus
        >>> group = Torus(3)
        >>> group.exp(group.from_coordinates(torch.zeros(3)))
        tensor([1.+0.j, 1.+0.j, 1.+0.j])
    """

    is_complex: ClassVar[bool] = True
    smallest_dim: ClassVar[int] = 1

    @property
    def algebra_dim(self) -> int:
        return self.dim

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.dim,)

    @property
    def raw_shape(self) -> tuple[int, ...]:
        return (self.dim,)

    @property
    def components(self) -> int:
        return 1

    def _identity(self, dtype: torch.dtype, device: torch.device | None) -> Tensor:
        return torch.ones(self.dim, dtype=dtype, device=device)

    def _compose(self, g: Tensor, h: Tensor) -> Tensor:
        return g * h

    def _inverse(self, g: Tensor) -> Tensor:
        return g.conj()

    def _project(self, matrix: Tensor) -> Tensor:
        return self._ambient(matrix.imag)

    def _exp(self, tangent: Tensor) -> Tensor:
        return torch.polar(torch.ones_like(tangent.real), tangent.imag)

    def _cayley(self, tangent: Tensor) -> Tensor:
        return (1 + tangent / 2) / (1 - tangent / 2)

    def _to_coordinates(self, matrix: Tensor) -> Tensor:
        return matrix.imag

    def _from_coordinates(self, coordinates: Tensor) -> Tensor:
        return self._ambient(coordinates)

    def _bracket(self, u: Tensor, v: Tensor) -> Tensor:
        return torch.zeros_like(u + v)

    def _ambient(self, raw: Tensor) -> Tensor:
        return torch.complex(torch.zeros_like(raw), raw)

    def _other_component(self, element: Tensor, component: Tensor) -> Tensor:
        return element  # there is none, as ``element`` has seen

    def _distance(self, matrix: Tensor) -> Tensor:
        return torch.linalg.vector_norm(matrix.abs().square() - 1, dim=-1)

    def _random(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        device = torch.device("cpu") if generator is None else generator.device
        turns = torch.rand(*shape, self.dim, generator=generator, dtype=torch.float64, device=device)
        return torch.polar(torch.ones_like(turns), 2 * torch.pi * turns)

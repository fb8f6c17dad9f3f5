"""Where the frequencies of the planes start: geometric as in rotary embeddings, uniform, or still."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.kinds import shown
from torsor.maps.base import wide_dtype
from torsor.transitions.base import require_whole


class Frequencies(ABC):
    """Initial frequencies of a group's planes, in radians per unit of the time step."""

    @abstractmethod
    def __call__(self, planes: int, groups: int) -> Float[Tensor, "planes"]:
        """Frequencies of ``planes`` planes that lie in ``groups`` equal groups, in the order of the planes."""


@final
@dataclass(frozen=True)
class Geometric(Frequencies):
    r"""The rotary preset on the depth axis: :math:`\omega_i = \text{base}^{-2i/w}` in every group of width :math:`w`.

    Base 10,000 is the rotary kernel's own and leaves half of the planes nearly still over 48
    steps; base 100 spreads the periods over some 8 to 800 steps.

    Args:
        base: larger than 1.

    Raises:
        ValueError: when ``base`` is no number larger than 1.
    """

    base: float = 10_000.0

    def __post_init__(self) -> None:
        if isinstance(self.base, bool) or not isinstance(self.base, int | float) or not 1 < self.base < math.inf:
            raise ValueError(f"base must be larger than 1 and finite, got {shown(self.base)}")

    def __call__(self, planes: int, groups: int) -> Float[Tensor, "planes"]:
        each = planes // groups
        exponent = torch.arange(each, dtype=torch.float64) / each
        return (self.base**-exponent).repeat(groups).to(wide_dtype())


@final
@dataclass(frozen=True)
class Uniform(Frequencies):
    r"""Frequencies drawn uniformly from :math:`(-\pi, \pi)`, by a generator of their own.

    Args:
        seed: of the draw.

    Raises:
        ValueError: when ``seed`` is no integer.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        require_whole(seed=self.seed)

    def __call__(self, planes: int, groups: int) -> Float[Tensor, "planes"]:
        generator = torch.Generator().manual_seed(self.seed)
        return (2 * torch.rand(planes, generator=generator, dtype=wide_dtype()) - 1) * math.pi


@final
@dataclass(frozen=True)
class Still(Frequencies):
    """No plane turns at the start."""

    def __call__(self, planes: int, groups: int) -> Float[Tensor, "planes"]:
        return torch.zeros(planes, dtype=wide_dtype())

"""How many steps of depth a training batch takes: a pure function of the seed and the update."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor


class Depth(ABC):
    """A number of steps for each update, or for each sequence of its batch.

    To add one: a final class with the three abstract members.
    """

    @final
    def at(self, seed: int, update: int) -> int:
        """Steps of a whole batch; the same for the same arguments, on any machine."""
        return int(self.per_sequence(seed, update, 1)[0])

    @abstractmethod
    def per_sequence(self, seed: int, update: int, batch: int) -> Int[Tensor, "batch"]:
        """Steps of every sequence of a batch; the same for the same arguments, on any machine.

        Those of a larger batch begin with those of a smaller one.
        """

    @abstractmethod
    def scaled(self, fraction: float) -> "Depth":
        """The same kind of depth with ``fraction`` of its mean, rounded up where steps are whole, at least 1."""

    @property
    @abstractmethod
    def largest(self) -> int:
        """The largest number of steps that may be drawn."""


@final
@dataclass(frozen=True)
class Fixed(Depth):
    """The same number of steps at every update.

    Args:
        steps: at least 1.

    Raises:
        ValueError: when ``steps`` is below 1.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")

    def per_sequence(self, seed: int, update: int, batch: int) -> Int[Tensor, "batch"]:
        return torch.full((batch,), self.steps)

    def scaled(self, fraction: float) -> "Fixed":
        return Fixed(_up(self.steps * fraction))

    @property
    def largest(self) -> int:
        return self.steps


@final
@dataclass(frozen=True)
class Uniform(Depth):
    """A number of steps drawn uniformly from ``low`` to ``high``, both included.

    Args:
        low: smallest number of steps, at least 1.
        high: largest number of steps, at least ``low``.

    Raises:
        ValueError: when not ``1 <= low <= high <= MOST_STEPS``, a million.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high <= MOST_STEPS:
            raise ValueError(
                f"depths must satisfy 1 <= low <= high <= {MOST_STEPS}, got low = {self.low}, high = {self.high}"
            )

    def per_sequence(self, seed: int, update: int, batch: int) -> Int[Tensor, "batch"]:
        return torch.from_numpy(_stream(seed, update).integers(self.low, self.high, size=batch, endpoint=True))

    def scaled(self, fraction: float) -> "Uniform":
        return Uniform(_up(self.low * fraction), _up(self.high * fraction))

    @property
    def largest(self) -> int:
        return self.high


@final
@dataclass(frozen=True)
class Poisson(Depth):
    r"""A number of steps drawn as :math:`\min(\max(1, N), h)` with :math:`N` Poisson of a given mean.

    The published sampling has no :math:`h`; a bound is what a run's memory can be planned with. At mean
    8, a bound of 24 cuts one draw in a million.

    Args:
        mean: of :math:`N`, not negative; that of the steps is near it where the bounds are far.
        high: :math:`h`, the largest number of steps, at least 1.

    Raises:
        ValueError: when ``mean`` is negative or not finite, or ``high`` is below 1.
    """

    mean: float | int
    high: int

    def __post_init__(self) -> None:
        if not 0 <= self.mean < math.inf:
            raise ValueError(f"mean must be finite and not negative, got {self.mean}")
        if self.high < 1:
            raise ValueError(f"high must be at least 1, got {self.high}")

    def per_sequence(self, seed: int, update: int, batch: int) -> Int[Tensor, "batch"]:
        return torch.from_numpy(_stream(seed, update).poisson(self.mean, size=batch)).clamp(1, self.high)

    def scaled(self, fraction: float) -> "Poisson":
        return Poisson(self.mean * fraction, self.high)

    @property
    def largest(self) -> int:
        return self.high


MOST_STEPS = 1_000_000  # a loop of more would not end
_DEPTH_STREAM = 0x64657074  # keeps the depths independent of the batches drawn from the same seed


def _stream(seed: int, update: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, _DEPTH_STREAM, update]))


def _up(steps: float) -> int:
    # a third of three steps is one step, whatever the last bit says
    return max(1, math.ceil(steps - 1e-9))

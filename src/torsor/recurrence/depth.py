"""How many steps of depth a training batch takes: a pure function of the seed and the update."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np


class Depth(ABC):
    """A number of steps for each update."""

    @abstractmethod
    def at(self, seed: int, update: int) -> int:
        """Steps of this update; the same for the same arguments, on any machine."""

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

    def at(self, seed: int, update: int) -> int:
        return self.steps

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
        ValueError: when not ``1 <= low <= high``.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise ValueError(f"depths must satisfy 1 <= low <= high, got low = {self.low}, high = {self.high}")

    def at(self, seed: int, update: int) -> int:
        stream = np.random.SeedSequence([seed, _DEPTH_STREAM, update])
        return int(np.random.default_rng(stream).integers(self.low, self.high, endpoint=True))

    @property
    def largest(self) -> int:
        return self.high


_DEPTH_STREAM = 0x64657074  # keeps the depths independent of the batches drawn from the same seed

"""A depth whose mean rises over the first updates of a run."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from jaxtyping import Int
from torch import Tensor

from torsor.recurrence.depth import Depth

Rise = Callable[[float], float]


def linear(progress: float) -> float:
    """Rise evenly: the progress itself."""
    return progress


def one_minus_sqrt(progress: float) -> float:
    r"""Rise half as fast at first and steeply at the end: :math:`1 - \sqrt{1 - p}`."""
    return 1 - math.sqrt(1 - progress)


@final
@dataclass(frozen=True)
class Ramp(Depth):
    r"""Another depth, its mean multiplied by :math:`s + (1 - s) \, r(\min(1, u / n))` at update :math:`u`.

    Args:
        inner: the depth that is reached, and kept from update :math:`n` on.
        updates: :math:`n`, the number of updates on the way to it, at least 1.
        start: :math:`s`, the fraction of the mean at update 0, in [0, 1]. The published ramp starts at
            the number of steps that the gradient passes, over the mean.
        rise: :math:`r`, ``linear`` or ``one_minus_sqrt`` or any function from [0, 1] onto itself.

    Raises:
        ValueError: when ``updates`` or ``start`` is out of its range.

    Example:
        >>> from torsor.recurrence.depth import Fixed
        >>> ramp = Ramp(Fixed(8), updates=4)
        >>> [ramp.at(seed=0, update=update) for update in range(6)]
        [1, 2, 4, 6, 8, 8]
    """

    inner: Depth
    updates: int
    start: float = 0.0
    rise: Rise = linear

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise ValueError(f"updates must be at least 1, got {self.updates}")
        if not 0 <= self.start <= 1:
            raise ValueError(f"start must be in [0, 1], got {self.start}")

    def per_sequence(self, seed: int, update: int, batch: int) -> Int[Tensor, "batch"]:
        return self._at_update(update).per_sequence(seed, update, batch)

    def scaled(self, fraction: float) -> "Ramp":
        return Ramp(self.inner.scaled(fraction), self.updates, self.start, self.rise)

    @property
    def largest(self) -> int:
        return self.inner.largest

    def _at_update(self, update: int) -> Depth:
        if update >= self.updates:
            return self.inner
        return self.inner.scaled(self.start + (1 - self.start) * self.rise(update / self.updates))

"""A proportion with the counts it rests on."""

from dataclasses import dataclass
from typing import final

from scipy.special import betaincinv


@final
@dataclass(frozen=True)
class Proportion:
    """``hits`` successes in ``trials`` independent trials.

    Args:
        hits: 0 to ``trials``.
        trials: at least 1.

    Raises:
        ValueError: when there is no trial, or ``hits`` is out of range.
    """

    hits: int
    trials: int

    def __post_init__(self) -> None:
        if self.trials < 1 or not 0 <= self.hits <= self.trials:
            raise ValueError(f"hits must be in 0 .. trials and trials at least 1, got {self.hits} of {self.trials}")

    @property
    def value(self) -> float:
        """``hits / trials``."""
        return self.hits / self.trials

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        r"""The Clopper-Pearson interval, which covers the true rate with probability ``level`` or more.

        With :math:`\alpha = 1 - \mathtt{level}`, :math:`k` hits and :math:`n` trials, its ends are the quantiles

        .. math:: B(\alpha/2;\ k, n - k + 1), \qquad B(1 - \alpha/2;\ k + 1, n - k)

        of beta distributions, 0 where :math:`k = 0` and 1 where :math:`k = n`. It speaks of other
        examples for the same model, not of other seeds.

        Raises:
            ValueError: when ``level`` is not between 0 and 1.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be between 0 and 1, got {level}")
        tail, misses = (1 - level) / 2, self.trials - self.hits
        low = float(betaincinv(self.hits, misses + 1, tail)) if self.hits else 0.0
        high = float(betaincinv(self.hits + 1, misses, 1 - tail)) if misses else 1.0
        return low, high

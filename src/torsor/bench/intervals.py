"""The median of few noisy numbers with its interval, and the exponent by which a cost grows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.stats import binom, linregress

CONFIDENCE = 0.95
LEAST_COVERAGE = 0.9  # five numbers have 0.94
SPREAD = 1.25  # by how much the ends of an interval may differ before it hides a ratio
LEAST_SIZES = 5

Number = int | float


@final
@dataclass(frozen=True)
class Interval:
    r"""A median, and two of the numbers between which the true one lies.

    For any distribution, :math:`n` independent numbers lie below its median as often as a fair coin shows heads. So
    the true median lies from the :math:`k`-th smallest to the :math:`k`-th largest with probability
    :math:`1 - 2 P(\mathrm{Bin}(n, 1/2) < k)`.

    Args:
        middle: the median.
        low: the lower end.
        high: the upper end.
        coverage: that probability.
    """

    middle: float
    low: float
    high: float
    coverage: float

    def hidden(self, spread: Number = SPREAD) -> bool:
        """Whether it says too little: its ends differ by more than the factor ``spread``, or are not sure enough."""
        return self.coverage < LEAST_COVERAGE or not 0 < self.high <= spread * self.low

    def scaled(self, factor: Number) -> "Interval":
        """That of the numbers times a positive factor."""
        return Interval(self.middle * factor, self.low * factor, self.high * factor, self.coverage)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        ends = [self.low, self.high]
        return {"median": self.middle, "interval": ends, "coverage": self.coverage, "hidden": self.hidden()}


def interval_of_median(values: Sequence[Number], confidence: float = CONFIDENCE) -> Interval:
    """The median with the narrowest binomial interval that covers it with probability ``confidence``.

    Args:
        values: at least one number; of fewer than six the interval goes from the least to the largest, and its
            coverage is smaller than 0.95.
        confidence: between 0 and 1.

    Raises:
        ValueError: when there is no number.
    """
    if not values:
        raise ValueError("values must hold at least one number, got none")
    ordered, count = np.sort(np.asarray(values, dtype=float)), len(values)
    # the largest k with P(Bin < k) no more than half of what may be missed; the ends at least
    k = max(1, int(binom.ppf((1 - confidence) / 2, count, 0.5)))
    coverage = max(0.0, 1 - 2 * float(binom.cdf(k - 1, count, 0.5)))
    return Interval(float(np.median(ordered)), float(ordered[k - 1]), float(ordered[count - k]), coverage)


@final
@dataclass(frozen=True)
class Growth:
    r"""How a cost grows with a size: :math:`c \propto n^p`, and :math:`c = a + b n`, each fitted by least squares.

    Args:
        exponent: :math:`p`, the slope of the logarithms.
        exponent_error: its standard error.
        slope: :math:`b`.
        slope_error: its standard error.
        sizes: smallest and largest size.
    """

    exponent: float
    exponent_error: float
    slope: float
    slope_error: float
    sizes: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "exponent": self.exponent,
            "standard_error": self.exponent_error,
            "slope": self.slope,
            "slope_standard_error": self.slope_error,
            "sizes": list(self.sizes),
        }


def growth(sizes: Sequence[Number], costs: Sequence[Number]) -> Growth:
    """Fit both laws.

    Args:
        sizes: at least five different ones, positive.
        costs: of each, positive.

    Raises:
        ValueError: when there are fewer sizes or a number is not positive.
    """
    if len(set(sizes)) < LEAST_SIZES or len(sizes) != len(costs):
        raise ValueError(
            f"sizes must be at least {LEAST_SIZES} different ones with a cost each, got {list(sizes)} and "
            f"{len(costs)} costs"
        )
    if min(*sizes, *costs) <= 0:
        raise ValueError(f"sizes and costs must be positive, got {min(*sizes, *costs)}")
    exponent = _slope(np.log(sizes), np.log(costs))
    slope = _slope(np.asarray(sizes, dtype=float), np.asarray(costs, dtype=float))
    return Growth(*exponent, *slope, (float(min(sizes)), float(max(sizes))))


def _slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    if not np.ptp(y):
        return 0.0, 0.0  # exactly; linregress gives no error there
    found: Any = linregress(x, y)  # whose fields scipy does not declare
    return float(found.slope), float(found.stderr)

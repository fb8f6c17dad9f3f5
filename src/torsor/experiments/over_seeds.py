"""One number for every seed, and Student's interval of its mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any, final

from scipy.stats import t as student
from scipy.stats import ttest_ind


@final
@dataclass(frozen=True)
class OverSeeds:
    """One number for every seed.

    Args:
        values: in the order of the seeds; None where a seed has no such number.
        counts: examples that each value rests on.
    """

    values: tuple[float | None, ...]
    counts: tuple[int, ...]

    @property
    def mean(self) -> float | None:
        """Mean over the seeds that have the number; None without one."""
        known = [value for value in self.values if value is not None]
        return mean(known) if known else None

    @property
    def half_width(self) -> float | None:
        """Half of Student's 95 % interval of the mean over seeds; None with fewer than two."""
        known = [value for value in self.values if value is not None]
        return None if len(known) < 2 else student_half_width(known)

    @staticmethod
    def of(content: dict[str, Any]) -> "OverSeeds":
        """What ``to_json`` gave."""
        return OverSeeds(tuple(content["seeds"]), tuple(content["counts"]))

    def to_json(self) -> dict[str, Any]:
        """Every seed's value with its count, the mean, and the half-width."""
        return {
            "seeds": list(self.values),
            "counts": list(self.counts),
            "mean": self.mean,
            "half_width": self.half_width,
        }


@final
@dataclass(frozen=True)
class Difference:
    """How far the mean over one row's seeds lies above that over another's, seeds of the two being unrelated.

    Args:
        value: the difference of the means.
        half_width: half of Welch's 95 % interval; None where a row has fewer than two seeds.
    """

    value: float
    half_width: float | None


def difference(of: OverSeeds, against: OverSeeds) -> Difference | None:
    """The difference of two means with its interval; None where one of them has no value.

    Welch's interval does not take the two spreads for equal. Where neither row has any spread its width is 0.
    """
    ours, theirs = ([value for value in each.values if value is not None] for each in (of, against))
    if not ours or not theirs:
        return None
    value = mean(ours) - mean(theirs)
    if min(len(ours), len(theirs)) < 2:
        return Difference(value, None)
    if not stdev(ours) + stdev(theirs):
        return Difference(value, 0.0)
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    return Difference(value, float(high - low) / 2)


def student_half_width(values: Sequence[float]) -> float:
    """Half of Student's 95 % interval of the mean of at least two values."""
    return float(student.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))

"""One number for every seed, and Student's interval of its mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any, final

from scipy.stats import t as student


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

    def to_json(self) -> dict[str, Any]:
        """Every seed's value with its count, the mean, and the half-width."""
        return {
            "seeds": list(self.values),
            "counts": list(self.counts),
            "mean": self.mean,
            "half_width": self.half_width,
        }


def student_half_width(values: Sequence[float]) -> float:
    """Half of Student's 95 % interval of the mean of at least two values."""
    return float(student.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))

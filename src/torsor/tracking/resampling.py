"""Means and ratios over words with bootstrap intervals: what a Clopper-Pearson interval does not cover."""

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float, Num
from scipy.stats import bootstrap

_RESAMPLES = 999


@final
@dataclass(frozen=True)
class Bootstrapped:
    """A number over words, with its percentile bootstrap interval.

    Args:
        value: the number.
        low: the lower end of the interval.
        high: the upper end.
        words: how many words it rests on; with one word the interval is the number.
        level: of the interval.
    """

    value: float
    low: float
    high: float
    words: int
    level: float

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        return asdict(self)


def bootstrap_mean(values: Float[np.ndarray, "words"], level: float = 0.95) -> Bootstrapped:
    """The mean of one number for each word."""
    return bootstrap_ratio(values, np.ones_like(values), level)


def bootstrap_ratio(
    hits: Num[np.ndarray, "words"], trials: Num[np.ndarray, "words"], level: float = 0.95
) -> Bootstrapped:
    r"""The ratio :math:`\sum_i h_i / \sum_i n_i` over words.

    Answers within one word depend on each other, so whole words are drawn again: 999 times, from a
    fixed seed. The interval is that of the percentiles.

    Args:
        hits: of each word.
        trials: of each word, some of them positive.
        level: of the interval.

    Raises:
        ValueError: when no word has a trial.
    """
    if trials.sum() <= 0:
        raise ValueError("trials must be positive for at least one word, got none")
    value = float(hits.sum() / trials.sum())
    if len(hits) == 1:
        return Bootstrapped(value, value, value, 1, level)

    def ratio(some: np.ndarray, of: np.ndarray, axis: int) -> np.ndarray:
        # a draw without any trial says nothing, and is left at the value
        total = of.sum(axis)
        return np.where(total > 0, some.sum(axis) / np.maximum(total, np.finfo(float).tiny), value)

    drawn = bootstrap(
        (hits.astype(float), trials.astype(float)),
        ratio,
        paired=True,
        n_resamples=_RESAMPLES,
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    low, high = drawn.confidence_interval
    return Bootstrapped(value, float(low), float(high), len(hits), level)

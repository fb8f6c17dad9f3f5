"""Paired timings: the cases take turns, so that what else the machine does falls on all of them alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import final

import numpy as np


@final
@dataclass(frozen=True)
class Timings:
    """Seconds of every case in every round.

    Args:
        seconds: for each case one number per round, in the order of the rounds.
    """

    seconds: Mapping[str, tuple[float, ...]]

    def median(self, case: str) -> float:
        """Median over the rounds, in seconds."""
        return float(np.median(self.seconds[case]))

    def ratio(self, above: str, below: str) -> tuple[float, float, float]:
        """Median of ``above / below`` taken round by round, and its lower and upper quartile."""
        each = np.array(self.seconds[above]) / np.array(self.seconds[below])
        low, middle, high = np.quantile(each, [0.25, 0.5, 0.75])
        return float(middle), float(low), float(high)


def take_turns(cases: Mapping[str, Callable[[], object]], rounds: int, repeats: int = 1) -> Timings:
    """Time every case ``rounds`` times, one after the other in each round, after one round of warm-up.

    Args:
        cases: what to call, by name.
        rounds: how many times each, at least 1.
        repeats: calls in a row that one time is the mean of.

    Returns:
        The mean seconds of one call for every case and round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for round_number in range(rounds + 1):
        for name, call in cases.items():
            started = perf_counter()
            for _ in range(repeats):
                call()
            if round_number:
                seconds[name].append((perf_counter() - started) / repeats)
    return Timings({name: tuple(each) for name, each in seconds.items()})

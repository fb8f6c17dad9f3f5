"""Paired timings: the cases take turns, so that what else the machine does falls on all of them alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import final

import numpy as np

from torsor.bench.intervals import Interval, interval_of_median
from torsor.experiments.listening import tell


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

    def interval(self, case: str) -> Interval:
        """That median with its interval."""
        return interval_of_median(self.seconds[case])

    def ratio_interval(self, above: str, below: str) -> Interval:
        """Median of ``above / below`` taken round by round, with its interval."""
        pairs = zip(self.seconds[above], self.seconds[below], strict=True)
        return interval_of_median([one / other for one, other in pairs])


def take_turns(
    cases: Mapping[str, Callable[[], object]],
    rounds: int,
    repeats: int = 1,
    clock: Callable[[], float] = perf_counter,
) -> Timings:
    """Time every case ``rounds`` times, one after the other in each round, after one round of warm-up.

    Args:
        cases: what to call, by name.
        rounds: how many times each, at least 1.
        repeats: calls in a row that one time is the mean of.
        clock: seconds since some moment.

    Returns:
        The mean seconds of one call for every case and round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    turns, begun = len(cases) * (rounds + 1), 0
    for round_number in range(rounds + 1):
        for name, call in cases.items():
            tell(f"timing {', '.join(cases)}", begun, turns)  # between two turns, so that none is disturbed
            begun += 1
            started = clock()
            for _ in range(repeats):
                call()
            passed = clock() - started
            if round_number:
                seconds[name].append(passed / repeats)
    tell(f"timing {', '.join(cases)}", turns, turns)
    return Timings({name: tuple(each) for name, each in seconds.items()})

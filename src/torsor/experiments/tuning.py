"""The choice of one argument of every row from the same values, by runs of a seed that no table shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, final


@final
@dataclass(frozen=True)
class Tuning:
    """An argument, its values and the seed of the trials.

    Each row is run once with every value and takes the value whose run has the largest merit
    (``Reading.merit``); among equals the one named first. All rows have the same number of trials of
    the same length, and no trial is among the runs of the table. A trial that diverges has the least of all
    merits, and a value at which a run of the table itself diverges is given up for the next best.

    Args:
        argument: of the experiment.
        values: tried for every row, at least one.
        seed: of the trials; larger than that of any run of the table.
        share: of a run's updates that a trial has, in (0, 1]: where whole runs all reach the top, shorter
            ones can still be told apart.
        arguments: in which trials differ from the table's runs besides, such as another cut of the text, so that
            no number of the table has chosen anything.
    """

    argument: str
    values: tuple[Any, ...]
    seed: int = 100
    share: float = 1.0
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def trials(self) -> Iterator[dict[str, Any]]:
        """The arguments of each trial, the seed apart."""
        for value in self.values:
            yield {self.argument: value}

    def choice(self, merits: tuple[float | None, ...]) -> Any | None:
        """The value with the largest merit; None while a trial is missing, and where all of them diverged."""
        known = [merit for merit in merits if merit is not None]
        if len(known) < len(self.values) or max(known) == -inf:
            return None
        return self.values[known.index(max(known))]

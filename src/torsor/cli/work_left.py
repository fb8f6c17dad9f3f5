"""How an examination shows that it goes on: what is read, and the time left, once it has taken two seconds."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, final

from torsor.cli.shown_left import ShownLeft

if TYPE_CHECKING:
    from torsor.tracking.tracked import Portion, Watch


@final
class WorkLeft:
    r"""Estimates the rest from what the portions read so far have taken.

    A token at length :math:`L` is taken to cost :math:`a + b L`, with :math:`a, b \ge 0` from least squares over the
    portions: attention costs more at longer words, a recurrence does not.

    Args:
        portions: of the work, in order.
    """

    def __init__(self, portions: "Sequence[Portion]") -> None:
        self.portions = portions
        self.read: list[int] = [0] * len(portions)
        self.seconds: list[float] = [0.0] * len(portions)

    def take(self, place: int, tokens: int, seconds: float) -> None:
        """Some tokens of a portion were read; those before it are over."""
        self.read[place] += tokens
        self.seconds[place] += seconds
        for earlier in range(place):
            self.read[earlier] = self.portions[earlier].tokens

    @property
    def done(self) -> float:
        """The share of the expected time that has passed."""
        passed = sum(self.seconds)
        return passed / (passed + self.left) if passed else 0.0

    @property
    def left(self) -> float:
        """The seconds that are left."""
        fixed, growing = self._cost()
        rest = (max(0, each.tokens - read) for each, read in zip(self.portions, self.read, strict=True))
        return sum(tokens * (fixed + growing * each.length) for tokens, each in zip(rest, self.portions, strict=True))

    def _cost(self) -> tuple[float, float]:
        seen = [
            (portion.length, seconds / read, read)
            for portion, read, seconds in zip(self.portions, self.read, self.seconds, strict=True)
            if seconds
        ]
        weight = sum(read for _, _, read in seen)
        if not weight:
            return 0.0, 0.0
        length = sum(at * read for at, _, read in seen) / weight
        cost = sum(each * read for _, each, read in seen) / weight
        spread = sum(read * (at - length) ** 2 for at, _, read in seen)
        slope = sum(read * (at - length) * (each - cost) for at, each, read in seen) / spread if spread else 0.0
        slope = min(max(slope, 0.0), cost / length)
        return cost - slope * length, slope


@contextmanager
def shown_work(portions: "Sequence[Portion]", name: str) -> "Iterator[Watch]":
    """What to tell of everything that is read; it shows a bar on a terminal, a line now and then elsewhere.

    Args:
        portions: of the work, in order.
        name: of what is examined.
    """
    work, shown = WorkLeft(portions), ShownLeft()
    last = shown.started

    def watch(place: int, tokens: int) -> None:
        nonlocal last
        now = monotonic()
        passed, last = now - last, now
        if not tokens:  # what is done between two readings is little, and no rate of reading
            return
        work.take(place, tokens, passed)
        shown.show(name, work.done, work.left, f"  {sum(work.read):,} tokens")

    try:
        yield watch
    finally:
        shown.close()

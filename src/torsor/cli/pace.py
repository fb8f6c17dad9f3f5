"""How long the rest of something takes, at the pace that it has had since it was first heard of."""

from time import monotonic
from typing import final


@final
class Pace:
    """Hears how far a thing is; of another thing, or of one that begins anew, it starts afresh."""

    def __init__(self) -> None:
        self._what, self._began, self._first, self._last = "", monotonic(), 0.0, 0.0

    def left(self, what: str, share: float) -> float | None:
        """The seconds that are left; None while there is no pace yet.

        Args:
            what: goes on.
            share: that is done.
        """
        now = monotonic()
        if what != self._what or share < self._last:
            self._what, self._began, self._first = what, now, share
        self._last = share
        return (now - self._began) * (1 - share) / (share - self._first) if share > self._first else None

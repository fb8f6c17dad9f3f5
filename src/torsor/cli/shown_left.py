"""How far something is and how long it still takes, once it has taken two seconds: a bar, or a line now and then."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import final

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from torsor.cli.pace import Pace
from torsor.cli.patience import LINE_EVERY, PATIENCE
from torsor.experiments.listening import listening


@final
class ShownLeft:
    """A bar on a terminal, gone when all is done; elsewhere a plain line at most every fifteen seconds.

    Nothing runs beside the work: it is drawn when it is told, so that what is timed is not disturbed.
    """

    def __init__(self) -> None:
        texts = [TextColumn(f"{{task.{field}}}") for field in ("description", "fields[left]")]
        self.started: float = monotonic()
        self._spoken = self.started + PATIENCE - LINE_EVERY
        self._bar = Progress(
            *(texts[0], BarColumn(), TaskProgressColumn(), texts[1]),
            console=Console(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # results go where the user sends them
            redirect_stderr=False,
            disable=not sys.stderr.isatty(),
        )
        self._task = None

    def show(self, what: str, share: float, left: float, more: str = "") -> None:
        """Show how far it is.

        Args:
            what: goes on.
            share: that is done.
            left: seconds.
            more: that a plain line says.
        """
        now, words = monotonic(), f"{left:.0f} s left"
        if now - self.started < PATIENCE:
            return
        if not self._bar.disable:
            if self._task is None:
                self._bar.start()
                self._task = self._bar.add_task(what, total=1.0, left=words)
            self._bar.update(self._task, description=what, completed=share, left=words, refresh=True)
            if share >= 1:  # what is printed next has the line for itself
                self.close()
        elif now - self._spoken >= LINE_EVERY:
            self._spoken = now
            print(f"{what}{more}  {100 * share:.0f} %  {words}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the bar away; it comes back when something is shown again."""
        if self._task is not None:
            self._bar.stop()
            self._bar.remove_task(self._task)
            self._task = None


@contextmanager
def shown_left(prefix: str = "") -> Iterator[None]:
    """Show how far whatever tells it is, and the time left, from the time that it has taken.

    Args:
        prefix: stands before what goes on.
    """
    shown, pace = ShownLeft(), Pace()

    def heard(what: str, share: float) -> None:
        left = pace.left(what, share)
        if left is not None:
            shown.show(f"{prefix}{what}", share, left)

    try:
        with listening(heard):
            yield
    finally:
        shown.close()

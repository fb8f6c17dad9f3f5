"""What is shown on a terminal while something goes on: its name, for how long it has, and what is left if it tells."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from torsor.cli.pace import Pace
from torsor.experiments.listening import listening

PATIENCE = 2.0  # seconds without a word
LINE_EVERY = 15.0  # seconds between two plain lines


@contextmanager
def shown_waiting(what: str) -> Iterator[None]:
    """Say on a terminal, once it has taken two seconds, what goes on, and how much of it is left where it tells.

    Elsewhere nothing is said here: what tells how far it is has its plain lines from ``shown_left``.

    Args:
        what: goes on.
    """
    if not sys.stderr.isatty():
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(20),  # which pulses until something tells how far it is
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    shown, pace = Progress(*columns, console=Console(stderr=True), transient=True), Pace()
    task = shown.add_task(what, total=None, left="")

    def heard(told: str, share: float) -> None:
        left = pace.left(told, share)
        words = "" if left is None else f"{100 * share:.0f} %  {left:.0f} s left"
        shown.update(task, description=told, total=1.0, completed=share, left=words)

    later = Timer(PATIENCE, shown.start)
    later.daemon = True
    later.start()
    try:
        with listening(heard):
            yield
    finally:
        later.cancel()
        later.join()
        shown.stop()

"""What is shown on a terminal while one goes on whose end nobody can foretell: its name, and for how long it has."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

PATIENCE = 2.0  # seconds without a word
LINE_EVERY = 15.0  # seconds between two plain lines


@contextmanager
def shown_waiting(what: str) -> Iterator[None]:
    """Say on a terminal, once it has taken two seconds, what goes on; elsewhere nothing is said.

    Args:
        what: goes on.
    """
    if not sys.stderr.isatty():
        yield
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    shown.add_task(what, total=None)
    later = Timer(PATIENCE, shown.start)
    later.daemon = True
    later.start()
    try:
        yield
    finally:
        later.cancel()
        later.join()
        shown.stop()

"""Work in a library that does not hear Ctrl-C, done where the program still does."""

from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import final

HEARD_AFTER, GIVEN = 0.2, 5.0  # seconds: until an interruption is heard, and for the work to end after it


@final
class _Kept:
    """What is raised inside is kept for the thread that waits."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return error is not None


def interruptible(work: Callable[[], object], stop: Event) -> None:
    """Do work in a thread of its own and wait for it; what it raises is raised here.

    Python hears a signal in its main thread alone, between two of its own instructions: a library that keeps that
    thread for minutes keeps Ctrl-C waiting as long.

    Args:
        work: to do.
        stop: set when the waiting ends, so that work which was interrupted can end too.
    """
    kept = _Kept()

    def kept_work() -> None:
        with kept:
            work()

    thread = Thread(target=kept_work, daemon=True)
    thread.start()
    ended = False
    try:
        while thread.is_alive():
            thread.join(HEARD_AFTER)
        ended = True
    finally:
        stop.set()
        if not ended:
            thread.join(GIVEN)
    if kept.error is not None:
        raise kept.error

"""How much of a folder has been written, told while another's code writes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from pathlib import Path
from threading import Event, Thread

EVERY = 0.5  # seconds between two looks


@contextmanager
def watched_folder(folder: Path, whole: int, watch: Callable[[int, int], object] | None) -> Iterator[None]:
    """Inside, tell how many bytes the files of a folder have.

    Args:
        folder: that is written.
        whole: the bytes that it will have, about.
        watch: is told the bytes there are and those there will be, from a thread of its own, in the caller's context;
            None for nobody.
    """
    if watch is None:
        yield
        return
    ended = Event()

    def look() -> None:
        while not ended.wait(EVERY):
            watch(min(_bytes_in(folder), whole), whole)

    thread = Thread(target=copy_context().run, args=(look,), daemon=True)
    watch(0, whole)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    watch(whole, whole)


def _bytes_in(folder: Path) -> int:
    found = 0
    for each in folder.iterdir():
        try:
            found += each.stat().st_size
        except OSError:  # a temporary file that has just got its name
            continue
    return found

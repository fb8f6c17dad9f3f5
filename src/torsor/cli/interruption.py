"""What is said last where Ctrl-C ends a command."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

INTERRUPTED = 130
GOES_ON = "go on from its last checkpoint with"
NO_CHECKPOINT = "it has no checkpoint yet; begin again with"
RUN_BEGINS_AGAIN = "this run begins again, those that ended are kept; go on with"
NOTHING_BEGUN = "nothing had begun; start again with"
SAME_AGAIN = "go on with"
NOTHING_KEPT = "nothing is kept of it; begin again with"
_BEFORE = ((["demo"], SAME_AGAIN), (["table"], SAME_AGAIN), (["train"], NOTHING_BEGUN), (["data", "prepare"], GOES_ON))


def leave_interrupted(typed: Sequence[str], how: str = "") -> None:
    """Print the line and exit.

    Args:
        typed: after the program's name.
        how: to go on, as ``kept_in`` tells it; by default what holds of the command wherever it was.

    Raises:
        SystemExit: always.
    """
    if not how:
        how = next((told for words, told in _BEFORE if list(typed[: len(words)]) == words), NOTHING_KEPT)
    print(f"torsor: interrupted; {how}: {shlex.join(['torsor', *typed])}", file=sys.stderr)
    raise SystemExit(INTERRUPTED)


@contextmanager
def kept_in(run: Path, otherwise: str = NO_CHECKPOINT) -> Iterator[None]:
    """Let an interruption of the block know whether the run has a checkpoint.

    Args:
        run: folder of the run, which may not be there yet.
        otherwise: what is said where it has none.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(otherwise if last_checkpoint(run) is None else GOES_ON) from error


def last_checkpoint(run: Path) -> int | None:
    """The update of a run's last checkpoint; None where it has none.

    Args:
        run: folder of the run, which may not be there yet.
    """
    try:
        described = json.loads((run / "run.json").read_bytes())
        return int(described["checkpoint"]["update"])
    except (OSError, ValueError, TypeError, KeyError):
        return None

"""The command line."""

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]

PIPE_CLOSED = 141  # what a shell reports of a program that wrote on into a pipe that nobody reads


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 where the work was done, 2 for a user's mistake, 1 where a run failed.

    Args:
        arguments: as typed after the program's name; those of the process by default.

    Raises:
        SystemExit: always.
    """
    try:
        from torsor.cli.app import run  # here and not above: it takes half a second, and Ctrl-C is answered in it

        try:
            run(arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt as error:
        from torsor.cli.interruption import leave_interrupted

        leave_interrupted(list(sys.argv[1:] if arguments is None else arguments), str(error))
    except BrokenPipeError:  # whoever reads has enough, as head does; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(PIPE_CLOSED) from None

"""The program: its commands, and one line on stderr for a user's mistake."""

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, UnknownOptionError, UnusedCliTokensError

from torsor import __version__
from torsor.cli import (
    bench,
    data,
    demo,
    doctor,
    explore,
    export,
    generate,
    listing,
    measure,
    plan,
    report,
    table,
    track,
    train,
)
from torsor.cli.shown_left import shown_left
from torsor.experiments.experiment import nearest

MISTAKE, FAILURE = 2, 1

app: App = App(
    name="torsor",
    help="Sequence models whose state is carried from step to step by a structured, norm-preserving map.",
    version=__version__,
    version_flags=["--version"],
    suppress_keyboard_interrupt=False,  # the line that says how to go on is written outside
)
app.command(demo.demo)
app.command(listing.list_experiments, name="list")
app.command(train.app)
app.command(table.app)
app.command(measure.measure)
app.command(track.track)
app.command(generate.generate)
app.command(report.report)
app.command(export.export)
app.command(explore.explore)
app.command(data.app)
app.command(plan.app)
app.command(bench.app)
app.command(doctor.doctor)
app.register_install_completion_command(help="Make the shell complete torsor's commands, experiments and options.")


def run(arguments: Sequence[str] | None = None) -> None:
    """As ``torsor.cli.main``, without an answer to Ctrl-C.

    Args:
        arguments: as typed after the program's name; those of the process by default.

    Raises:
        SystemExit: always.
    """
    try:
        with shown_left():
            app(arguments, exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        _leave(_too_many(error), MISTAKE)
    except UnknownOptionError as error:
        said, known = " ".join(str(error).split()), " ".join(["torsor", *(error.command_chain or ())])
        _leave(said if "Did you mean" in said else f"{said} {known} --help names the options that it has", MISTAKE)
    except CycloptsError as error:
        _leave(" ".join(str(error).split()), MISTAKE)
    except MemoryError:
        _leave("not enough memory for these sizes: choose smaller ones", FAILURE)
    except RuntimeError as error:
        if "allocate memory" not in str(error):  # torch's own words; it has no class for it on a CPU
            raise
        _leave("not enough memory for these sizes: choose smaller ones", FAILURE)
    except ArithmeticError as error:
        _leave(str(error), FAILURE)
    except (ValueError, ImportError) as error:
        _leave(str(error), MISTAKE)
    except BrokenPipeError:
        raise
    except OSError as error:  # what no command has foreseen, such as a name that is too long for a folder
        _leave(f"{error.strerror or type(error).__name__}: {str(error.filename or '')[:80]!r}", MISTAKE)
    raise SystemExit(0)


def _too_many(error: UnusedCliTokensError) -> str:
    """What to say of a word that no command takes: it may be a sub-command that was misspelt."""
    word, chain = (error.unused_tokens or [""])[0], error.command_chain or ()
    names = [name for name in app.parse_commands(chain)[1][-1] if not name.startswith("-")]
    if names:
        return f"there is no {' '.join(['torsor', *chain, word])}{nearest(word, names)}"
    return f"{' '.join(['torsor', *chain])} takes no further word, got {word!r}"


def _leave(message: str, code: int) -> None:
    print(f"torsor: {message}", file=sys.stderr)
    raise SystemExit(code)

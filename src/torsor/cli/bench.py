"""``torsor bench`` by itself, ``torsor bench all``, a command for each case, and the profiles."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cyclopts import App
from rich.table import Table

from torsor.bench.catalogue import CASES
from torsor.cli.bench_content import OutFile, hand_out, print_case, print_machine
from torsor.cli.bench_options import OPTIONS, none
from torsor.cli.consoles import wide_console
from torsor.cli.experiment_command import options_command
from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole

app: App = App(name="bench", help="Time parts of torsor, beside the machine's own limits measured in the same run.")


@app.default
def list_cases(*, as_json: JsonFlag = False) -> None:
    """List what can be timed.

    Args:
        as_json: print JSON for programs.
    """
    if as_json:
        print(json.dumps({"cases": [{"name": name, "summary": case.summary} for name, case in CASES.items()]}))
        return
    table = Table("case", "what it measures", box=None, pad_edge=False)
    for name, case in CASES.items():
        table.add_row(name, case.summary)
    console = wide_console()
    console.print(table)
    console.print("\nOne: torsor bench CASE    several: torsor bench all CASE CASE    all: torsor bench all")
    console.print("Where the time of a job goes: torsor bench profile looped, osmformer or streaming")


@app.command(name="all")
def run_all(
    *names: str,
    rounds: MaybeWhole = None,
    threads: MaybeWhole = None,
    quick: bool = False,
    as_json: JsonFlag = False,
    out: OutFile = None,
) -> None:
    """Run every case, or those named, the machine's limits measured first.

    Args:
        names: of cases.
        rounds: turns of each; as many as each has by default.
        threads: threads of PyTorch; those of the machine by default.
        quick: at sizes that end in a moment and say nothing.
        as_json: print JSON for programs.
        out: a file for the JSON.
    """
    _run(names, {}, rounds=rounds, threads=threads, quick=quick, as_json=as_json, out=out)


@app.command
def profile(
    job: str,
    *,
    calls: Whole = 3,
    rows: Whole = 20,
    threads: MaybeWhole = None,
    out: OutFile = None,
) -> None:
    """Where the time of a main job goes: PyTorch's profiler, by operation.

    Args:
        job: looped, osmformer or streaming.
        calls: of the job, after one of warm-up.
        rows: of the table.
        threads: threads of PyTorch; those of the machine by default.
        out: a file for the text.
    """
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    from torsor.bench.profile_of_job import table_of
    from torsor.bench.written import require_place, write_text

    if out is not None:
        require_place(out)
    text = table_of(job, calls, rows)
    print(text)
    if out is not None:
        write_text(out, text)


def _command_of(name: str) -> Callable[..., None]:
    described = OPTIONS.get(name, none)
    own, common = (inspect.signature(each).parameters for each in (described, run_all))

    def do(given: dict[str, Any]) -> None:
        shared = {
            each: given.pop(each, own.get(each, parameter).default)
            for each, parameter in common.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        _run((name,), given, **shared)

    return options_command(f"Measure {CASES[name].summary}.", (own.values(), described), run_all, do)


def _run(
    names: tuple[str, ...],
    own: dict[str, Any],
    *,
    rounds: int | None,
    threads: int | None,
    quick: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    from torsor.experiments.machine import set_threads

    set_threads(threads)
    from torsor.bench.session import run_cases
    from torsor.bench.written import require_place

    if out is not None:
        require_place(out)

    def tell(name: str, content: dict[str, Any]) -> None:
        if as_json:
            return
        if name == "machine":
            print_machine(content, quick)
        else:
            print_case(name, content, quick)

    hand_out(run_cases(names, rounds, quick, tell, own), as_json, out)


for _name in CASES:
    app.command(_command_of(_name), name=_name)

"""``torsor table``: a paper's table, with the paper's number beside ours."""

import inspect
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from torsor.cli.experiment_command import options_command
from torsor.cli.paper_table import print_grid, print_markdown, print_robustness
from torsor.cli.table_picture import draw
from torsor.cli.tables import JsonFlag
from torsor.cli.verify import verify_table
from torsor.cli.whole import RATE, MaybeWhole, Whole, strict
from torsor.experiments.catalogue import TABLES, find, find_table
from torsor.experiments.experiment import Scale
from torsor.experiments.table import Table

if TYPE_CHECKING:
    from torsor.experiments.run import Updates
    from torsor.experiments.table_run import Order


def table(
    name: str = "",
    *more: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    scale: Scale = "laptop",
    seeds: Whole = 1,
    rows: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    tune: Annotated[bool, Parameter(negative=())] = False,
    updates: MaybeWhole = None,
    learning_rate: Annotated[float | None, RATE] = None,
    text: str | None = None,
    out: Path = Path("runs/tables"),
    threads: MaybeWhole = None,
    dry_run: bool = False,
    verify: Annotated[bool, Parameter(negative=())] = False,
    picture: Path | None = None,
    as_json: JsonFlag = False,
    as_markdown: Annotated[bool, Parameter(name="--markdown", negative=())] = False,
) -> None:
    """Make a table of a paper: run the rows that are not there yet, then print the paper's numbers and ours.

    The same command again runs only what is missing, and goes on with what was interrupted. After the table's name
    every argument of its experiment is an option too: torsor table TABLE --help.

    Args:
        name: the table, as torsor list prints it.
        more: what is typed after a name that is no table's.
        scale: size of the runs: for a laptop, or the paper's.
        seeds: runs of each row.
        rows: labels of the rows to run and print, such as diagonal "conformal, 2 groups"; all by default.
        tune: choose each row's learning rate first, from the same values for all rows, by runs of another seed.
        updates: in place of the scale's.
        learning_rate: in place of the scale's.
        text: what language models read: a data set, a text file, or a folder made by torsor data prepare.
        out: folder of all tables' runs; runs with arguments that were given lie in a folder named by them.
        threads: threads of PyTorch; those of the machine by default.
        dry_run: run nothing; print what is there.
        verify: run nothing; compute the numbers of every finished run again from its checkpoint, and compare.
        picture: file of a picture of the table, its numbers as comma-separated values beside it.
        as_json: print JSON for programs.
        as_markdown: print Markdown for documents.
    """
    if not name:
        raise ValueError(f"name a table: torsor table TABLE; there are: {', '.join(TABLES)}")
    options = {each: value for each, value in locals().items() if each in _DEFAULTS and value is not None}
    found = find_table(name)
    if more:  # of a table's name that comes first, its own command takes them
        raise ValueError(f"{more[0]} must stand behind the table's name: torsor table {name} {shlex.join(more)}")
    _make(found, options)


_DEFAULTS = {
    name: each.default
    for name, each in inspect.signature(table).parameters.items()
    if each.kind is inspect.Parameter.KEYWORD_ONLY
}
REPLACED = ("updates", "learning_rate", "text")  # of every table, whatever its rows say


def _make(found: Table, given: dict[str, Any]) -> None:
    """Carry out what was typed after a table's name."""
    arguments = {name: value for name, value in given.items() if name in REPLACED or name not in _DEFAULTS}
    typed = {name: given.get(name, default) for name, default in _DEFAULTS.items()}
    for name, why in _rows_own(found).items():
        if name in arguments:
            raise ValueError(f"{name.replace('_', '-')} must not be given to {found.name}, {why}")
    if typed["verify"] and typed["dry_run"]:
        raise ValueError("--dry-run prints what is there, --verify computes it again, and neither trains: give one")
    wanted = tuple(found.row(label) for label in typed["rows"]) or found.rows
    picture: Path | None = typed["picture"]
    replaced = False
    if picture is not None:
        from torsor.report.table_picture import replaces_picture

        replaced = replaces_picture(picture)  # before the work
    from torsor.cli.progress import follow
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.provenance import provenances
    from torsor.experiments.run_table import complete, other_runs, results
    from torsor.experiments.table_run import Order

    order = Order(found, wanted, typed["scale"], typed["seeds"], typed["out"], typed["tune"], arguments)
    if typed["verify"]:
        verify_table(order, typed["threads"], typed["as_json"])
        return
    if not typed["dry_run"]:
        prepare_machine(typed["threads"], order.root)
        complete(order, counted(order, follow))
    content = results(order)
    whole = {"table": found.name, "scale": order.scale, "rows": content, "runs": provenances(order)}
    others = other_runs(order)
    whole["not_run"] = [{"row": row, "seed": seed, "reason": why} for row, seed, why in others]
    if picture is not None:
        numbers = draw(found, content, picture)
        whole["picture"] = {"picture": str(picture), "numbers": str(numbers), "replaced": replaced}
    if found.reading.admits_divergence:
        from torsor.experiments.robust_bits import robustness

        whole["robustness"] = robustness(found, content, found.columns[0])
    if typed["as_json"]:
        print(json.dumps(whole))
        return
    (print_markdown if typed["as_markdown"] else print_grid)(found, content, whole["runs"])
    for row, seed, why in others:
        print(f"{row}, seed {seed} not run: {why}", file=sys.stderr if typed["as_markdown"] else sys.stdout)
    if "robustness" in whole:
        print_robustness(found, whole["robustness"])
    if picture is not None:
        stream = sys.stderr if typed["as_markdown"] else sys.stdout
        print(f"picture: {picture}, its numbers beside it{' (replaced)' * replaced}", file=stream)


def _rows_own(found: Table) -> dict[str, str]:
    """The arguments that a table's runs cannot share, each with why: with one value for all of them it is no table."""
    why = {"seed": "whose --seeds N gives each row the seeds 0 to N - 1"}
    for name in {name: None for row in found.rows for name in row.arguments}:
        values = {repr(row.arguments.get(name)) for row in found.rows}
        if len(values) > 1 and name not in REPLACED:
            why[name] = (
                f"whose rows differ in it: choose rows with --rows, or train one: torsor train {found.experiment}"
            )
    return why


def _command(found: Table) -> Callable[..., None]:
    """The command of one table: its experiment's arguments, then what every table has."""
    build, hidden = find(found.experiment).build, _rows_own(found)
    own = (each for each in inspect.signature(build).parameters.values() if each.name not in _DEFAULTS)
    read = [
        each.replace(
            annotation=Annotated[
                strict(each.name, each.annotation),
                Parameter(group="Arguments of all its runs", show_default=False, show=each.name not in hidden),
            ]
        )
        for each in own
    ]
    return options_command(found.summary, (read, build), table, lambda given: _make(find_table(found.name), given))


app: App = App(name="table", help=inspect.cleandoc(table.__doc__ or "").partition("\n\nArgs:")[0])
app.default(table)
for _each in TABLES.values():
    app.command(_command(_each), name=_each.name)


def counted(order: "Order", follow: "Callable[[Updates, Path], None]") -> "Callable[[Updates, Path], None]":
    """Follow each run, and say after it how many are left and for how long at this pace.

    Args:
        order: what is wanted.
        follow: draws from a run and shows it.
    """
    from torsor.experiments.run_table import finished_runs

    trials = len(list(order.tuning.trials())) if order.tuned else 0
    most, begun = len(order.rows) * (order.seeds + trials) - len(finished_runs(order)), monotonic()
    done = 0

    def followed(updates: "Updates", path: Path) -> None:
        nonlocal done
        follow(updates, path)
        done += 1
        if done < most:  # trials that are there already are not known to be
            left = (monotonic() - begun) / done * (most - done)
            print(f"{order.table.name}  {done} of at most {most} runs  at most {left:.0f} s left", file=sys.stderr)

    return followed

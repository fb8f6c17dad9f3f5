"""``torsor table``: a paper's table, with the paper's number beside ours."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table as Grid

from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole
from torsor.experiments.catalogue import TABLES, find_table
from torsor.experiments.experiment import Scale
from torsor.experiments.table import Table


def table(
    name: str = "",
    *,
    scale: Scale = "laptop",
    seeds: Whole = 1,
    rows: tuple[str, ...] = (),
    tune: Annotated[bool, Parameter(negative=())] = False,
    updates: MaybeWhole = None,
    learning_rate: float | None = None,
    out: Path = Path("runs/tables"),
    threads: MaybeWhole = None,
    dry_run: bool = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a table of a paper: run the rows that are not there yet, then print the paper's numbers and ours.

    The same command again runs only what is missing, and goes on with what was interrupted.

    Args:
        name: the table, as torsor list prints it.
        scale: size of the runs: for a laptop, or the paper's.
        seeds: runs of each row.
        rows: labels of the rows to run and print; all by default.
        tune: choose each row's learning rate first, from the same values for all rows, by runs of another seed.
        updates: in place of the scale's.
        learning_rate: in place of the scale's.
        out: folder of all tables' runs.
        threads: threads of PyTorch; those of the machine by default.
        dry_run: run nothing; print what is there.
        as_json: print JSON for programs.
    """
    from torsor.cli.progress import follow
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.run_table import Order, complete, results

    if not name:
        raise ValueError(f"name a table: torsor table TABLE; there are: {', '.join(TABLES)}")
    found = find_table(name)
    wanted = tuple(found.row(label) for label in rows) or found.rows
    given = {"updates": updates, "learning_rate": learning_rate}
    given = {key: value for key, value in given.items() if value is not None}
    order = Order(found, wanted, scale, seeds, out, tune, given)
    if not dry_run:
        prepare_machine(threads, out)
        complete(order, follow)
    content = results(order)
    if as_json:
        print(json.dumps({"table": found.name, "scale": scale, "rows": content}))
        return
    _print(found, content)


def _print(table: Table, content: list[dict[str, Any]]) -> None:
    headline, *others = table.reading.scores
    heads = ("row", table.reading.axis, "paper", headline, "difference", *others, "seeds")
    grid = Grid(*heads, box=None, pad_edge=False)
    for row in content:
        for column in table.columns:
            cell = row["columns"][column]
            ours = cell["ours"]
            grid.add_row(
                row["row"] if column == table.columns[0] else "",
                f"{column}, here {cell['here']}" if cell["here"] else column,
                _published(cell["paper"]),
                _over_seeds(ours[headline]),
                "" if cell["difference"] is None else f"{cell['difference']:+.3f}",
                *(_counted(ours[name], ours[headline]) for name in others),
                ", ".join("none" if value is None else f"{value:.3f}" for value in ours[headline]["seeds"]),
            )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 190)
    console.print(table.summary)
    console.print(grid)
    console.print(f"\n{table.reading.legend}; ± is half of Student's 95 % interval over seeds.")
    for row in content:
        if "tuning" in row:
            console.print(f"  {row['row']}: {_tuned(row['tuning'])}", soft_wrap=True)
    console.print("Commands:")
    for row in content:
        console.print(f"  {row['command']}", soft_wrap=True)


def _tuned(tuning: dict[str, Any]) -> str:
    tried = ", ".join(
        f"{each['value']} ({'not run' if each['merit'] is None else format(each['merit'], '.3f')})"
        for each in tuning["trials"]
    )
    chosen = "not chosen yet" if tuning["chosen"] is None else f"{tuning['chosen']}"
    return f"{tuning['argument']} {chosen}, of {tried} by seed {tuning['seed']}"


def _counted(number: dict[str, Any], headline: dict[str, Any]) -> str:
    """The number, with the examples it rests on where they are others than the headline's."""
    shown = _over_seeds(number)
    return shown if number["counts"] == headline["counts"] else f"{shown} ({sum(number['counts'])})"


def _published(paper: dict[str, Any] | None) -> str:
    if paper is None:
        return ""
    return f"{paper['value']:.3f}" + ("" if paper["spread"] is None else f" ± {paper['spread']:.3f}")


def _over_seeds(number: dict[str, Any]) -> str:
    if number["mean"] is None:
        return "not run" if not number["seeds"] else "none"
    return f"{number['mean']:.3f}" + ("" if number["half_width"] is None else f" ± {number['half_width']:.3f}")

"""``torsor table``: a paper's table, with the paper's number beside ours."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole
from torsor.experiments.catalogue import TABLES, find_table
from torsor.experiments.experiment import Scale


def table(
    name: str = "",
    *,
    scale: Scale = "laptop",
    seeds: Whole = 1,
    rows: tuple[str, ...] = (),
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
        updates: in place of the scale's.
        learning_rate: in place of the scale's.
        out: folder of all tables' runs.
        threads: threads of PyTorch; those of the machine by default.
        dry_run: run nothing; print what is there.
        as_json: print JSON for programs.
    """
    from torsor.cli.progress import follow
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.run_table import complete, results

    if not name:
        raise ValueError(f"name a table: torsor table TABLE; there are: {', '.join(TABLES)}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    found = find_table(name)
    wanted = tuple(found.row(label) for label in rows) or found.rows
    given = {"updates": updates, "learning_rate": learning_rate}
    given = {key: value for key, value in given.items() if value is not None}
    if not dry_run:
        prepare_machine(threads, out)
        complete(found, wanted, scale, seeds, out, follow, **given)
    content = results(found, wanted, scale, seeds, out, **given)
    if as_json:
        print(json.dumps({"table": found.name, "scale": scale, "rows": content}))
        return
    _print(found.summary, content, found.columns)


def _print(summary: str, content: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    grid = Grid("row", "depth", "paper", "joint", "difference", "last", "cond. (of)", "seeds", box=None, pad_edge=False)
    for row in content:
        for column in columns:
            cell = row["columns"][column]
            ours = cell["ours"]
            grid.add_row(
                row["row"] if column == columns[0] else "",
                column if cell["steps"] is None else f"{column}, here {cell['steps']} loops",
                _published(cell["paper"]),
                _over_seeds(ours["joint"]),
                "" if cell["difference"] is None else f"{cell['difference']:+.3f}",
                _over_seeds(ours["last"]),
                f"{_over_seeds(ours['conditional'])} ({sum(ours['conditional']['counts'])})",
                ", ".join(f"{value:.3f}" for value in ours["joint"]["seeds"]),
            )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 190)
    console.print(summary)
    console.print(grid)
    console.print("\njoint: the whole word right; ± is half of Student's 95 % interval over seeds. Commands:")
    for row in content:
        console.print(f"  {row['command']}", soft_wrap=True)


def _published(paper: dict[str, Any] | None) -> str:
    if paper is None:
        return ""
    return f"{paper['value']:.3f}" + ("" if paper["spread"] is None else f" ± {paper['spread']:.3f}")


def _over_seeds(number: dict[str, Any]) -> str:
    if number["mean"] is None:
        return "not run" if not number["seeds"] else "none"
    return f"{number['mean']:.3f}" + ("" if number["half_width"] is None else f" ± {number['half_width']:.3f}")

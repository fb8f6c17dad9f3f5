"""``torsor table``: a paper's table, with the paper's number beside ours."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from torsor.cli.paper_table import print_grid, print_markdown, print_robustness
from torsor.cli.table_picture import draw
from torsor.cli.tables import JsonFlag
from torsor.cli.verify import verify_runs
from torsor.cli.whole import RATE, MaybeWhole, Whole
from torsor.experiments.catalogue import TABLES, find_table
from torsor.experiments.experiment import Scale

if TYPE_CHECKING:
    from torsor.experiments.run import Updates
    from torsor.experiments.run_table import Order


def table(
    name: str = "",
    *,
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

    The same command again runs only what is missing, and goes on with what was interrupted.

    Args:
        name: the table, as torsor list prints it.
        scale: size of the runs: for a laptop, or the paper's.
        seeds: runs of each row.
        rows: labels of the rows to run and print; all by default.
        tune: choose each row's learning rate first, from the same values for all rows, by runs of another seed.
        updates: in place of the scale's.
        learning_rate: in place of the scale's.
        text: what language models read: a data set, a text file, or a folder made by torsor data prepare.
        out: folder of all tables' runs.
        threads: threads of PyTorch; those of the machine by default.
        dry_run: run nothing; print what is there.
        verify: run nothing; compute the numbers of every finished run again from its checkpoint, and compare.
        picture: file of a picture of the table, its numbers as comma-separated values beside it.
        as_json: print JSON for programs.
        as_markdown: print Markdown for documents.
    """
    if not name:
        raise ValueError(f"name a table: torsor table TABLE; there are: {', '.join(TABLES)}")
    found = find_table(name)
    wanted = tuple(found.row(label) for label in rows) or found.rows
    from torsor.cli.progress import follow
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.provenance import provenances
    from torsor.experiments.run_table import Order, complete, results

    given = {"updates": updates, "learning_rate": learning_rate, "text": text}
    given = {key: value for key, value in given.items() if value is not None}
    order = Order(found, wanted, scale, seeds, out, tune, given)
    if verify:
        verify_runs(order, threads, as_json)
        return
    if not dry_run:
        prepare_machine(threads, out)
        complete(order, counted(order, follow))
    content = results(order)
    if picture is not None:
        draw(found, content, picture)
    whole = {"table": found.name, "scale": scale, "rows": content, "runs": provenances(order)}
    if found.reading.admits_divergence:
        from torsor.experiments.robust_bits import robustness

        whole["robustness"] = robustness(found, content, found.columns[0])
    if as_json:
        print(json.dumps(whole))
        return
    (print_markdown if as_markdown else print_grid)(found, content, whole["runs"])
    if "robustness" in whole:
        print_robustness(found, whole["robustness"])


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

"""A paper's table as it is printed: on a terminal, and as Markdown."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from torsor.experiments.table import Table


def print_grid(table: Table, content: list[dict[str, Any]], runs: Sequence[dict[str, Any]]) -> None:
    """The paper's numbers and ours in columns, then what they are and the command of each row.

    Args:
        table: the table.
        content: what ``results`` gives.
        runs: what ``provenances`` gives.
    """
    grid = Grid(*_heads(table), box=None, pad_edge=False)
    for line in _lines(table, content):
        grid.add_row(*line)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 190)
    console.print(table.summary)
    console.print(grid)
    console.print()
    for line in (_legend(table), *(f"  {note}" for note in _notes(table, content, runs)), "Commands:"):
        console.print(line, soft_wrap=True)
    for row in content:
        console.print(f"  {row['command']}", soft_wrap=True)


def print_markdown(table: Table, content: list[dict[str, Any]], runs: Sequence[dict[str, Any]]) -> None:
    """The same as Markdown, the commands in a block of code.

    Args:
        table: the table.
        content: what ``results`` gives.
        runs: what ``provenances`` gives.
    """
    heads = _heads(table)
    print(table.summary, "", sep="\n")
    print(f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |", sep="\n")
    for line in _lines(table, content):
        print(f"| {' | '.join(line)} |")
    print()
    print(_legend(table), "", *(f"- {note}" for note in _notes(table, content, runs)), sep="\n")
    print("", "```", *(row["command"] for row in content), "```", sep="\n")


def print_robustness(table: Table, content: list[dict[str, Any]]) -> None:
    """What each panel and series of a table come to over its runs.

    Args:
        table: the table.
        content: what ``robustness`` gives.
    """
    grid = Grid("", "", f"best {table.reading.scores[0]}", "at", "spread", "runs", "diverged", box=None, pad_edge=False)
    for row in content:
        best, spread, diverged = row["best"], row["spread"], row["diverged"]
        grid.add_row(
            *(row["panel"], row["series"]),
            "" if best is None else f"{best:{table.reading.number}}",
            "" if best is None else f"{row['at']:g}",
            "" if spread is None else f"{spread:{table.reading.number}}",
            str(row["runs"]),
            "" if diverged is None else f"{diverged:.2f}",
        )
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 190)
    console.print(grid)
    console.print(f"{table.columns[0]}; spread: worst less best of the runs that have not diverged", soft_wrap=True)


def _heads(table: Table) -> tuple[str, ...]:
    headline, *others = table.reading.scores
    return ("row", table.reading.axis, "paper", headline, "difference", *others, "seeds")


def _lines(table: Table, content: list[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    headline, *others = table.reading.scores
    number = table.reading.number
    for row in content:
        for column in table.columns:
            cell = row["columns"][column]
            ours = cell["ours"]
            yield (
                row["row"] if column == table.columns[0] else "",
                f"{column}, here {cell['here']}" if cell["here"] else column,
                _published(cell["paper"], number),
                _over_seeds(ours[headline], number),
                "" if cell["difference"] is None else f"{cell['difference']:+{number}}",
                *(_counted(ours[name], ours[headline], number) for name in others),
                ", ".join("none" if value is None else f"{value:{number}}" for value in ours[headline]["seeds"]),
            )


def _legend(table: Table) -> str:
    headline = table.reading.scores[0]
    difference = f"difference: {headline}, ours less the paper's"
    return f"{table.reading.legend}; {difference}; ± is half of Student's 95 % interval over seeds."


def _notes(table: Table, content: list[dict[str, Any]], runs: Sequence[dict[str, Any]]) -> Iterator[str]:
    """For each row what was tuned, and what its runs cost."""
    for row in content:
        own = [run for run in runs if run["row"] == row["row"]]
        said = [_tuned(table, row["tuning"])] if "tuning" in row else []
        said += [_cost(own)] if own else []
        if said:
            yield f"{row['row']}: {'; '.join(said)}"
    for row in content:
        if row["against"] is not None and any(row["against"]["columns"].values()):
            yield f"{row['row']} less {row['against']['row']}: {_apart(table, row['against']['columns'])}"


def _apart(table: Table, columns: dict[str, Any]) -> str:
    number = table.reading.number
    told = [
        f"{column} {each['value']:+{number}}"
        + ("" if each["half_width"] is None else f" ± {each['half_width']:{number}}")
        for column, each in columns.items()
        if each is not None
    ]
    return f"{', '.join(told)} (± is half of Welch's 95 % interval over seeds)"


def _cost(runs: Sequence[dict[str, Any]]) -> str:
    """Parameters and minutes of a row's runs; rows of one table are runs of one machine and compare."""
    minutes = [run["seconds"] / 60 for run in runs if run["seconds"] is not None]
    parameters = " or ".join(sorted({f"{run['parameters']:,}" for run in runs if run["parameters"] is not None}))
    said = [f"{parameters} parameters"] if parameters else []
    if minutes:
        low, high = f"{min(minutes):.3g}", f"{max(minutes):.3g}"
        threads = " or ".join(sorted({str(run["threads"]) for run in runs}))
        said.append(f"{low if low == high else f'{low} to {high}'} minutes of training a run, threads: {threads}")
    return "; ".join(said)


def _tuned(table: Table, tuning: dict[str, Any]) -> str:
    tried = ", ".join(f"{each['value']} ({_trial(table, each)})" for each in tuning["trials"])
    chosen = "not chosen yet" if tuning["chosen"] is None else f"{tuning['chosen']}"
    return f"{tuning['argument']} {chosen}, of {tried} by seed {tuning['seed']}"


def _trial(table: Table, trial: dict[str, Any]) -> str:
    if trial["diverged"]:
        return "diverged"
    told = "not run" if trial["merit"] is None else table.reading.told(trial["merit"])
    return f"{told}, given up: a run diverged" if trial["given_up"] else told


def _counted(cell: dict[str, Any], headline: dict[str, Any], number: str) -> str:
    """The number, with the examples it rests on where they are others than the headline's."""
    shown = _over_seeds(cell, number)
    return shown if cell["counts"] == headline["counts"] else f"{shown} ({sum(cell['counts'])})"


def _published(paper: dict[str, Any] | None, number: str) -> str:
    if paper is None:
        return ""
    return f"{paper['value']:{number}}" + ("" if paper["spread"] is None else f" ± {paper['spread']:{number}}")


def _over_seeds(cell: dict[str, Any], number: str) -> str:
    if cell["mean"] is None:
        return "not run" if not cell["seeds"] else "none"
    return f"{cell['mean']:{number}}" + ("" if cell["half_width"] is None else f" ± {cell['half_width']:{number}}")

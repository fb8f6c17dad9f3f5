"""What a bench has found, printed as tables or handed out as JSON."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from torsor.cli.consoles import wide_console

OutFile = Annotated[Path | None, Parameter(name="--out")]


def hand_out(content: dict[str, Any], as_json: bool, out: Path | None) -> bool:
    """Write the content to a file, as a whole or not at all, and print it where JSON was asked for.

    Args:
        content: plain numbers.
        as_json: whether to print it.
        out: the file; None for none.

    Returns:
        Whether it was printed, so that no table need be.

    Raises:
        ValueError: when the file cannot be written.
    """
    from torsor.bench.written import plain, write_content

    if out is not None:
        write_content(out, content)
    if as_json:
        print(json.dumps(plain(content)))
    return as_json


def ratio_words(ratio: float | None, interval: Sequence[float], hidden: bool, digits: int = 2) -> str:
    """A ratio with its interval, or that its spread hides it."""
    low, high = (f"{end:.{digits}f}" for end in interval)
    shown = "spread hides it" if hidden or ratio is None else f"{ratio:.{digits}f}"
    return f"{shown} ({low} to {high})"


def print_machine(machine: dict[str, Any], quick: bool = False) -> None:
    """The machine and its limits in one line; of a quick run the machine alone, since so small sizes reach no limit."""
    told = f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, torch {machine['torch']}: "
    if quick:
        told += "its limits are not told, since --quick's sizes do not reach them"
    else:
        told += f"matrix peak {machine['gemm'] / 1e9:.0f} GFLOP/s, bandwidth {machine['bandwidth'] / 1e9:.1f} GB/s"
    wide_console().print(told)


def print_case(name: str, content: dict[str, Any], quick: bool = False) -> None:
    """A table of the rows, one of how they grow, and what else was found; of a quick run no share of a limit."""
    console = wide_console()
    settings = ", ".join(f"{key} {_plain(value)}" for key, value in content.get("settings", {}).items())
    console.print(f"\n{name}{': ' if settings else ''}{settings}")
    rows = content.get("rows", [])
    if rows and "seconds_interval" in rows[0]:
        _print_harness(rows, quick)
    else:
        _print_rows([row for key, value in content.items() if key != "growth" for row in _rows_of(key, value)])
    if "growth" in content:
        table = Table("grows", "with", "from", "to", "exponent", "per unit", box=None, pad_edge=False)
        for row in content["growth"]:
            low, high = row["sizes"]
            exponent = f"{row['exponent']:.2f} ± {row['standard_error']:.2f}"
            slope = f"{row['slope']:.3g} ± {row['slope_standard_error']:.1g}"
            table.add_row(row["what"], row["over"], f"{low:g}", f"{high:g}", exponent, slope)
        console.print(table)
    for row in content.get("stalls", []):
        share = None if row["hidden"] else row["median"] * 100
        words = ratio_words(share, [100 * end for end in row["interval"]], row["hidden"])
        console.print(f"width {row['width']}: writing, in % of the time between two checkpoints: {words}")
    for name_of_model, difference in content.get("differences", {}).items():
        if isinstance(difference, float):
            console.print(f"largest difference, {name_of_model}: {difference:.1e}")
    if "parts" in content and not quick:
        table = Table(
            "floor of",
            "part",
            "GFLOP",
            "MB",
            "share of floor",
            "its products, of peak",
            "reach",
            box=None,
            pad_edge=False,
        )
        for row in content["parts"]:
            counts = (f"{row['operations'] / 1e9:.3f}", f"{row['moved'] / 1e6:.2f}")
            reach = (f"{row['rate_of_peak']:.2f}", _time(row["reach_seconds"])) if "reach_seconds" in row else ("", "")
            table.add_row(row["case"], row["name"], *counts, f"{row['share_of_floor']:.3f}", *reach)
        console.print(table)


BOUNDS = ("floor", "reach")  # of a main job: see torsor.bench.floors


def _print_harness(rows: Sequence[dict[str, Any]], quick: bool) -> None:
    heads = ["case", "median", "interval", "of peak", "of bandwidth", "per second", "times as fast", "peak"]
    heads += ["of floor", "of reach"]
    cells = [_harness_cells(row) for row in rows]
    of_limits = {heads.index(head) for head in ("of peak", "of bandwidth", "of floor", "of reach")} if quick else set()
    columns = [column for column in range(len(heads)) if column not in of_limits]
    kept = [column for column in columns if column < 2 or any(row[column] for row in cells)]
    table = Table(*(heads[column] for column in kept), box=None, pad_edge=False)
    for row in cells:
        table.add_row(*(row[column] for column in kept))
    wide_console().print(table)


def _harness_cells(row: dict[str, Any]) -> list[str]:
    low, high = row["seconds_interval"]
    return [
        row["case"],
        _time(row["seconds"]),
        f"{_time(low)} to {_time(high)}" if low < high else "",  # of a single round
        f"{row['share_of_peak']:.3f}" if "share_of_peak" in row else "",
        f"{row['share_of_bandwidth']:.3f}" if "share_of_bandwidth" in row else "",
        f"{row['per_second']:,.0f} {row['unit']}" if "per_second" in row else "",
        ratio_words(row["times_as_fast"], row["ratio_interval"], row["times_as_fast"] is None)
        if "reference" in row
        else "",
        f"{row['peak_bytes'] / 1e6:.2f} MB" if "peak_bytes" in row else "",
        *(
            f"{row[f'over_{each}']:.2f} times {_time(row[f'{each}_seconds'])}" if f"over_{each}" in row else ""
            for each in BOUNDS
        ),
    ]


def _rows_of(key: str, value: Any) -> list[dict[str, Any]]:
    """The rows in a list, or in a dictionary of them by name, of a content that no harness made."""
    if isinstance(value, list):
        return [row for row in value if isinstance(row, dict)]
    if isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values()):
        return [{key: name} | each for name, each in value.items()]
    return []


def _print_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Rows whose columns are theirs alone: each as it is, those of one form in one table."""
    forms: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        forms.setdefault(tuple(key for key, value in row.items() if not isinstance(value, dict)), []).append(row)
    for heads, alike in forms.items():
        table = Table(*(head.replace("_", " ") for head in heads), box=None, pad_edge=False)
        for row in alike:
            table.add_row(*(_plain(row[head]) for head in heads))
        wide_console().print(table)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " to ".join(_plain(each) for each in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"

"""What a bench has found, printed as tables or handed out as JSON."""

import json
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from torsor.cli.consoles import wide_console

OutFile = Annotated[Path | None, Parameter(name="--out")]


def hand_out(content: dict[str, Any], as_json: bool, out: Path | None) -> None:
    """Write the content to a file, as a whole or not at all, and print it where JSON was asked for.

    Args:
        content: plain numbers.
        as_json: whether to print it.
        out: the file; None for none.

    Raises:
        ValueError: when the file cannot be written.
    """
    from torsor.bench.written import plain, write_content

    if out is not None:
        write_content(out, content)
    if as_json:
        print(json.dumps(plain(content)))


def ratio_words(ratio: float | None, interval: Sequence[float]) -> str:
    """A ratio with its interval, or that its spread hides it where it is None."""
    low, high = (f"{end:.3g}" for end in interval)
    return f"{'spread hides it' if ratio is None else f'{ratio:.3g}'} ({low} to {high})"


def print_machine(machine: dict[str, Any], quick: bool = False) -> None:
    """The machine and its limits in one line; of a quick run the machine alone, since so small sizes reach no limit."""
    told = f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads, torch {machine['torch']}: "
    if quick:
        told += "its limits are not told, since --quick's sizes do not reach them"
    else:
        told += f"matrix peak {machine['gemm'] / 1e9:.0f} GFLOP/s, bandwidth {machine['bandwidth'] / 1e9:.1f} GB/s"
    wide_console().print(told)


BOUNDS = ("floor", "reach")  # of a main job: see torsor.bench.floors
OF_LIMITS = {"of peak", "of bandwidth", *(f"of {bound}" for bound in BOUNDS)}


def print_case(name: str, content: dict[str, Any], quick: bool = False) -> None:
    """A table of the rows, one of how they grow, and what else was found; of a quick run no share of a limit."""
    console = wide_console()
    settings = ", ".join(f"{key} {_cell(key, value)}" for key, value in content["settings"].items())
    console.print(f"\n{name}{': ' if settings else ''}{settings}")
    _print_table([_harness_cells(row) for row in content["rows"]], OF_LIMITS if quick else frozenset())
    if content.get("growth"):
        _print_table([_growth_cells(row) for row in content["growth"]])
    for key, value in content.items():
        if key in {"settings", "rows", "growth"} or (quick and key == "parts"):  # parts of a floor, which is a limit's
            continue
        console.print(f"\n{key}")
        _print_table([{head: _cell(head, each) for head, each in row.items()} for row in _rows_of(value)])


def _print_table(rows: Sequence[dict[str, str]], left_out: Set[str] = frozenset()) -> None:
    """All columns that any row has anything in."""
    every = dict.fromkeys(head for row in rows for head in row if head not in left_out)
    heads = [head for head in every if any(row.get(head) for row in rows)]
    table = Table(*(head.replace("_", " ") for head in heads), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(row.get(head, "") for head in heads))
    wide_console().print(table)


def _harness_cells(row: dict[str, Any]) -> dict[str, str]:
    """The columns of a row of ``compare``, and those that a case has added."""
    rest = dict(row)
    low, high = rest.pop("seconds_interval")
    cells = {"case": rest.pop("case"), "median": _time(rest.pop("seconds"))}
    cells["interval"] = f"{_time(low)} to {_time(high)}" if low < high else ""  # of a single round
    for limit in ("peak", "bandwidth"):
        cells[f"of {limit}"] = f"{rest.pop(f'share_of_{limit}'):.3f}" if f"share_of_{limit}" in rest else ""
    cells["per second"] = f"{_count(rest.pop('per_second'))} {rest.pop('unit')}" if "per_second" in rest else ""
    compared = "reference" in rest
    cells["times as fast"] = ratio_words(rest.pop("times_as_fast"), rest.pop("ratio_interval")) if compared else ""
    cells["peak"] = _cell("bytes", rest.pop("peak_bytes")) if "peak_bytes" in rest else ""
    for bound in BOUNDS:
        if f"over_{bound}" in rest:
            over, seconds = rest.pop(f"over_{bound}"), rest.pop(f"{bound}_seconds")
            cells[f"of {bound}"] = f"{over:.2f} times {_time(seconds)}"
            del rest[f"over_{bound}_interval"]
    for said in ("operations", "moved_bytes", "reference", "coverage"):
        rest.pop(said, None)
    return cells | {head: _cell(head, value) for head, value in rest.items()}


def _growth_cells(row: dict[str, Any]) -> dict[str, str]:
    low, high = row["sizes"]
    exponent = f"{row['exponent']:.2f} ± {row['standard_error']:.2f}"
    slope = f"{row['slope']:.3g} ± {row['slope_standard_error']:.1g}"
    sizes = {"from": f"{low:g}", "to": f"{high:g}"}
    return {"grows": row["what"], "with": row["over"], **sizes, "exponent": exponent, "per unit": slope}


def _rows_of(value: Any) -> list[dict[str, Any]]:
    """The rows in a list, or in a dictionary of them, or of numbers, by name."""
    if isinstance(value, list):
        return value
    return [{"of": name} | (each if isinstance(each, dict) else {"largest": each}) for name, each in value.items()]


def _cell(head: str, value: Any) -> str:
    """A number by its unit, which the end of its name says; an interval as a ratio that its spread may hide."""
    if isinstance(value, dict):
        return ratio_words(None if value["hidden"] else value["median"], value["interval"])
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return " to ".join(_cell(head, each) for each in value)
    if head.endswith("seconds"):
        return _time(value)
    if head.endswith("bytes"):
        return f"{value / 1e6:.2f} MB"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _count(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"

"""Values out of JSON as they are meant: what is absent, of another kind or not a finite number becomes None."""

import json
import math
from pathlib import Path

from torsor.advice import anew
from torsor.report.numbers import Interval, Matrix, Series


def a_number(value: object) -> float | None:
    """A finite number, or None."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number that no float holds
        return None
    return number if math.isfinite(number) else None


def a_whole(value: object) -> int | None:
    """A finite number without its fraction, or None."""
    number = a_number(value)
    return None if number is None else int(number)


def a_text(value: object) -> str | None:
    """A text that says something, or None."""
    return value if isinstance(value, str) and value.strip() else None


def an_object(value: object) -> dict[str, object]:
    """An object, empty where it is none."""
    return value if isinstance(value, dict) else {}


def a_list(value: object) -> list[object]:
    """A list, empty where it is none."""
    return value if isinstance(value, list) else []


def a_series(value: object) -> Series:
    """Finite numbers, None in the place of anything else."""
    return tuple(a_number(entry) for entry in a_list(value))


def a_pair(value: object) -> Interval | None:
    """Two finite numbers, or None."""
    match a_series(value):
        case (float(low), float(high)):
            return low, high
        case _:
            return None


def a_matrix(value: object) -> Matrix:
    """Rows of finite numbers."""
    return tuple(a_series(row) for row in a_list(value))


def _advice(path: Path) -> str:
    """What to do where a file of a run folder is damaged."""
    again = {"geometry.json": "measure", "generated.json": "measure", "tracking.json": "track"}
    if path.name in again and (path.parent / "run.json").is_file():
        return f"torsor {again[path.name]} {path.parent} writes it again"
    if path.name in again:  # of a model of the user's own
        return f"the torsor {again[path.name]} command that wrote it writes it again"
    if path.name == "evaluation.json":
        return f"delete it, and the command that trained the run makes it again, with --out {path.parent}"
    return anew(path.parent)


def json_file(path: Path) -> object:
    """The content of a JSON file, or None where there is none.

    Raises:
        ValueError: when the file is not JSON.
    """
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        found = "brackets that are too deep"
        raise ValueError(f"{path} must be JSON of this package, got {found}; {_advice(path)}") from error
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, got: {error}; {_advice(path)}") from error


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{path} must be text in UTF-8, got: {error}; {_advice(path)}") from error


def json_lines(path: Path) -> list[dict[str, object]] | None:
    """The objects of a file that holds one a line, or None where there is none; half a line at the end is forgiven.

    Raises:
        ValueError: when another line is not JSON.
    """
    if not path.is_file():
        return None
    found, lines = [], _text_of(path).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            found.append(an_object(json.loads(line)) if line.strip() else {})
        except (ValueError, RecursionError) as error:
            # A run that was cut off while it wrote leaves half a line at the end; anywhere else it is damage.
            if number < len(lines):
                found = f"got at line {number}: {error}; {_advice(path)}"
                raise ValueError(f"{path} must hold one JSON object a line, {found}") from error
    return found

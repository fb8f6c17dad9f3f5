"""A table's numbers as a picture, and beside it as a file that can be drawn again."""

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, final

from torsor.report.whole_file import write_whole

PAPER, OURS = "paper", "ours"
KINDS = {".png": "Software", ".svg": "Creator", ".pdf": "Creator"}  # where each names the program that made it
_MARK = "torsor table picture"


@final
@dataclass(frozen=True)
class Point:
    """One number of a table.

    Args:
        panel: title of the drawing it belongs to.
        series: the line it is a point of; a row without a place has its label here.
        at: how far to the right; None for a row without a place.
        column: of the table.
        source: "paper" or "ours".
        seed: of the run; None for the paper's.
        value: the number; None where a run has none.
    """

    panel: str
    series: str
    at: float | None
    column: str
    source: str
    seed: int | None
    value: float | None


def draw_table(points: Sequence[Point], path: Path, title: str, across: str, unit: str) -> Path:
    """Draw the numbers of a table and write them as comma-separated values beside the picture.

    Rows with places are lines: the paper's dashed with hollow marks, ours through the means of the seeds
    with a dot for each. Rows without are levels, one below the other.

    Args:
        points: the numbers.
        path: of the picture: png, svg or pdf by its ending; a new file or an earlier picture of a table.
        title: of the picture.
        across: what the places are.
        unit: what the numbers are.

    Returns:
        The file of the numbers.

    Raises:
        ValueError: when the ending is another one, there is no number at all, or what ``replaces_picture`` refuses.
    """
    replaces_picture(path)
    known = [point for point in points if point.value is not None]
    if not known:
        raise ValueError(f"{path} was not drawn: no row has a number yet")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    frames = list(dict.fromkeys((point.panel, point.column) for point in known))
    columns = len({column for _, column in frames})
    rows = -(-len(frames) // columns)
    tall = max(3.2, 0.3 * len({point.series for point in known if point.at is None}))
    figure = Figure(figsize=(5.2 * columns, tall * rows), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, wrap=True, fontsize=10)
    for axes, frame in zip(figure.subplots(rows, columns, squeeze=False).flat, frames, strict=True):
        _draw_frame(axes, [point for point in known if (point.panel, point.column) == frame], across, unit)
        axes.set_title(", ".join(word for word in frame if word), fontsize=9)
    drawn, told = io.BytesIO(), io.StringIO(newline="")
    figure.savefig(drawn, dpi=160, format=path.suffix[1:], metadata={KINDS[path.suffix]: _MARK})
    writer = csv.DictWriter(told, _COLUMNS)
    writer.writeheader()
    writer.writerows(asdict(point) for point in points)
    beside = path.with_suffix(".csv")
    write_whole(path, drawn.getvalue())
    write_whole(beside, told.getvalue().encode())
    return beside


_COLUMNS = [field.name for field in fields(Point)]


def replaces_picture(path: Path) -> bool:
    """Whether a picture that is drawn to ``path``, or the numbers beside it, take the place of earlier ones.

    Args:
        path: where a picture of a table is to be drawn.

    Raises:
        ValueError: when the ending is none of a picture, or either file is there and torsor did not write it.
    """
    if path.suffix not in KINDS:
        raise ValueError(f"a picture must end in one of {', '.join(KINDS)}, got {path.name!r}")
    beside = path.with_suffix(".csv")
    try:
        found = {file: file.read_bytes() for file in (path, beside) if file.exists()}
    except OSError as error:
        raise ValueError(f"cannot write {error.filename}: {error.strerror}") from error
    head = ",".join(_COLUMNS).encode()
    own = {path: lambda content: _MARK.encode() in content, beside: lambda content: content.startswith(head)}
    for file, content in found.items():
        if not own[file](content):
            raise ValueError(
                f"picture must be drawn to a new file or over an earlier picture of a table and its numbers, {file} is "
                "neither: name another file, or move it away"
            )
    return bool(found)


def _draw_frame(axes: Any, points: Sequence[Point], across: str, unit: str) -> None:
    series = list(dict.fromkeys(point.series for point in points))
    levels = any(point.at is None for point in points)
    for number, name in enumerate(series):
        colour = f"C{number % 10}" if not levels else "C0"
        for source, style, mark in ((PAPER, "--", "none"), (OURS, "-", colour)):
            own = [point for point in points if (point.series, point.source) == (name, source)]
            if levels:
                axes.plot([p.value for p in own], [-number] * len(own), "o", color="C0", markerfacecolor=mark)
                continue
            places = sorted({point.at for point in own if point.at is not None})
            means = [_mean([p.value for p in own if p.at == at and p.value is not None]) for at in places]
            axes.plot(places, means, style, color=colour, label=f"{name}, {source}" if places else None)
            axes.plot(
                [p.at for p in own], [p.value for p in own], "o", color=colour, markerfacecolor=mark, markersize=4
            )
    if levels:
        axes.set_yticks([-number for number in range(len(series))], series, fontsize=8)
        axes.set_xlabel(f"{unit}; hollow: paper")
        return
    places = [point.at for point in points if point.at]
    if max(places) >= 3 * min(places):
        axes.set_xscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(unit)
    axes.legend(fontsize=8)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

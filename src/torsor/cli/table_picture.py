"""A table's picture: the numbers of its rows at their places."""

from pathlib import Path
from typing import Any

from torsor.experiments.table import Table


def draw(table: Table, content: list[dict[str, Any]], path: Path) -> Path:
    """Draw a table and write its numbers beside the picture.

    Args:
        table: the table.
        content: what ``results`` gives.
        path: of the picture.

    Returns:
        The file of the numbers.

    Raises:
        ValueError: when the ending is not one of a picture, a file is there that torsor did not write, or there is no
            number at all.
    """
    from torsor.report.table_picture import OURS, PAPER, Point, draw_table

    headline, points = table.reading.scores[0], []
    for given in content:
        row = table.row(given["row"])
        panel, series, at = (
            ("", row.label, None) if row.place is None else (row.place.panel, row.place.series, row.place.at)
        )
        for column, cell in given["columns"].items():
            if cell["paper"] is not None:
                points.append(Point(panel, series, at, column, PAPER, None, cell["paper"]["value"]))
            for seed, value in enumerate(cell["ours"][headline]["seeds"]):
                points.append(Point(panel, series, at, column, OURS, seed, value))
    return draw_table(points, path, table.summary, table.across, headline)

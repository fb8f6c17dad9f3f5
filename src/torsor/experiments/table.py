"""A paper's table: rows in the paper's order, each with the arguments that make it and the paper's numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from torsor.experiments.experiment import nearest
from torsor.experiments.reading import AccuracyByDepth, Reading
from torsor.experiments.tuning import Tuning


@final
@dataclass(frozen=True)
class Published:
    """A number of a paper.

    Args:
        value: as printed.
        spread: what stands behind its ±; None where nothing does.
    """

    value: float
    spread: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.3f}" if self.spread is None else f"{self.value:.3f} ± {self.spread:.3f}"


@final
@dataclass(frozen=True)
class Place:
    """Where a row stands in the table's picture.

    Args:
        series: the line that it is a point of.
        at: how far to the right.
        panel: title of the drawing that the line belongs to.
    """

    series: str
    at: float
    panel: str = ""


@final
@dataclass(frozen=True)
class Row:
    """One line of a table.

    Args:
        label: as the table names it.
        arguments: of the experiment, apart from the scale's and the seed.
        paper: the paper's number at each of its depths, by the column's name.
        place: in the table's picture; None for a line of its own.
        against: label of the row that it is set against, such as its baseline; empty for none.
    """

    label: str
    arguments: Mapping[str, Any]
    paper: Mapping[str, Published] = field(default_factory=dict)
    place: Place | None = None
    against: str = ""

    @property
    def folder(self) -> str:
        """The values of the arguments as a folder's name, so that equal rows of two tables share their runs."""
        return "-".join(str(value) for value in self.arguments.values())


@final
@dataclass(frozen=True)
class Table:
    """A table of a paper.

    Args:
        name: ``paper/name``.
        summary: one line.
        experiment: the experiment that makes every row.
        setting: a folder's name; tables with one setting have one experiment and one set of presets, and
            share their runs.
        rows: in the paper's order.
        columns: as the paper names them; for accuracies by depth half the trained depth, the trained
            depth, one and a half times it.
        presets: arguments of each scale that all rows share.
        reading: how its numbers are read from a finished run.
        tuning: what is chosen for each row where the table is asked to tune; None for nothing.
        across: what the places of its rows are: "parameters", "learning rate".
    """

    name: str
    summary: str
    experiment: str
    setting: str
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    presets: Mapping[Any, Mapping[str, Any]] = field(default_factory=dict)
    reading: Reading = field(default_factory=AccuracyByDepth)
    tuning: Tuning | None = None
    across: str = ""

    def row(self, label: str) -> Row:
        """The row of this label.

        Raises:
            ValueError: when there is none; the nearest right label is told.
        """
        labels = {row.label: row for row in self.rows}
        if label not in labels:
            raise ValueError(f"{self.name} has no row {label!r}{nearest(label, labels)}")
        return labels[label]

"""What a figure of the page is: drawings that belong together, a title and what to know when reading them."""

from dataclasses import dataclass
from typing import final

from torsor.report.charts import Panel, Shape, Words


@final
@dataclass(frozen=True)
class Picture:
    """A square drawing with its words and what it shows.

    ``across`` and ``up`` name the numbers of its points, ``cells`` are those of a heat map, as ``cell_numbers`` writes
    them: pointed at, one reads "up row across column: number".
    """

    title: str
    shapes: tuple[Shape, ...]
    texts: tuple[Words, ...]
    note: str = ""
    width: float = 258.0
    height: float = 244.0
    across: str = ""
    up: str = ""
    cells: str = ""

    def words(self) -> tuple[Words, ...]:
        """Every text of the picture."""
        return self.texts


@final
@dataclass(frozen=True)
class Figure:
    """Drawings that belong together; ``layout`` is "half" or "pair" (of the page's width), or "strip" of small ones."""

    title: str
    caption: str
    panels: tuple[Panel | Picture, ...]
    layout: str = "half"

    def keys(self) -> set[str]:
        """The letters of the rows whose lines are drawn."""
        return {key.text for panel in self.panels if isinstance(panel, Panel) for _, key in panel.keys}

"""The square on which numbers of a plane are drawn, with the unit circle."""

from dataclasses import dataclass
from typing import final

from torsor.report.charts import Point, Shape, Words, path, short

SIDE, LEFT, TOP = 186.0, 26.0, 24.0
BLOCK_COLOURS = 6


@final
@dataclass(frozen=True)
class Plane:
    """A square with the origin in its middle.

    Args:
        half: half its side, in the numbers' own unit.
        left: of the drawing, in user units.
        top: of the drawing, in user units.
        side: in user units.
    """

    half: float
    left: float = LEFT
    top: float = TOP
    side: float = SIDE

    def at(self, across: float, up: float) -> Point:
        """Where a pair of numbers lies in the drawing."""
        reach = self.side / self.half / 2
        return self.left + self.side / 2 + reach * across, self.top + self.side / 2 - reach * up

    def axes(self) -> Shape:
        """Both axes."""
        x, y = self.at(0.0, 0.0)
        return Shape(
            f"M{short(self.left)} {short(y)}h{short(self.side)}M{short(x)} {short(self.top)}v{short(self.side)}", "grid"
        )

    def circle(self) -> Shape:
        """The unit circle."""
        (x, y), radius = self.at(-1.0, 0.0), self.side / self.half / 2
        arc = f"a{short(radius)} {short(radius)} 0 1 0 "
        return Shape(f"M{short(x)} {short(y)}{arc}{short(2 * radius)} 0{arc}{short(-2 * radius)} 0Z", "circle")

    def words(self, name: str, across: str, up: str) -> tuple[Words, ...]:
        """The name of the drawing, those of its axes, and -1, 0 and 1 below it."""
        below, (x, y) = self.top + self.side, self.at(0.0, 1.0)
        ticks = [
            Words(short(self.at(value, 0.0)[0]), short(below + 13), text, "tick middle")
            for value, text in ((-1.0, "−1"), (0.0, "0"), (1.0, "1"))
        ]
        names = [Words("2", "12", name, "heading"), Words(short(x + 5), short(y + 16), up, "name")]
        return *ticks, *names, Words(short(self.left + self.side), short(below + 28), across, "name end")


def dots(points: list[Point]) -> str:
    """A path of dots: a stroke of no length with round ends is one."""
    return "".join(f"{path([point])}h0" for point in points)


def colour_of(place: int, count: int) -> int:
    """The colour of one of ``count`` blocks: its own, or neighbours share one where there are too many."""
    return place if count <= BLOCK_COLOURS else place * BLOCK_COLOURS // count

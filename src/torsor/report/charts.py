"""The pieces a chart is drawn of: axes, and a panel that turns numbers into paths and words."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

Real = int | float
Point = tuple[Real, Real]
Ticks = tuple[tuple[Real, str], ...]

MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 44.0, 26.0, 26.0, 40.0
KEY_GAP = 13.0


@final
@dataclass(frozen=True)
class Axis:
    """A range of values, the places that are named on it, and what it measures with its unit."""

    low: Real
    high: Real
    label: str
    ticks: Ticks
    logarithmic: bool = False

    def place(self, value: Real) -> float:
        """Where a value lies, 0 at the low end and 1 at the high end; values outside are kept at the end."""
        low, high, value = (math.log(x) if self.logarithmic else x for x in (self.low, self.high, max(value, self.low)))
        return min((value - low) / (high - low), 1.0)


def linear(values: Iterable[Real], label: str, count: int = 5) -> Axis:
    """An axis from the smallest to the largest value, with about ``count`` round ticks."""
    known = list(values) or [0.0, 1.0]
    low, high = min(known), max(known)
    high = high if high > low else low + 1.0
    step = rounded_up((high - low) / count)
    first = math.ceil(low / step - 1e-9)
    ticks = [step * index for index in range(first, math.floor(high / step + 1e-9) + 1)]
    return Axis(low, high, label, tuple((tick, f"{tick:,.10g}".replace(",", "\u202f")) for tick in ticks))


def decades(values: Iterable[Real], label: str) -> Axis:
    """A logarithmic axis, its ticks powers of ten, and 2 and 5 times these where the range is short."""
    known = [value for value in values if value > 0] or [1.0, 10.0]
    low = 1 / rounded_up(1 / min(known))
    high = max(rounded_up(max(known)), 10 * low)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    stride, factors = (math.ceil(len(powers) / 6), (1,)) if high > 300 * low else (1, (1, 2, 5))
    found = [factor * 10.0**power for power in powers[::stride] for factor in factors]
    ticks = [tick for tick in found if low * 0.999 <= tick <= high * 1.001]
    return Axis(low, high, label, tuple((tick, f"{tick:.10g}") for tick in ticks), logarithmic=True)


def doublings(values: Sequence[int], label: str) -> Axis:
    """A logarithmic axis whose ticks are the values themselves, those too near to the last one left out."""
    low, high = min(values), max(values)
    low, high = (low / 1.15, high * 1.15)
    ticks, last = [], 0.0
    for value in sorted(values):
        if not ticks or math.log(value / last) > 0.055 * math.log(high / low):
            ticks.append((float(value), str(value)))
            last = value
    return Axis(low, high, label, tuple(ticks), logarithmic=True)


def shares(label: str) -> Axis:
    """An axis from 0 to 1."""
    return Axis(0.0, 1.0, label, ((0.0, "0"), (0.25, ".25"), (0.5, ".5"), (0.75, ".75"), (1.0, "1")))


def rounded_up(value: Real) -> float:
    """The least 1, 2 or 5 times a power of ten that is not below the value."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9))


# Colours are never written here: a shape names a style class, and the page decides what that looks like by day, by
# night and on paper.
@final
@dataclass(frozen=True)
class Shape:
    """A path with a style class; what is said when the pointer rests on it; its strength, if it has one.

    ``values`` are the numbers of its corners, as ``numbers`` writes them, and ``name`` says whose they are; ``counted``
    says what its corners are, where each is told with its number from 0.
    """

    d: str
    css: str
    title: str = ""
    opacity: str = ""
    values: str = ""
    name: str = ""
    counted: str = ""


@final
@dataclass(frozen=True)
class Words:
    """A short text at a place."""

    x: str
    y: str
    text: str
    css: str = ""


@final
class Panel:
    """One pair of axes and what is drawn between them.

    Args:
        x: the axis to the right.
        y: the axis upwards.
        title: what the picture shows, for those who hear the page; not drawn.
        width: of the whole drawing, in user units.
        height: of the whole drawing, in user units.
        heading: a few words above the axes.
        left: room for the ticks of the upward axis.
    """

    def __init__(
        self,
        x: Axis,
        y: Axis,
        title: str,
        width: float = 470.0,
        height: float = 280.0,
        heading: str = "",
        left: float = MARGIN_LEFT,
    ) -> None:
        self.x = x
        self.y = y
        self.title = title
        self.width = width
        self.height = height
        self.left = left
        self.right: float = width - MARGIN_RIGHT
        self.top: float = MARGIN_TOP
        self.bottom: float = height - MARGIN_BOTTOM
        self.shapes: list[Shape] = []
        self.texts: list[Words] = []
        self.keys: list[tuple[Point, Words]] = []
        self._frame(heading)

    @property
    def across(self) -> str:
        """What the axis to the right measures."""
        return _plain(self.x.label)

    @property
    def up(self) -> str:
        """What the axis upwards measures."""
        return _plain(self.y.label) or self.title

    @property
    def cells(self) -> str:
        """The numbers of a heat map: there are none."""
        return ""

    def at(self, point: Point) -> Point:
        """Where a pair of values lies in the drawing."""
        across, up = self.x.place(point[0]), self.y.place(point[1])
        return self.left + across * (self.right - self.left), self.bottom - up * (self.bottom - self.top)

    def line(
        self,
        points: Iterable[tuple[Real, Real | None]],
        css: str,
        key: str = "",
        title: str = "",
        name: str = "",
        told: bool = True,
    ) -> None:
        """A line through the points; one that is None breaks it. Its key stands at its last point.

        Args:
            points: pairs of values.
            css: its style.
            key: a letter at its end.
            title: what is said of it as a whole.
            name: what is said with the numbers of a point; the key or the title by default.
            told: whether its points tell their numbers; False where dots upon it do.
        """
        points = list(points)
        placed = [None if y is None else self.at((x, y)) for x, y in points]
        values = numbers((x, y) for x, y in points if y is not None) if told else ""
        self.shapes.append(Shape(path(placed), f"line {css}", title, values=values, name=name or key or title))
        known = [point for point in placed if point is not None]
        if key and known:
            self.keys.append((known[-1], Words("", "", key, f"key {css}")))

    def stairs(self, points: Sequence[Point], css: str, key: str, name: str = "") -> None:
        """A line that holds each value until the next."""
        corners = [(x, y) for (x, _), (_, y) in zip(points[1:], points, strict=False)]
        mixed = [point for pair in zip(points, corners, strict=False) for point in pair]
        self.line([*mixed, *points[-1:]], css, key, name=name)

    def band(self, points: Sequence[tuple[Real, Real, Real]], css: str) -> None:
        """The room between two heights, given as (x, low, high)."""
        upper, lower = [self.at((x, high)) for x, _, high in points], [self.at((x, low)) for x, low, _ in points]
        self.shapes.append(Shape(path([*upper, *reversed(lower)]) + "Z" if points else "", f"band {css}"))

    def dot(self, point: Point, css: str, title: str, radius: Real = 3.6) -> None:
        """A point that tells its numbers."""
        x, y = self.at(point)
        arc = f"a{radius} {radius} 0 1 0 "
        d = f"M{short(x - radius)} {short(y)}{arc}{short(2 * radius)} 0{arc}{short(-2 * radius)} 0Z"
        self.shapes.append(Shape(d, f"dot {css}", title))

    def bar(self, x: Real, low: Real, high: Real, css: str) -> None:
        """An upright bar from one value to another."""
        self.shapes.append(Shape(path([self.at((x, low)), self.at((x, high))]), f"bar {css}"))

    def mark(self, x: Real, text: str) -> None:
        """A dashed upright line with a word at its head."""
        across = self.at((x, 0.0))[0]
        self.shapes.append(Shape(path([(across, self.top), (across, self.bottom)]), "mark"))
        self.texts.append(Words(short(across), short(self.top - 5), text, "middle"))

    def words(self) -> list[Words]:
        """Every text of the panel; the keys of lines that end close together are moved apart."""
        placed: list[Words] = []
        floor = -math.inf
        ordered = sorted(self.keys, key=lambda key: key[0][1])
        for index, ((x, y), key) in enumerate(ordered):
            # Leave room below for the keys that follow, then never overlap the one above.
            room = self.bottom - KEY_GAP * (len(ordered) - 1 - index)
            floor = max(min(y, room), floor + KEY_GAP)
            # Lines that end nearly together have their keys in one column, clear of all their ends.
            column = max(other for (other, _), _ in ordered if other - x < 2 * KEY_GAP)
            placed.append(Words(short(column + 7), short(floor + 4), key.text, key.css))
        return [*self.texts, *placed]

    def _frame(self, heading: str) -> None:
        for value, text in self.y.ticks:
            height = self.at((self.x.low, value))[1]
            self.shapes.append(Shape(f"M{short(self.left)} {short(height)}H{short(self.right)}", "grid"))
            self.texts.append(Words(short(self.left - 6), short(height + 4), text, "tick end"))
        for value, text in self.x.ticks:
            across = self.at((value, self.y.low))[0]
            self.shapes.append(Shape(f"M{short(across)} {short(self.bottom)}v4", "axis"))
            self.texts.append(Words(short(across), short(self.bottom + 16), text, "tick middle"))
        self.shapes.append(Shape(f"M{short(self.left)} {short(self.bottom)}H{short(self.right)}", "axis"))
        self.texts.append(Words(short(self.right), short(self.height - 6), self.x.label, "name end"))
        self.texts.append(Words("2", "12", self.y.label, "name"))
        if heading:
            self.texts.append(Words(short(self.right), "12", heading, "heading end"))


def path(points: Iterable[Point | None]) -> str:
    """The path through the points, broken where there is none."""
    d, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        d.append(f"{pen}{short(point[0])} {short(point[1])}")
        pen = "L"
    return "".join(d)


def numbers(points: Iterable[Point]) -> str:
    """Pairs of values, as the page's script reads them for those who point at a curve."""
    return ";".join(f"{x:.10g} {y:.5g}" for x, y in points)


def _plain(label: str) -> str:
    return label.removesuffix(" (log scale)").removesuffix(", log scale")


def short(value: Real) -> str:
    """A coordinate to a tenth of a unit."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")

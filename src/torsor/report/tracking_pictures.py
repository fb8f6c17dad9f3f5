"""The pictures of one tracked model: confusion by coset, and the class means in three dimensions."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from torsor.report.charts import Point, Shape, Words, path, rounded_up, short
from torsor.report.figure import Figure, Picture
from torsor.report.geometry import level_cells
from torsor.report.numbers import Series
from torsor.report.plane import LEFT, SIDE, TOP, Plane, colour_of
from torsor.report.tracking_run import Confused, Placed, Tracking
from torsor.report.wording import percent

MOST_ELEMENTS = 64  # that are drawn one by one; of a larger group, whole cosets are
VIEWS = (("from the front", 0.0, 0.0), ("turned by 60°", 60.0, 0.0), ("from above", 0.0, 75.0))
_NEAR, _FAR = 5.2, 2.8  # radii of dots


def pictures(tracking: Tracking) -> Figure:
    """Confusion and class means side by side, in the colours of the cosets."""
    found = []
    if tracking.confused:
        found.append(confusion(tracking.confused))
    if tracking.placed:
        colours = coset_colours(tracking.confused)
        found += [view(tracking.placed, tracking.edges, colours, *turned) for turned in VIEWS]
    return Figure("", "", tuple(found), "strip")


def coset_colours(confused: Confused | None) -> dict[int, int]:
    """The colour of each element: its coset's."""
    if confused is None:
        return {}
    count, found, start = len(confused.sizes), {}, 0
    for coset, size in enumerate(confused.sizes):
        colour = colour_of(coset, count)
        found |= dict.fromkeys(confused.elements[start : start + size], colour)
        start += size
    return found


def confusion(confused: Confused) -> Picture:
    """How the answers to each element spread, the members of a coset side by side, the truth a row."""
    counts, sizes = confused.counts, confused.sizes
    if len(counts) > MOST_ELEMENTS:
        counts, sizes = _by_coset(confused), (1,) * len(confused.sizes)
    totals = [sum(value or 0.0 for value in row) for row in counts]
    shares = [[(value or 0.0) / (total or 1.0) for value in row] for row, total in zip(counts, totals, strict=True)]
    scale = min(1.0, rounded_up(max(0.01, *(value for row in shares for value in row))))
    cell = SIDE / len(shares)
    shapes = level_cells([[value / scale for value in row] for row in shares], cell)
    frame = f"M{short(LEFT)} {short(TOP)}h{short(SIDE)}v{short(SIDE)}h{short(-SIDE)}z"
    if len(sizes) < len(shares):
        ends = [cell * end for end in accumulate(sizes[:-1])]
        across = "".join(f"M{short(LEFT)} {short(TOP + end)}h{short(SIDE)}" for end in ends)
        upright = "".join(f"M{short(LEFT + end)} {short(TOP)}v{short(SIDE)}" for end in ends)
        shapes.append(Shape(across + upright, "coset"))
    shapes += [Shape(frame, "frame")]
    kind = "elements, by coset" if len(sizes) < len(shares) or len(set(sizes)) > 1 else "cosets"
    texts = (
        Words("2", "12", "confusion by coset", "heading"),
        Words(short(LEFT + SIDE), short(TOP + SIDE + 14), f"answer: {kind}", "name end"),
        Words(short(LEFT), short(TOP + SIDE + 14), "0", "tick"),
        Words(short(LEFT - 4), short(TOP + 9), "truth", "name end"),
        Words(short(LEFT + SIDE + 4), short(TOP + 9), f"{scale:g}", "tick"),
    )
    note = (
        f"{len(confused.sizes)} {confused.side} cosets of a subgroup of order {confused.order} ({confused.chosen}); "
        f"length {confused.length}, from position {confused.first} on; full colour: {percent(scale)} of a row"
    )
    return Picture("confusion: rows are elements, columns what was answered", tuple(shapes), texts, note)


def view(
    placed: Placed, edges: Sequence[tuple[int, int]], colours: dict[int, int], name: str, around: float, over: float
) -> Picture:
    """The class means seen from one side: near ones larger, an edge from each element to its neighbours."""
    turned = {
        element: _turned(place, math.radians(around), math.radians(over))
        for element, place in enumerate(placed.coordinates)
        if len(place) == 3 and None not in place
    }
    reach = max(math.hypot(*point) for point in turned.values()) or 1.0
    plane = Plane(reach)

    def at(point: tuple[float, float, float]) -> Point:
        return plane.at(point[0], point[1])

    lines = [path([at(turned[g]), at(turned[h])]) for g, h in edges if g in turned and h in turned and g != h]
    shapes = [Shape("".join(lines), "edge")]
    for element, point in sorted(turned.items(), key=lambda item: item[1][2]):
        depth = (point[2] / reach + 1) / 2
        x, y = at(point)
        radius = _FAR + depth * (_NEAR - _FAR)
        arc = f"a{short(radius)} {short(radius)} 0 1 0 "
        d = f"M{short(x - radius)} {short(y)}{arc}{short(2 * radius)} 0{arc}{short(-2 * radius)} 0Z"
        css = f"mean b{colours.get(element, 0)}"
        shapes.append(Shape(d, css, f"element {element}", opacity=f"{0.45 + 0.55 * depth:.2f}"))
    said = [] if placed.share is None else [f"{percent(placed.share)} of what tells the means apart is in 3 directions"]
    if placed.scatter is not None:
        said.append(f"scatter within a class: {placed.scatter / reach:.2g} of the reach")
    note = "; ".join(said) if name == VIEWS[0][0] else ""
    return Picture(f"class means of the {placed.of}, {name}", tuple(shapes), (Words("2", "12", name, "heading"),), note)


def _turned(place: Series, around: float, over: float) -> tuple[float, float, float]:
    """Turned about the upright axis, then tipped towards the eye."""
    x, y, z = (value or 0.0 for value in place)
    x, z = x * math.cos(around) + z * math.sin(around), z * math.cos(around) - x * math.sin(around)
    return x, y * math.cos(over) - z * math.sin(over), z * math.cos(over) + y * math.sin(over)


def _by_coset(confused: Confused) -> tuple[Series, ...]:
    """The counts with every coset taken together."""
    starts = [sum(confused.sizes[:place]) for place in range(len(confused.sizes) + 1)]
    spans = [slice(start, stop) for start, stop in pairwise(starts)]
    return tuple(
        tuple(sum(value or 0.0 for row in confused.counts[rows] for value in row[columns]) for columns in spans)
        for rows in spans
    )

"""The pictures of one transition: where its eigenvalues lie, and the cosines between its steps."""

import math
from collections.abc import Sequence
from statistics import fmean

from torsor.report import wording
from torsor.report.charts import Point, Shape, Words, numbers, rounded_up, short
from torsor.report.figure import Figure, Picture
from torsor.report.numbers import Matrix
from torsor.report.phase import phase_portraits
from torsor.report.plane import BLOCK_COLOURS, LEFT, SIDE, TOP, Plane, colour_of, dots
from torsor.report.rows import Row
from torsor.report.run import Geometry

LEVELS = 20
LARGEST = 64
SHOWN_BLOCKS = 4


def reach(rows: Sequence[Row]) -> float:
    """Half the side of every spectrum's picture: all eigenvalues of all runs fit."""
    found = [part for _, geometry in _measured(rows) for part in (geometry, geometry.initial) if part]
    return max([1.08, *(1.05 * math.hypot(real, imaginary) for one in found for real, imaginary, _ in one.spectrum)])


def deviation_scale(rows: Sequence[Row]) -> float:
    """The deviation from Toeplitz that takes the full colour in every picture, never below 0.01."""
    matrices = [matrix for _, geometry in _measured(rows) for _, matrix in _scopes(geometry)]
    found = [abs(value) for matrix in matrices for row in deviation(matrix) for value in row if value is not None]
    return rounded_up(max([0.01, *found]))


def deviation(matrix: Matrix) -> Matrix:
    """What is left of a matrix when every diagonal loses its mean: nothing, where the matrix is Toeplitz."""
    diagonals: dict[int, list[float]] = {}
    for t, row in enumerate(matrix):
        for s, value in enumerate(row):
            if value is not None:
                diagonals.setdefault(t - s, []).append(value)
    means = {lag: fmean(values) for lag, values in diagonals.items()}
    return tuple(
        tuple(None if value is None else value - means[t - s] for s, value in enumerate(row))
        for t, row in enumerate(matrix)
    )


def portrait(geometry: Geometry, half: float, scale: float) -> Figure:
    """The pictures of one transition: spectra before and after, phase portraits, Gram matrices and their rest."""
    pictures = []
    if geometry.initial and geometry.initial.spectrum:
        pictures.append(spectrum(geometry.initial, "spectrum, untrained", half))
    if geometry.spectrum:
        pictures.append(spectrum(geometry, "spectrum, trained", half))
    pictures += phase_portraits(geometry, SHOWN_BLOCKS)
    for name, matrix in _scopes(geometry):
        pictures.append(heat_map(matrix, f"Gram, {name}", 1.0))
        left_over = deviation(matrix)
        largest = max((abs(value) for row in left_over for value in row if value is not None), default=0.0)
        pictures.append(heat_map(left_over, "its non-Toeplitz part", scale, f"at most {wording.small(largest)}"))
    hidden = max(len(geometry.gram_own), len({block for _, _, block in geometry.spectrum})) - SHOWN_BLOCKS
    caption = f"{hidden} more blocks are not drawn." if hidden > 0 else ""
    return Figure("", caption, tuple(pictures), "strip")


def spectrum(geometry: Geometry, name: str, half: float) -> Picture:
    """The eigenvalues in the complex plane with the unit circle, a colour for each block."""
    plane = Plane(half)
    shapes = [plane.axes(), plane.circle()]
    count = max([len(geometry.blocks), *(block + 1 for _, _, block in geometry.spectrum)])
    moduli: dict[int, list[float]] = {}
    points: dict[int, list[Point]] = {}
    for real, imaginary, block in geometry.spectrum:
        colour = colour_of(block, count)
        points.setdefault(colour, []).append((real, imaginary))
        moduli.setdefault(colour, []).append(math.hypot(real, imaginary))
    for colour, members in sorted(points.items()):
        # one path holds a whole block
        d = dots([plane.at(*member) for member in members])
        called = f"block {colour + 1}" if count <= BLOCK_COLOURS else ""
        shapes.append(Shape(d, f"cloud b{colour}", values=numbers(members), name=called))
    total = ", ".join(f"{wording.span(moduli[colour])}" for colour in sorted(moduli)[:SHOWN_BLOCKS])
    more = " …" if len(moduli) > SHOWN_BLOCKS else ""
    title, note = f"{name}, unit circle drawn", f"|λ| {total}{more}"
    return Picture(title, tuple(shapes), plane.words(name, "Re λ", "Im λ"), note, across="Re λ", up="Im λ")


def glyph(geometry: Geometry, half: float) -> Picture:
    """The eigenvalues in the unit circle, small, without words, in the colour of the row."""
    plane = Plane(half, 0.0, 0.0, 100.0)
    cloud = Shape(dots([plane.at(x, y) for x, y, _ in geometry.spectrum]), "cloud")
    title = "spectrum of the trained transition in the unit circle"
    return Picture(title, (plane.circle(), cloud), (), "", plane.side, plane.side)


def heat_map(matrix: Matrix, name: str, scale: float, note: str = "") -> Picture:
    """A square matrix as colours from -scale to scale, row 0 at the top, with its colour bar."""
    count = min(len(matrix), LARGEST)
    cell = SIDE / max(count, 1)
    shares = [[None if value is None else value / scale for value in row[:count]] for row in matrix[:count]]
    frame = f"M{short(LEFT)} {short(TOP)}h{short(SIDE)}v{short(SIDE)}h{short(-SIDE)}z"
    shapes = level_cells(shares, cell)
    bar = LEFT + SIDE + 8
    shapes += [Shape(f"M{short(bar)} {short(TOP)}h8v{short(SIDE)}h-8z", "scale"), Shape(frame, "frame")]
    ticks = range(0, count, int(rounded_up(max(count / 4, 1))))
    texts = [Words("2", "12", name, "heading")]
    texts += [Words(short(LEFT - 5), short(TOP + (t + 0.5) * cell + 4), str(t), "tick end") for t in ticks]
    texts += [Words(short(LEFT + (t + 0.5) * cell), short(TOP + SIDE + 13), str(t), "tick middle") for t in ticks]
    texts.append(Words(short(LEFT + SIDE), short(TOP + SIDE + 28), "recurrent step", "name end"))
    for height, text in ((0.0, f"{scale:g}"), (0.5, "0"), (1.0, f"−{scale:g}")):
        texts.append(Words(short(bar + 12), short(TOP + height * SIDE + (9 - 9 * height)), text, "tick"))
    cut = f"the first {LARGEST} steps" if len(matrix) > LARGEST else ""
    return Picture(
        f"{name}: heat map over steps",
        tuple(shapes),
        tuple(texts),
        ", ".join(filter(None, (note, cut))),
        across="and",
        up="steps",
        cells=cell_numbers([row[:count] for row in matrix[:count]]),
    )


def cell_numbers(matrix: Sequence[Sequence[float | None]]) -> str:
    """The numbers of a square heat map, as the page's script reads them for those who point at a cell."""
    return ";".join(" ".join("–" if value is None else f"{value:.4g}" for value in row) for row in matrix)


def level_cells(matrix: Sequence[Sequence[float | None]], cell: float) -> list[Shape]:
    """The cells of a heat map, row 0 at the top: one shape for each of the strengths from -1 to 1, nothing for 0.

    Args:
        matrix: values from -1 to 1.
        cell: the side of one.
    """
    runs: dict[int, list[str]] = {}
    for t, row in enumerate(matrix):
        levels = [None if value is None else _level(value) for value in row]
        start = 0
        for s in range(1, len(levels) + 1):
            if s == len(levels) or levels[s] != levels[start]:
                if level := levels[start]:
                    # Lengths between rounded edges: rounded by themselves they would leave seams between cells.
                    left, right = round(LEFT + start * cell, 2), round(LEFT + s * cell, 2)
                    top, bottom = round(TOP + t * cell, 2), round(TOP + (t + 1) * cell, 2)
                    d = f"M{_fine(left)} {_fine(top)}h{_fine(right - left)}v{_fine(bottom - top)}"
                    runs.setdefault(level, []).append(f"{d}h{_fine(left - right)}z")
                start = s
    return [_cells("".join(runs[level]), level) for level in sorted(runs)]


def block_names(geometry: Geometry) -> list[Words]:
    """The legend of the spectra: a colour class and the coordinates that it stands for."""
    blocks, count = geometry.blocks, len(geometry.blocks)
    if count <= BLOCK_COLOURS:
        return [Words("", "", f"block {i + 1}: {low}–{high - 1}", f"b{i}") for i, (low, high) in enumerate(blocks)]
    parts = [[i for i in range(count) if i * BLOCK_COLOURS // count == colour] for colour in range(BLOCK_COLOURS)]
    return [Words("", "", f"blocks {part[0] + 1}–{part[-1] + 1}", f"b{colour}") for colour, part in enumerate(parts)]


def _measured(rows: Sequence[Row]) -> list[tuple[Row, Geometry]]:
    return [(row, run.geometry) for row in rows for run in row.runs if run.geometry]


def _scopes(geometry: Geometry) -> list[tuple[str, Matrix]]:
    """The Gram matrices that are drawn: of the whole vector, and of each block where there is more than one."""
    blocks, drawn = len(geometry.blocks), len(geometry.gram_own)
    own = [(f"block {index + 1}", matrix) for index, matrix in enumerate(geometry.gram_own[:SHOWN_BLOCKS])]
    if drawn == 1 < blocks:
        own = [(f"mean of {blocks} blocks", geometry.gram_own[0])]
    whole = [("whole vector", geometry.gram)] if geometry.gram else []
    return [*whole, *(own if blocks > 1 or not whole else [])]


def _level(value: float) -> int:
    return max(-LEVELS, min(LEVELS, round(value * LEVELS)))


def _cells(d: str, level: int) -> Shape:
    return Shape(d, "cell plus" if level > 0 else "cell minus", opacity=f"{abs(level) / LEVELS:g}")


def _fine(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")

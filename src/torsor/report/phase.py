"""Phase portraits of a trained map: where a few states go when it is applied again and again."""

import cmath
import math
from collections.abc import Sequence

from torsor.report import wording
from torsor.report.charts import Shape, numbers, path
from torsor.report.figure import Picture
from torsor.report.plane import Plane, colour_of, dots
from torsor.report.run import Geometry

STEPS = 32
STARTS = 8  # states around the unit circle, where no plane turns
REAL = 1e-6  # an imaginary part below this share of the modulus is a rounding error
STYLES = ("", "dashed", "dotted")
DRAWN = {"": "full line", "dashed": "dashes", "dotted": "dots"}


def phase_portraits(geometry: Geometry, most: int) -> list[Picture]:
    r"""A picture for each of the first blocks of a map: states in its own coordinates, step by step.

    Along a left eigenvector :math:`w` of :math:`M`, :math:`w^* M = \lambda w^*`, the coordinate :math:`z = w^* x` of
    any state goes to :math:`\lambda z`: of a conformal map these are its planes, of a diagonal one its coordinates.
    Where planes turn, three of them are drawn from :math:`z = 1`: the one that turns least, the middle one and the one
    that turns most. Where none does, states around the unit circle move in the slowest and the fastest coordinate.

    Args:
        geometry: of the trained map.
        most: how many blocks are drawn.
    """
    blocks = sorted({block for _, _, block in geometry.spectrum})
    found = []
    for block in blocks[:most]:
        values = [complex(real, imaginary) for real, imaginary, own in geometry.spectrum if own == block]
        name = f"phase portrait{f', block {block + 1}' if len(blocks) > 1 else ''}"
        turning = sorted((each for each in values if each.imag > REAL * abs(each)), key=cmath.phase)
        still = [each for each in values if abs(each.imag) <= REAL * abs(each)]
        colour = colour_of(block, len(blocks))
        found.append(_planes(turning, len(still), name, colour) if turning else _coordinates(still, name, colour))
    return found


def orbit(factor: complex, start: complex = 1 + 0j) -> list[complex]:
    """A state and its images; one that grows begins so near to the origin that its last image has the start's size."""
    states = [start * abs(factor) ** -STEPS if abs(factor) > 1 else start]
    for _ in range(STEPS):
        states.append(states[-1] * factor)
    return states


def _planes(turning: Sequence[complex], still: int, name: str, colour: int) -> Picture:
    chosen = dict.fromkeys((turning[0], turning[len(turning) // 2], turning[-1]))
    plane, shapes, said = Plane(1.08), [], []
    for factor, style in zip(chosen, STYLES, strict=False):
        turn = f"{cmath.phase(factor):.3g}"
        states = [(each.real, each.imag) for each in orbit(factor)]
        shapes += _drawn(plane, states, f"b{colour} {style}", f"turning by {turn} a step")
        said.append(f"{turn} ({DRAWN[style]})")
    note = f"a step: length × {wording.span([abs(each) for each in chosen])}, turn {', '.join(said)}"
    rest = f"; {still} coordinates that do not turn are not drawn" if still else ""
    return _picture(plane, shapes, name, "Re z", "Im z", note + rest)


def _coordinates(values: Sequence[complex], name: str, colour: int) -> Picture:
    slow, fast = max(values, key=abs).real, min(values, key=abs).real
    plane, shapes = Plane(1.08), []
    for place in range(STARTS):
        angle = 2 * math.pi * place / STARTS
        x, y = math.cos(angle), math.sin(angle)
        pairs = zip(orbit(complex(slow), complex(x)), orbit(complex(fast), complex(y)), strict=True)
        states = [(across.real, up.real) for across, up in pairs]
        shapes += _drawn(plane, states, f"b{colour}", f"from {x:.2f}, {y:.2f}")
    note = f"a step: slowest coordinate × {slow:.3f}, fastest × {fast:.3f}"
    return _picture(plane, shapes, name, "slowest", "fastest", note)


def _drawn(plane: Plane, states: Sequence[tuple[float, float]], css: str, name: str) -> list[Shape]:
    points = [plane.at(*state) for state in states]
    line = Shape(path(points), f"line orbit {css}".rstrip(), values=numbers(states), name=name, counted="step")
    return [line, Shape(dots(points), f"cloud step {css.partition(' ')[0]}")]


def _picture(plane: Plane, shapes: list[Shape], name: str, across: str, up: str, note: str) -> Picture:
    drawn = (plane.axes(), plane.circle(), *shapes)
    title = f"{name}, from dot to dot one step, unit circle drawn"
    return Picture(title, drawn, plane.words(name, across, up), note, across=across, up=up)

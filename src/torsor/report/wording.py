"""How the page says numbers and names."""

import math
from collections.abc import Sequence

from torsor.report.run import Spread, Task, Text

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NOTHING = "–"


def fraction(value: float | None) -> str:
    """A share of one, with three digits."""
    return NOTHING if value is None else f"{value:.3f}"


def bits(value: float | None) -> str:
    """Bits per character, with three digits after the point."""
    return NOTHING if value is None else f"{value:.3f}"


def percent(value: float) -> str:
    """A share of one in percent."""
    return f"{100 * value:.1f}\u202f%"


def small(value: float | None) -> str:
    """A number that may be of the size of rounding."""
    if value is None:
        return NOTHING
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def spread(value: Spread) -> str:
    """A mean and a standard deviation, in the unit of the mean."""
    if value.mean is None or value.std is None:
        return small(value.mean)
    if not (said := small(value.mean)).count("·"):
        return f"{said} ± {value.std:.2g}" if value.std >= 1e-3 or value.std == 0 else f"{said} ± {small(value.std)}"
    unit = 10.0 ** math.floor(math.log10(abs(value.mean)))
    return f"({value.mean / unit:.1f} ± {value.std / unit:.1f})·{said.split('·')[1]}"


def whole(value: int | float | None) -> str:
    """A count, its thousands set apart by a narrow space."""
    return NOTHING if value is None else f"{value:,.0f}".replace(",", "\u202f")


def duration(seconds: float | None) -> str:
    """A time in the two largest units that it fills."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def task_name(task: Task) -> str:
    """What the words are."""
    length = "words" if task.length is None else f"words of length {task.length}"
    letters = {"generators": "over the generators", "all": "over all elements", None: "over an unnamed alphabet"}
    return f"{length} {letters.get(task.alphabet, f'over {task.alphabet}')} of {task.group or 'an unnamed group'}"


def text_name(text: Text) -> str:
    """Which text it is and how it is cut into parts."""
    name = text.name or "an unnamed text"
    if text.split is None:
        return name
    return f"{name}, {text.split}" if " " in text.split else f"{name}, split {text.split}"


def data(text: Text) -> str:
    """The data by the beginning of its hash, enough to tell two texts apart."""
    return f"data {text.sha256[:8]}" if text.sha256 else "data not recorded"


def span(values: Sequence[float]) -> str:
    """The smallest and the largest of some numbers, or the one that they are."""
    low, high = f"{min(values):.3f}", f"{max(values):.3f}"
    return low if low == high else f"{low}–{high}"

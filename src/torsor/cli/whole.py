"""Whole numbers on the command line: 1.5 is refused, where the parser by itself would round it."""

from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter, Token


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    value = tokens[0].value
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"unable to convert {value!r} into a whole number") from None


WHOLE = Parameter(converter=_whole)
Whole = Annotated[int, WHOLE]
MaybeWhole = Annotated[int | None, WHOLE]


def strict(annotation: Any) -> Any:
    """The annotation of an experiment's argument, with whole numbers read strictly."""
    return Annotated[annotation, WHOLE] if annotation in {int, int | None} else annotation

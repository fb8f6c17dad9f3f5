"""Numbers on the command line: 1.5 is no whole number, which the parser by itself would round, and a rate is an lr."""

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
RATE = Parameter(alias="--lr")  # what everybody types


def strict(name: str, annotation: Any) -> Any:
    """The annotation of an experiment's argument: whole numbers are read strictly, a learning rate has a short name."""
    if name == "learning_rate":
        return Annotated[annotation, RATE]
    return Annotated[annotation, WHOLE] if annotation in {int, int | None} else annotation

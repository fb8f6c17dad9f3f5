"""What an exchange with other programs must know of one kind of model."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, final

from torch import nn

from torsor.interop.reading import Reading

Form = dict[str, Any]
"""A model without its weights, as JSON holds it."""

Kind = TypeVar("Kind")


@final
@dataclass(frozen=True)
class Family:
    """One kind of model: how it is written down, built again and read.

    Args:
        name: in the files; it never changes.
        kind: the class.
        module: where this family is declared, for an export that stands alone.
        form: the form of a model of this kind, without the family's name.
        build: the model of a form, with weights at their initial values.
        reading: how such a model is read.
        tied: from a form, the names of tied weights, each with the name of the one it is tied to.
    """

    name: str
    kind: type[nn.Module]
    module: str
    form: Callable[[Any], Form]
    build: Callable[[Form], nn.Module]
    reading: Callable[[Any], Reading]
    tied: Callable[[Form], dict[str, str]] = lambda form: {}


def named(what: str, kinds: Mapping[str, Kind], name: Any) -> Kind:
    """The one of several kinds that a file names.

    Raises:
        ValueError: when it is none of them.
    """
    if name not in kinds:
        raise ValueError(f"{what} must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name]


def name_of(what: str, kinds: Mapping[str, object], value: object) -> str:
    """The name under which a file knows a class or function.

    Raises:
        ValueError: when it knows none for it.
    """
    for name, known in kinds.items():
        if known is value:
            return name
    raise ValueError(f"{what} must be one of {', '.join(kinds)} to be exported, got {value!r}")

"""What an experiment is: a function with typed arguments, and presets for the paper's size and a laptop's."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, final

if TYPE_CHECKING:  # a declaration is read without torch; building one imports it
    from torsor.experiments.study import Study

Scale = Literal["laptop", "paper"]


@final
@dataclass(frozen=True)
class Experiment:
    """A named setting of a paper.

    Args:
        name: ``paper/name``.
        summary: one line.
        build: a function with keyword-only typed arguments that builds the parts of one run; its
            defaults are the laptop's size.
        presets: arguments that a scale sets in place of the defaults.
        checks: what refuses a value of an argument as soon as it is known, without torch.
        added: arguments that came when there were runs already, with what was done before for their default. At the
            default they are left out, so that earlier runs are runs with the same arguments.
    """

    name: str
    summary: str
    build: "Callable[..., Study]"
    presets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    checks: Mapping[str, Callable[[Any], object]] = field(default_factory=dict)
    added: tuple[str, ...] = ()

    def arguments(self, scale: Scale = "laptop", **given: Any) -> dict[str, Any]:
        """All arguments of a run: the defaults, then the scale's, then those given; without the added at their default.

        Raises:
            ValueError: when an argument is not one of the experiment's; the nearest right name is told. Or a check
                refuses a value.
        """
        parameters = inspect.signature(self.build).parameters
        for name in given:
            if name not in parameters:
                raise ValueError(f"{self.name} has no argument {name!r}{nearest(name, parameters)}")
        defaults = {name: parameter.default for name, parameter in parameters.items()}
        arguments = {**defaults, **self.presets.get(scale, {}), **given}
        for name, check in self.checks.items():
            check(arguments[name])
        return {k: v for k, v in arguments.items() if k not in self.added or v != defaults[k]}


def with_defaults(build: "Callable[..., Study]", **defaults: Any) -> "Callable[..., Study]":
    """The same builder with other defaults, which its signature and so its help show.

    Args:
        build: a function with keyword-only arguments.
        defaults: in place of its own.
    """

    @wraps(build)
    def built(**arguments: Any) -> "Study":
        return build(**{**defaults, **arguments})

    shown = inspect.signature(build)
    changed = [p.replace(default=defaults.get(name, p.default)) for name, p in shown.parameters.items()]
    built.__signature__ = shown.replace(parameters=changed)  # pyright: ignore[reportAttributeAccessIssue]
    return built


def nearest_setting(name: str, known: Iterable[str]) -> str:
    """As ``nearest``, of experiments or tables: one's own name does without its group, and a group names all of its.

    Args:
        name: as typed, in capitals or not.
        known: names, ``group/name``.
    """
    typed, names = name.lower().strip("/"), list(known)
    groups, own, whole = {}, {}, {}
    for each in names:
        group, _, last = each.rpartition("/")
        groups.setdefault(group.lower(), []).append(each)
        own.setdefault(last.lower(), []).append(each)
        whole[each.lower()] = [each]
    where = whole if "/" in typed else groups | own
    form = typed if typed in where else next(iter(get_close_matches(typed, where, n=1)), "")
    if form in groups and "/" not in typed:
        return f"; of {form} there are: {', '.join(groups[form])}"
    found = where.get(form) or own.get(typed.rpartition("/")[2])
    return f"; did you mean {' or '.join(map(repr, found))}?" if found else f"; there are: {', '.join(names)}"


def nearest(name: str, known: Any) -> str:
    """A hint at the nearest right name, ready to be put behind an error, and what there is otherwise."""
    close = get_close_matches(name, list(known), n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    names = list(known)
    if any(" " in each for each in names):  # typed in quotes, and one may hold a comma
        names = [repr(each) for each in names]
    return f"; there are: {', '.join(names)}"

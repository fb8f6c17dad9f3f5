"""A command with a sub-command for each experiment: its own arguments as options, and those that all share."""

import inspect
from collections.abc import Callable, Iterable
from typing import Annotated, Any

from cyclopts import App, Parameter

from torsor.cli.whole import strict
from torsor.experiments.catalogue import EXPERIMENTS, find
from torsor.experiments.experiment import Experiment


def experiments_app(
    name: str, summary: str, do: Callable[[Experiment, dict[str, Any]], object], common: Callable[..., None]
) -> App:
    """The command, which tells the nearest right name of an experiment that is not there.

    Args:
        name: of the command.
        summary: its help.
        do: what happens, given the experiment and the options that were typed.
        common: a function that does nothing, whose keyword arguments are the options that every experiment has.
    """
    app = App(name=name, help=summary)
    for experiment in EXPERIMENTS.values():
        app.command(_command(experiment, do, common), name=experiment.name)

    # Options are taken too: where the name is wrong, it is the name that is at fault.
    def unknown(*names: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)]) -> None:
        if not names or names[0].startswith("-"):
            raise ValueError(f"name an experiment: torsor {name} EXPERIMENT; there are: {', '.join(EXPERIMENTS)}")
        find(names[0])

    unknown.__doc__ = summary
    app.default(unknown)
    return app


def _command(
    experiment: Experiment, do: Callable[[Experiment, dict[str, Any]], object], common: Callable[..., None]
) -> Callable[..., None]:
    own = inspect.signature(experiment.build).parameters.values()
    read = [each.replace(annotation=strict(each.name, each.annotation)) for each in own]
    return options_command(experiment.summary, (read, experiment.build), common, lambda given: do(experiment, given))


def options_command(
    summary: str,
    own: tuple[Iterable[inspect.Parameter], Callable[..., object]],
    common: Callable[..., None],
    do: Callable[[dict[str, Any]], object],
) -> Callable[..., None]:
    """A function whose signature and help the command line shows, of options that two others describe.

    Args:
        summary: the first line of its help.
        own: options, which go before those of one name; and a function whose docstring says what they are.
        common: more options, and what they are; a function's keyword arguments.
        do: what happens, given the options that were typed.
    """
    options, described = own
    named = {each.name: each for each in options}
    shared = [each for each in inspect.signature(common).parameters.values() if each.kind is each.KEYWORD_ONLY]
    signature = inspect.Signature([*named.values(), *(each for each in shared if each.name not in named)])

    def command(*words: Any, **given: Any) -> None:
        do(signature.bind(*words, **given).arguments)

    command.__signature__ = signature  # pyright: ignore[reportFunctionMemberAccess]
    command.__doc__ = f"{summary}\n\nArgs:{_args_of(common)}{_args_of(described)}"
    return command


def _args_of(described: Callable[..., object]) -> str:
    """What a docstring says of arguments."""
    said = inspect.cleandoc(described.__doc__ or "").partition("Args:")[2]
    return said.partition("\n\n")[0].rstrip()

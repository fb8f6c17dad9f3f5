"""A command with a sub-command for each experiment: its own arguments as options, and those that all share."""

import inspect
from collections.abc import Callable
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
    """A function whose signature and help the command line shows."""

    def command(**given: Any) -> None:
        do(experiment, given)

    own = inspect.signature(experiment.build).parameters.values()
    shared = inspect.signature(common).parameters.values()
    read = [each.replace(annotation=strict(each.name, each.annotation)) for each in own]
    command.__signature__ = inspect.Signature([*read, *shared])  # pyright: ignore[reportFunctionMemberAccess]
    own_help = inspect.cleandoc(experiment.build.__doc__ or "").partition("Args:")[2]
    shared_help = inspect.cleandoc(common.__doc__ or "").partition("Args:")[2]
    command.__doc__ = f"{experiment.summary}\n\nArgs:{own_help.rstrip()}{shared_help.rstrip()}"
    return command

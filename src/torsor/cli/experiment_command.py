"""A sub-command for each experiment: the experiment's own arguments as options, and those that all share."""

import inspect
from collections.abc import Callable
from typing import Any

from torsor.cli.whole import strict
from torsor.experiments.experiment import Experiment


def experiment_command(
    experiment: Experiment, do: Callable[[Experiment, dict[str, Any]], object], common: Callable[..., None]
) -> Callable[..., None]:
    """A function whose signature and help the command line shows.

    Args:
        experiment: its arguments become options.
        do: what happens, given the experiment and the options that were typed.
        common: a function that does nothing, whose keyword arguments are the options that every experiment has.
    """

    def command(**given: Any) -> None:
        do(experiment, given)

    own = inspect.signature(experiment.build).parameters.values()
    shared = inspect.signature(common).parameters.values()
    read = [each.replace(annotation=strict(each.annotation)) for each in own]
    command.__signature__ = inspect.Signature([*read, *shared])  # pyright: ignore[reportFunctionMemberAccess]
    own_help = inspect.cleandoc(experiment.build.__doc__ or "").partition("Args:")[2]
    shared_help = inspect.cleandoc(common.__doc__ or "").partition("Args:")[2]
    command.__doc__ = f"{experiment.summary}\n\nArgs:{own_help.rstrip()}{shared_help.rstrip()}"
    return command

"""``torsor train``: one sub-command for each experiment, with the experiment's own arguments as options."""

import inspect
import shlex
import sys
from pathlib import Path
from typing import Any

from torsor.cli.experiment_command import experiments_app
from torsor.cli.whole import MaybeWhole, Whole
from torsor.experiments.experiment import Experiment, Scale


def _common(
    *,
    scale: Scale = "laptop",
    out: Path | None = None,
    checkpoint_every: Whole = 100,
    threads: MaybeWhole = None,
    device: str = "auto",
) -> None:
    """Options of every experiment.

    Args:
        scale: size of the run: for a laptop, or the paper's.
        out: run folder; runs/NAME-SEED by default.
        checkpoint_every: updates between two checkpoints.
        threads: threads of PyTorch; by default those of the machine, or of the run that is resumed.
        device: cpu, cuda or cuda:N; auto takes the first GPU if there is one.
    """


def start(experiment: Experiment, given: dict[str, Any]) -> Path:
    """Train, with a progress line, and print how it ended.

    Args:
        experiment: what is run.
        given: the options that were typed, common ones and the experiment's.

    Returns:
        The run folder.
    """
    from torsor.cli.progress import follow
    from torsor.cli.tables import print_scores
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.run import carry_out, default_path

    common = {name: given.pop(name, p.default) for name, p in inspect.signature(_common).parameters.items()}
    arguments = experiment.arguments(scale=common["scale"], **given)
    path = common["out"] or default_path(experiment.name, arguments["seed"])
    prepare_machine(common["threads"], path)
    records = carry_out(
        experiment,
        arguments,
        path,
        checkpoint_every=common["checkpoint_every"],
        command=typed_command(),
        device=common["device"],
    )
    follow(records, path)
    print_scores([path])
    print(f"\nrun:          {path}")
    if (path / "geometry.json").is_file():
        print(f"its geometry: torsor measure {path}")
    print(f"a page of it: torsor report {path}")
    return path


def typed_command() -> str:
    """The command as it was typed, for the report."""
    return shlex.join(["torsor", *sys.argv[1:]])


app = experiments_app("train", "Train an experiment; the same command again resumes where it stood.", start, _common)

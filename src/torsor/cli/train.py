"""``torsor train``: one sub-command for each experiment, with the experiment's own arguments as options."""

import inspect
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import App

from torsor.cli.experiment_command import experiments_app
from torsor.cli.interruption import kept_in
from torsor.cli.tables import JsonFlag
from torsor.cli.whole import MaybeWhole, Whole
from torsor.experiments.experiment import Experiment, Scale

if TYPE_CHECKING:
    from torsor.experiments.run import Updates
    from torsor.experiments.together import Processes


def _common(
    *,
    scale: Scale = "laptop",
    out: Path | None = None,
    checkpoint_every: Whole = 100,
    threads: MaybeWhole = None,
    device: str = "auto",
    devices: MaybeWhole = None,
    nodes: MaybeWhole = None,
    strategy: Literal["ddp", "fsdp"] = "ddp",
    compile: bool = False,
    as_json: JsonFlag = False,
) -> None:
    """Options of every experiment.

    Args:
        scale: size of the run: for a laptop, or the paper's.
        out: run folder; runs/NAME-SEED by default.
        checkpoint_every: updates between two checkpoints.
        threads: threads of PyTorch; by default those of the machine, or of the run that is resumed.
        device: cpu, cuda or cuda:N; auto takes the first GPU if there is one.
        devices: GPUs of each machine that train together; with --device cpu, processes.
        nodes: machines that train together; torchrun or srun starts the command on each.
        strategy: a copy of the model on every device, or its parameters in shards over them.
        compile: compile the model's blocks, each by itself and never the loop around them.
        as_json: print JSON for programs: the folder and what the run was scored with.
    """


def start(experiment: Experiment, given: dict[str, Any]) -> Path:
    """Train, with a progress line, and print how it ended.

    Args:
        experiment: what is run.
        given: the options that were typed, common ones and the experiment's.

    Returns:
        The run folder.
    """
    common = {name: given.pop(name, p.default) for name, p in inspect.signature(_common).parameters.items()}
    arguments = experiment.arguments(scale=common["scale"], **given)  # what it refuses needs no torch
    from torsor.experiments.run import default_path

    path = common["out"] or default_path(experiment.name, arguments["seed"])
    with kept_in(path):
        return _train(experiment, arguments, path, common)


def _train(experiment: Experiment, arguments: dict[str, Any], path: Path, common: dict[str, Any]) -> Path:
    from torsor.cli.progress import follow
    from torsor.cli.tables import print_scores
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.reading import evaluation
    from torsor.experiments.run import carry_out
    from torsor.experiments.together import join

    processes = join(common["devices"], common["nodes"], common["strategy"], common["device"])
    begun = prepare_machine(common["threads"], path)
    earlier = _finished_at(path)
    if begun is not None and earlier is None and (processes is None or processes.number == 0):
        said = f"{path} began with --threads {begun}, not {common['threads']}: from here on last bits may differ"
        print(f"torsor: {said}", file=sys.stderr)
    scored = (path / "evaluation.json").exists()
    records = carry_out(
        experiment,
        arguments,
        path,
        checkpoint_every=common["checkpoint_every"],
        command=typed_command(),
        device=common["device"],
        processes=processes,
        compiled=common["compile"],
    )
    if processes is None:
        follow(records, path)
    else:
        _follow_together(records, path, processes)
        if processes.number:
            return path
    scores = evaluation(path)  # a damaged one is refused before anything is said
    if earlier is not None:
        _tell_finished(path, earlier, scored, as_json=common["as_json"])
    if common["as_json"]:
        print(json.dumps({"run": str(path), "evaluation": scores}))
        return path
    print_scores([path])
    print(f"\nrun:          {path}")
    if (path / "compiled.json").is_file():
        print(f"compiled:     {_compiled(path)}")
    if (path / "geometry.json").is_file():
        print(f"its geometry: torsor measure {path}")
    print(f"a page of it: torsor report {path}")
    return path


def _finished_at(path: Path) -> int | None:
    """The last update of a run that has ended already; None for any other folder."""
    from torsor.experiments.reading import description

    try:
        earlier = description(path)
    except ValueError:  # of all processes the main one refuses it when it opens the folder, and the others are told
        return None
    return earlier.checkpoint.update if earlier.finished and earlier.checkpoint is not None else None


def _tell_finished(path: Path, updates: int, scored: bool, *, as_json: bool) -> None:
    """Say first that what follows is no news."""
    again = "" if scored else "; its model was examined again"
    stream = sys.stderr if as_json else sys.stdout
    print(f"finished earlier: {path}, {updates:,} updates; nothing was trained now{again}", file=stream)


def _follow_together(records: "Updates", path: Path, processes: "Processes") -> None:
    """Draw from a run that several processes train: the main one alone shows it, and says what went wrong."""
    from torsor.cli.progress import follow
    from torsor.experiments.listening import listening
    from torsor.experiments.together import ToldByMainError, lost

    try:
        if processes.number == 0:
            follow(records, path)
        else:
            with listening(lambda _what, _share: None):  # how far it is, the main one says
                for _ in records:
                    pass
    except ToldByMainError:
        raise SystemExit(2) from None
    except (ArithmeticError, ValueError) as error:
        if processes.number == 0:
            raise
        if isinstance(error, ArithmeticError):  # of the whole batch: the main process says it too
            raise SystemExit(1) from None
        raise ValueError(f"process {processes.number} of {processes.count}: {error}") from error
    except RuntimeError as error:
        if not lost(error):
            raise
        if processes.number == 0:
            hint = "the same command goes on from the last checkpoint"
            print(f"torsor: another of the {processes.count} processes has ended; {hint}", file=sys.stderr)
        raise SystemExit(1) from None


def _compiled(path: Path) -> str:
    """Into how many graphs a run's blocks were compiled."""
    numbers = json.loads((path / "compiled.json").read_bytes())
    return f"{numbers['blocks']} blocks in {numbers['graphs']} graphs, at most {numbers['limit']} for a kind of block"


def typed_command() -> str:
    """The command as it was typed, for the report."""
    return shlex.join(["torsor", *sys.argv[1:]])


app: App = experiments_app(
    "train", "Train an experiment; the same command again resumes where it stood.", start, _common
)

"""Carry an experiment out in a run folder: train, resume, score, measure."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torsor.experiments.catalogue import find
from torsor.experiments.experiment import Experiment
from torsor.experiments.geometry import geometry
from torsor.experiments.machine import find_device
from torsor.experiments.study import NonFiniteLogitsError, Study
from torsor.training import (
    NonFiniteLoss,
    Record,
    RunDescription,
    RunFolder,
    TrainState,
    default_path,
    load_weights,
    read_run,
    train,
)
from torsor.training.durable import disk_errors, replace_json

__all__ = ["carry_out", "default_path", "load", "measure"]

EVALUATION, GEOMETRY = "evaluation.json", "geometry.json"


@final
@dataclass(frozen=True)
class Update:
    """One update of a run, for whoever watches it.

    Args:
        record: its numbers.
        of: how many updates the whole run has.
        scores: of the latest glance at data that is not trained on; None before the first.
    """

    record: Record
    of: int
    scores: dict[str, Any] | None


Updates = Iterator[Update]
GLANCES = 24  # how often a run is scored on its way


def carry_out(
    experiment: Experiment,
    arguments: dict[str, Any],
    path: Path,
    *,
    checkpoint_every: int = 100,
    command: str = "",
    device: str = "cpu",
) -> Updates:
    """Train in a run folder, from its last checkpoint where it has one; score and measure at the end.

    The same call on the same folder goes on where a killed run stood and ends with the same
    parameters and the same ``metrics.jsonl``, to the last bit, as one that nobody killed; on a
    finished run it does nothing.

    Args:
        experiment: what is run.
        arguments: all of its arguments, the seed among them.
        path: the run folder.
        checkpoint_every: updates between two checkpoints, at least 1.
        command: what a user typed, for the report.
        device: where the model is trained, "cpu" or "cuda:0"; "auto" takes the first GPU if there is one.

    Yields:
        Each update.

    Raises:
        NonFiniteLoss: when the loss is not finite; the last checkpoint is intact and the run marked as stopped.
        NonFiniteLogitsError: the same, found by scoring the model.
        RunFolderError: when the folder cannot be used.
        ValueError: when an argument is out of range.
    """
    if checkpoint_every < 1:
        raise ValueError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
    study = experiment.build(**arguments)  # before the folder: a wrong argument must leave nothing behind
    chosen = find_device(device)
    study.model.to(chosen)
    about = {
        "label": study.label,
        "parameters": sum(p.numel() for p in study.model.parameters()),
        "command": command,
        "device": str(chosen),
    }
    with RunFolder(path, experiment.name, arguments, study.seed, about=about) as folder:
        if folder.description.finished:
            return
        untrained = None if study.transition is None else geometry(study.transition)
        state = TrainState(study.model, study.optimizer)
        folder.restore(state)
        glance_every = max(1, study.plan.updates // GLANCES)
        scores = None
        try:
            for record in train(state, study.task, study.plan, forward=study.step.forward, engine=study.engine):
                extra = study.step.notes(record.update - 1)
                if record.update % glance_every == 0:
                    extra["evaluation"] = scores = study.examination.glance(study.model, record.update)
                folder.log(record, extra)
                if record.update % checkpoint_every == 0:
                    folder.save(state)
                yield Update(record, study.plan.updates, scores)
            final_scores = study.examination.evaluate(
                study.model, state.update
            )  # before the checkpoint, which must be of a sound model
        except (NonFiniteLoss, NonFiniteLogitsError) as error:
            folder.stop(str(error))
            raise
        folder.save(state)
        folder.replace_json(EVALUATION, final_scores)
        if study.transition is not None:
            folder.replace_json(GEOMETRY, geometry(study.transition) | {"initial": untrained})
        folder.finish()


def measure(path: Path) -> dict[str, Any]:
    """The geometry of a run's transition as its last checkpoint has it, beside that of the untrained one.

    It is also written to the run's ``geometry.json``, for the report.

    Args:
        path: a run folder; the run may be going on.

    Returns:
        What ``geometry`` returns, and the same for the untrained transition under "initial".

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when the run's model has no transition.
    """
    study, described = rebuild(path)
    if study.transition is None:
        raise ValueError(f"{path} must hold a model with a transition to measure, {described.experiment} has none")
    untrained = geometry(study.transition)
    load_weights(path, study.model)
    content = geometry(study.transition) | {"initial": untrained}
    with disk_errors(f"write {path / GEOMETRY}"):
        replace_json(path / GEOMETRY, content)
    return content


def rebuild(path: Path) -> tuple[Study, RunDescription]:
    """The parts of a run, untrained, from what its ``run.json`` says.

    Raises:
        RunFolderError: when the folder is no run folder.
        ValueError: when its experiment is not known.
    """
    described = read_run(path)
    return find(described.experiment).build(**described.arguments), described


def load(path: Path | str) -> Study:
    """The parts of a run with the weights of its last checkpoint: where work with a trained model begins.

    Args:
        path: a run folder; the run may be going on.

    Returns:
        The study: ``model``, ``transition``, ``task`` and the rest.

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when its experiment is not known.
    """
    study, _ = rebuild(Path(path))
    load_weights(Path(path), study.model)
    return study

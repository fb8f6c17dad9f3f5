"""Carry an experiment out in a run folder: train, resume, score, measure."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from torch import nn

from torsor.experiments.catalogue import find
from torsor.experiments.experiment import Experiment
from torsor.experiments.geometry import geometry
from torsor.experiments.listening import tell, telling_draws, telling_tokens
from torsor.experiments.machine import find_device
from torsor.experiments.same_data import keep_data, require_data
from torsor.experiments.study import NonFiniteLogitsError, RecallingExamination, Study
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
from torsor.training.commit import package_commit
from torsor.training.durable import DamagedFileError, RunFolderError, disk_errors, read_json_lines, replace_json
from torsor.training.run_folder import METRICS
from torsor.training.shared_run import SharedRun

if TYPE_CHECKING:  # an extra, and a compiler that takes seconds to import
    from torsor.experiments.compiled import CompiledBlocks
    from torsor.training.processes import Processes

__all__ = ["carry_out", "default_path", "load", "measure"]

EVALUATION, GEOMETRY, COMPILED, GENERATED = "evaluation.json", "geometry.json", "compiled.json", "generated.json"


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
CHECKING = partial(tell, "checking the checkpoint")  # every byte is read before any is loaded
GLANCES = 24  # how often a run is scored on its way


def carry_out(
    experiment: Experiment,
    arguments: dict[str, Any],
    path: Path,
    *,
    checkpoint_every: int = 100,
    command: str = "",
    device: str = "cpu",
    processes: "Processes | None" = None,
    compiled: bool = False,
) -> Updates:
    """Train in a run folder, from its last checkpoint where it has one; score and measure at the end.

    The same call on the same folder goes on where a killed run stood and ends with the same
    parameters and the same ``metrics.jsonl``, to the last bit, as one that nobody killed; on a
    finished run it does nothing, but for an ``evaluation.json`` that is gone: the main process makes it again.

    Args:
        experiment: what is run.
        arguments: all of its arguments, the seed among them.
        path: the run folder.
        checkpoint_every: updates between two checkpoints, at least 1.
        command: what a user typed, for the report.
        device: where the model is trained, "cpu" or "cuda:0"; "auto" takes the first GPU if there is one.
        processes: that train it together, each on a device of its own, in place of ``device``. Each makes this
            call and draws from it; only the main one touches the folder.
        compiled: whether the model's blocks are compiled; ``compiled.json`` then says into how many graphs.

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
    engine = study.engine if processes is None else processes.engine(study.engine.autocast)
    engine.rows(study.plan.batch)  # refuses a batch that these processes cannot share
    chosen = find_device(device) if processes is None else processes.device
    study.model.to(chosen)
    about = {
        "label": study.label,
        "parameters": sum(p.numel() for p in study.model.parameters()),
        "command": command,
        "device": str(chosen),
        "commit": package_commit(),
    }
    circumstances = {"processes": engine.processes, "compiled": compiled}
    blocks = _compiled(study.model) if compiled else None

    def opening() -> RunFolder:
        folder = RunFolder(path, experiment.name, arguments, study.seed, about, circumstances, CHECKING)
        try:
            keep_data(folder, study.data)
        except BaseException:
            folder.close()
            raise
        return folder

    with SharedRun(engine, opening) as folder:
        if folder.finished:
            if engine.is_main and not (path / EVALUATION).exists():
                load_weights(path, study.model)  # by itself: the others have nothing to do and may have left
                folder.replace_json(EVALUATION, examine(study, path, study.plan.updates, "scoring"))
            return
        untrained = None if study.transition is None else geometry(study.transition)
        state = TrainState(study.model, study.optimizer)
        folder.restore(state)
        if isinstance(study.examination, RecallingExamination) and engine.is_main:
            study.examination.recall(glances(path))
        glance_every = max(1, study.plan.updates // GLANCES)
        scores = None
        try:
            for record in train(state, study.task, study.plan, forward=study.step.forward, engine=engine):
                extra = study.step.notes(record.update - 1)
                if record.update % glance_every == 0:
                    with engine.whole(study.model):
                        extra["evaluation"] = scores = study.examination.glance(study.model, record.update)
                folder.log(record, extra)
                if record.update % checkpoint_every == 0:
                    folder.save(state)
                yield Update(record, study.plan.updates, scores)
            tokens = study.examination.tokens
            with engine.whole(study.model), telling_tokens(study.model, tokens, "scoring"):
                # before the checkpoint, which must be of a sound model
                final_scores = study.examination.evaluate(study.model, state.update)
        except (NonFiniteLoss, NonFiniteLogitsError) as error:
            folder.stop(str(error))
            raise
        folder.save(state)
        folder.replace_json(EVALUATION, final_scores)
        if study.transition is not None:
            with engine.whole(study.model):
                trained = geometry(study.transition)
            folder.replace_json(GEOMETRY, trained | {"initial": untrained})
        if engine.is_main and _continues_texts(study):
            # on the CPU, from the checkpoint: of several processes each may hold a part of the weights
            written = experiment.build(**arguments)
            load_weights(path, written.model)
            folder.replace_json(GENERATED, _sample(written, arguments))
        if blocks is not None:
            folder.replace_json(COMPILED, blocks.to_json())
        folder.finish()


def _compiled(model: nn.Module) -> "CompiledBlocks":
    from torsor.experiments.compiled import CompiledBlocks

    return CompiledBlocks(model)


def _continues_texts(study: Study) -> bool:
    from torsor.experiments.text_model import continues_texts

    return continues_texts(study)


def _sample(study: Study, arguments: dict[str, Any]) -> dict[str, Any]:
    from torsor.experiments.text_sample import text_sample

    return text_sample(study, arguments)


def glances(path: Path) -> list[tuple[int, dict[str, Any]]]:
    """What the log of a run says of its glances: the update of each, and its scores.

    Raises:
        RunFolderError: when the log cannot be read.
    """
    try:
        lines = read_json_lines(path / METRICS)
    except DamagedFileError as error:
        raise RunFolderError(f"{error}; {read_run(path).anew(path)}") from error
    return [(line["update"], line["evaluation"]) for line in lines if "evaluation" in line]


def examine(study: Study, path: Path, update: int, what: str) -> dict[str, Any]:
    """The scores of a finished run once more, from its weights and from what its log says of its glances.

    Args:
        study: of the run, its model with the weights of the last checkpoint.
        path: the run folder.
        update: of that checkpoint.
        what: is told to go on, for whoever listens.
    """
    if isinstance(study.examination, RecallingExamination):
        study.examination.recall(glances(path))
    with telling_tokens(study.model, study.examination.tokens, what):
        return study.examination.evaluate(study.model, update)


def measure(path: Path) -> dict[str, Any]:
    """The geometry of a run's transition as its last checkpoint has it, beside that of the untrained one.

    It is also written to the run's ``geometry.json``, for the report; of a model of texts, a sample of what it writes
    goes to ``generated.json``.

    Args:
        path: a run folder; the run may be going on.

    Returns:
        What ``geometry`` returns, and the same for the untrained transition under "initial", where the model has a
        transition; what ``text_sample`` returns under "generated", where it continues texts.

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when the run's model has no transition and continues no texts.
    """
    study, described = rebuild(path)
    untrained = None if study.transition is None else geometry(study.transition)
    load_weights(path, study.model, watch=CHECKING)
    content, writes = {}, _continues_texts(study)
    if study.transition is None and not writes:
        raise ValueError(f"{path} must hold a model with a transition to measure, {described.experiment} has none")
    with disk_errors(f"write {path / GEOMETRY}"):
        if study.transition is not None:
            content = geometry(study.transition) | {"initial": untrained}
            replace_json(path / GEOMETRY, content)
        if writes:
            content = content | {"generated": _sample(study, described.arguments)}
            replace_json(path / GENERATED, content["generated"])
    return content


def rebuild(path: Path) -> tuple[Study, RunDescription]:
    """The parts of a run, untrained, from what its ``run.json`` says.

    Raises:
        RunFolderError: when the folder is no run folder, or its data are not those that it was trained on: another
            text under the same name has other tokens.
        ValueError: when its experiment is not known.
    """
    described = read_run(path)
    parameters = described.about.get("parameters")
    with telling_draws(parameters if isinstance(parameters, int) else 0, "building the model"):
        study = find(described.experiment).build(**described.arguments)
    require_data(path, study.data)
    return study, described


def load(path: Path | str) -> Study:
    """The parts of a run with the weights of its last checkpoint: where work with a trained model begins.

    Args:
        path: a run folder; the run may be going on.

    Returns:
        The study: ``model``, in training mode as any module that was just built, ``transition``, ``task`` and the rest.

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when its experiment is not known.
    """
    study, _ = rebuild(Path(path))
    load_weights(Path(path), study.model, watch=CHECKING)
    return study

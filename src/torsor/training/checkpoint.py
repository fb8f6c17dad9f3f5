"""A folder of safetensors and JSON that is replaced as a whole or not at all."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torch import nn

from torsor.training.durable import RunFolderError, read_json, sha256, sync_file, sync_folder, write_json
from torsor.training.engine import Engine
from torsor.training.state import Snapshot, TrainState, load_weights_into

WEIGHTS, MOMENTS, STATE = "model.safetensors", "training.safetensors", "state.json"
CURRENT, NEW, PREVIOUS = "checkpoint", "checkpoint.new", "checkpoint.previous"


@final
@dataclass(frozen=True)
class CheckpointDigest:
    """What ``run.json`` knows of the checkpoint that counts.

    Args:
        update: how many updates its parameters have had.
        files: the SHA-256 of each of its files, by name.
    """

    update: int
    files: dict[str, str]


def write_checkpoint(folder: Path, snapshot: Snapshot, logs: Mapping[str, int], engine: Engine) -> CheckpointDigest:
    """Write ``snapshot`` to ``checkpoint.new`` and wait until all of it is on the disk.

    The checkpoint in place is not touched. The caller makes the returned digest durable in
    ``run.json``, and only then calls ``install``: whichever instant the machine stops at, exactly one
    of the folders is the one that ``run.json`` describes.

    Args:
        folder: the run folder.
        snapshot: what to write.
        logs: length in bytes of each log at this update.
        engine: writes the tensors.
    """
    new = folder / NEW
    if new.exists():
        shutil.rmtree(new)
    new.mkdir()
    engine.save(snapshot.weights, new / WEIGHTS)
    engine.save(snapshot.moments, new / MOMENTS)
    for name in (WEIGHTS, MOMENTS):
        sync_file(new / name)
    write_json(new / STATE, snapshot.progress | {"logs": dict(logs)})
    sync_folder(new)
    sync_folder(folder)
    return CheckpointDigest(snapshot.update, {name: sha256(new / name) for name in (WEIGHTS, MOMENTS, STATE)})


def locate(folder: Path, digest: CheckpointDigest) -> Path:
    """The one of ``checkpoint``, ``checkpoint.new`` and ``checkpoint.previous`` that ``digest`` describes.

    Nothing is changed. Every byte is read: a file that was truncated or altered is never loaded.

    Args:
        folder: the run folder.
        digest: what ``run.json`` says.

    Raises:
        RunFolderError: when none fits, naming the first file that does not.
    """
    problems = []
    for name in (CURRENT, NEW, PREVIOUS):
        candidate = folder / name
        if candidate.is_dir():
            problem = _difference(candidate, digest)
            if problem is None:
                return candidate
            problems.append(problem)
    problem = problems[0] if problems else f"{folder / CURRENT} is missing"
    raise RunFolderError(f"{problem}; nothing was changed")


def install(folder: Path, source: Path) -> None:
    """Make ``source`` the checkpoint in place, and remove the others.

    Args:
        folder: the run folder.
        source: the folder that ``run.json`` describes, as ``locate`` gives it.
    """
    current, new, previous = folder / CURRENT, folder / NEW, folder / PREVIOUS
    if source != current:
        if current.exists():
            aside = previous if source == new else new
            _remove(aside)
            current.rename(aside)
        source.rename(current)
        sync_folder(folder)  # the rename must be on the disk before the old files go
    _remove(new)
    _remove(previous)


def read_checkpoint(source: Path, state: TrainState, engine: Engine) -> None:
    """Load a checkpoint into ``state``, all of it or nothing.

    Args:
        source: the checkpoint's folder, its digest already checked.
        state: of the same model and kind of optimizer.
        engine: reads the tensors.
    """
    state.load(engine.load(source / WEIGHTS), engine.load(source / MOMENTS), read_json(source / STATE))


def read_weights(source: Path, model: nn.Module, engine: Engine) -> None:
    """Load a checkpoint's weights into ``model`` and leave the rest.

    Args:
        source: the checkpoint's folder, its digest already checked.
        model: the model that was trained, built with the same arguments.
        engine: reads the tensors.
    """
    load_weights_into(model, engine.load(source / WEIGHTS))


def log_lengths(source: Path) -> dict[str, int]:
    """The length in bytes of each log at the checkpoint's update."""
    return read_json(source / STATE)["logs"]


def _difference(candidate: Path, digest: CheckpointDigest) -> str | None:
    for name, expected in digest.files.items():
        path = candidate / name
        if not path.is_file():
            return f"{path} is missing"
        found = sha256(path)
        if found != expected:
            return f"{path} was truncated or altered: its SHA-256 must begin {expected[:12]}, found {found[:12]}"
    return None


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)

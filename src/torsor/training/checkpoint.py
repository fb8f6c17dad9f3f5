"""A folder of safetensors and JSON that is replaced as a whole or not at all."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from torch import Tensor, nn

from torsor.training.durable import (
    DamagedFileError,
    RunFolderError,
    read_json,
    sha256,
    sync_file,
    sync_folder,
    write_json,
)
from torsor.training.engine import Engine
from torsor.training.shards import INDEX, KINDS, index_of, read_shards, shard_name, shard_names
from torsor.training.state import Snapshot, TrainState, load_weights_into

WEIGHTS, MOMENTS, STATE = "model.safetensors", "training.safetensors", "state.json"
SHARED_DISK = "put the run on a disk that all machines share, or train with --strategy ddp"
Watch = Callable[[int, int], object]  # how much is done, of how much
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

    @property
    def weights(self) -> str:
        """The SHA-256 of the file of weights; where there are several, of those of their files in order."""
        if WEIGHTS in self.files:
            return self.files[WEIGHTS]
        count = (len(self.files) - 2) // len(KINDS)
        joined = "".join(self.files[shard_name("model", number, count)] for number in range(count))
        return hashlib.sha256(joined.encode()).hexdigest()


@final
@dataclass(frozen=True)
class Part:
    """What one process wrote of a checkpoint, or why it could not.

    Args:
        files: the SHA-256 of each of its files, by name.
        places: for each kind of tensors and each name, what ``Piece.place`` says.
        refusal: one line; empty where all went well.
    """

    files: dict[str, str]
    places: dict[str, dict[str, dict[str, Any]]]
    refusal: str = ""


def begin_checkpoint(folder: Path) -> Path:
    """An empty ``checkpoint.new``, for every process to write its part in; the checkpoint in place is not touched.

    Args:
        folder: the run folder.
    """
    new = folder / NEW
    if new.exists():
        shutil.rmtree(new)
    new.mkdir()
    return new


def write_part(new: Path, snapshot: Snapshot, engine: Engine) -> Part:
    """Write the tensors that this process has of a checkpoint, and wait until they are on the disk.

    Args:
        new: what ``begin_checkpoint`` gave.
        snapshot: of this process.
        engine: says which part this is, and writes the tensors.
    """
    number, count = engine.shard
    files, places = {}, {}
    for kind, pieces in {"model": snapshot.weights, "training": snapshot.moments}.items():
        name = shard_name(kind, number, count)
        engine.save({tensor: piece.rows for tensor, piece in pieces.items()}, new / name)
        sync_file(new / name)
        files[name] = sha256(new / name)
        places[kind] = {tensor: piece.place(name) for tensor, piece in pieces.items()}
    return Part(files, places)


def complete_checkpoint(
    new: Path, snapshot: Snapshot, parts: Sequence[Part], logs: Mapping[str, int]
) -> CheckpointDigest:
    """Write what belongs to all parts of a checkpoint, and wait until all of it is on the disk.

    The caller makes the returned digest durable in ``run.json``, and only then calls ``install``: whichever
    instant the machine stops at, exactly one of the folders is the one that ``run.json`` describes.

    Args:
        new: what ``begin_checkpoint`` gave.
        snapshot: of the main process.
        parts: of all processes, in order.
        logs: length in bytes of each log at this update.

    Raises:
        RunFolderError: when a process could not write its part, or its files are not here.
    """
    files: dict[str, str] = {}
    for number, part in enumerate(parts):
        if part.refusal:
            raise RunFolderError(f"process {number + 1} of {len(parts)}: {part.refusal}")
        files |= part.files
    for name in files:
        if not (new / name).is_file():
            raise RunFolderError(f"{new / name} must be seen by the main process: {SHARED_DISK}")
    contents = {STATE: snapshot.progress | {"logs": dict(logs)}}
    if len(parts) > 1:
        contents[INDEX] = {kind: index_of([part.places[kind] for part in parts]) for kind in KINDS}
    for name, content in contents.items():
        write_json(new / name, content)
        files[name] = sha256(new / name)
    sync_folder(new)
    sync_folder(new.parent)
    return CheckpointDigest(snapshot.update, files)


def locate(folder: Path, digest: CheckpointDigest, watch: Watch | None = None) -> Path:
    """The one of ``checkpoint``, ``checkpoint.new`` and ``checkpoint.previous`` that ``digest`` describes.

    Nothing is changed. Every byte is read: a file that was truncated or altered is never loaded.

    Args:
        folder: the run folder.
        digest: what ``run.json`` says.
        watch: is told how many bytes of the checkpoint have been read, and how many there are.

    Raises:
        DamagedFileError: when none fits, naming the first file that does not.
    """
    problems = []
    for name in (CURRENT, NEW, PREVIOUS):
        candidate = folder / name
        if candidate.is_dir():
            problem = _difference(candidate, digest, watch)
            if problem is None:
                return candidate
            problems.append(problem)
    problem = problems[0] if problems else f"{folder / CURRENT} is missing"
    raise DamagedFileError(problem)


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
    weights, moments = (_whole(source, kind, engine) for kind in KINDS)
    state.load(weights, moments, read_json(source / STATE))


def read_weights(source: Path, model: nn.Module, engine: Engine) -> None:
    """Load a checkpoint's weights into ``model`` and leave the rest.

    Args:
        source: the checkpoint's folder, its digest already checked.
        model: the model that was trained, built with the same arguments.
        engine: reads the tensors.
    """
    load_weights_into(model, _whole(source, KINDS[0], engine))


def log_lengths(source: Path) -> dict[str, int]:
    """The length in bytes of each log at the checkpoint's update."""
    return read_json(source / STATE)["logs"]


def file_names(digest: Mapping[str, str]) -> set[str]:
    """The names that the files of a checkpoint must have, as many as a digest has."""
    if len(digest) < 6:
        return {WEIGHTS, MOMENTS, STATE}
    return {STATE, INDEX} | shard_names((len(digest) - 2) // len(KINDS))


def _whole(source: Path, kind: str, engine: Engine) -> dict[str, Tensor]:
    if (source / INDEX).exists():
        return read_shards(source, kind)
    return engine.load(source / shard_name(kind, 0, 1))


def _difference(candidate: Path, digest: CheckpointDigest, watch: Watch | None) -> str | None:
    sizes = {name: (candidate / name).stat().st_size for name in digest.files if (candidate / name).is_file()}
    whole, read = sum(sizes.values()), 0
    for name, expected in digest.files.items():
        path = candidate / name
        if not path.is_file():
            return f"{path} is missing"
        found = sha256(path, None if watch is None else partial(_passed, watch, read, whole))
        read += sizes.get(name, 0)
        if found != expected:
            return f"{path} was truncated or altered: its SHA-256 must begin {expected[:12]}, found {found[:12]}"
    return None


def _passed(watch: Watch, before: int, whole: int, read: int) -> None:
    watch(before + read, whole)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)

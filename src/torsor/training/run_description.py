"""What ``run.json`` says of a run: enough to build it again, and to know its checkpoint."""

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, final

import torch

from torsor.advice import RUN_FILE, anew, no_run, train_command
from torsor.training.checkpoint import CheckpointDigest, file_names
from torsor.training.durable import DamagedFileError, RunFolderError, read_json

FORMAT = 1
RUNNING, FINISHED, STOPPED = "running", "finished", "stopped: "
DIGEST = "sha256"
# what a run is taken to have been trained by where ``resumed_with`` says nothing else
ALONE = {"processes": 1, "compiled": False}


class OtherRunError(RunFolderError):
    """A folder holds another run than the one that is wanted."""


@final
@dataclass(frozen=True)
class RunDescription:
    """The content of ``run.json``.

    Args:
        experiment: name of the experiment, ``paper/name``.
        arguments: every argument of it, as JSON holds them.
        seed: the seed of the run.
        versions: of torsor, torch, numpy and python, when the run began.
        threads: number of threads of PyTorch; another number may change the last bit.
        dtype: PyTorch's default type.
        resumed_with: versions, threads and type of each later process that had others; how many processes
            there were, and whether blocks were compiled, where that is not as in ``ALONE`` or changed.
        status: "running" (or killed), "finished", or "stopped: " and the reason.
        checkpoint: the one that counts; None before the first.
        about: what a reader wants to know and no code relies on: the row's label, the command. In the file
            it holds the SHA-256 of all the rest too, so that no byte of it changes unnoticed.
        format: version of the layout of the whole folder.
    """

    experiment: str
    arguments: dict[str, Any]
    seed: int
    versions: dict[str, str]
    threads: int
    dtype: str
    resumed_with: list[dict[str, Any]] = field(default_factory=list)
    status: str = RUNNING
    checkpoint: CheckpointDigest | None = None
    about: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def to_json(self) -> dict[str, Any]:
        """The fields, the format first."""
        content: dict[str, Any] = {"format": self.format, **asdict(self)}
        return {**content, "about": {**content["about"], DIGEST: _digest(content)}}

    @property
    def finished(self) -> bool:
        """Whether the run reached its end and was evaluated."""
        return self.status == FINISHED

    def anew(self, folder: Path) -> str:
        """What to do where a file that nothing else holds is damaged, to be put behind a message."""
        return anew(folder, self.command(folder))

    def command(self, folder: Path) -> str:
        """The command that trains this run in that folder, wherever it lay before; nothing where none is known.

        Args:
            folder: in which it lies now.
        """
        stored = self.about.get("command")
        return train_command(stored if isinstance(stored, str) else "", self.experiment, self.arguments, folder)

    def check_same_run(self, folder: Path, experiment: str, arguments: Mapping[str, Any], seed: int) -> None:
        """Refuse to go on with another run's folder.

        Args:
            folder: the run folder, for the message.
            experiment: name of the experiment that wants to go on.
            arguments: its arguments, as JSON gives them back.
            seed: its seed.

        Raises:
            OtherRunError: naming every argument that differs, with both values.
        """
        if experiment != self.experiment:
            raise OtherRunError(
                f"{folder} holds the experiment {self.experiment}, not {experiment}: choose another folder with --out"
            )
        held, wanted = self.arguments | {"seed": self.seed}, dict(arguments) | {"seed": seed}
        differences = [
            f"{_named(name)}={_shown(held, name)}, not {_shown(wanted, name)}"
            for name in held | wanted
            if _shown(held, name) != _shown(wanted, name)
        ]
        if differences:
            raise OtherRunError(
                f"{folder} holds a run with {'; '.join(differences)}: "
                "choose another folder with --out, or the same arguments"
            )


def read_run(folder: Path) -> RunDescription:
    """Read ``run.json`` without taking the folder's lock: also of a run that goes on.

    Args:
        folder: a run folder.

    Raises:
        RunFolderError: when there is none, or a newer torsor wrote it, or it was altered.
    """
    path = folder / RUN_FILE
    if not path.is_file():
        raise RunFolderError(no_run(folder))
    try:
        return _read(path)
    except DamagedFileError as error:
        raise RunFolderError(f"{error}; {anew(folder)}") from error


def _read(path: Path) -> RunDescription:
    content = read_json(path)
    if not isinstance(content, dict) or not isinstance(content.get("format"), int):
        raise DamagedFileError(f"{path} must hold an integer under 'format', it does not")
    if content["format"] < 1:
        raise DamagedFileError(f"{path} was altered: 'format' must be at least 1, got {content['format']}")
    if content["format"] > FORMAT:
        raise RunFolderError(
            f"{path.parent} was written by a newer torsor: format {content['format']}, this one reads up to {FORMAT}; "
            "use that one, or choose another folder"
        )
    _refuse_other_names(path, content, {field.name for field in fields(RunDescription)})
    kinds = {"experiment": str, "arguments": dict, "seed": int, "versions": dict, "status": str, "about": dict}
    kinds |= {"threads": int, "dtype": str, "resumed_with": list}
    for name, kind in kinds.items():
        if not isinstance(content.get(name, kind()), kind):
            raise DamagedFileError(f"{path} was altered: {name!r} must hold {kind.__name__}, got {content[name]!r}")
    digest = content["checkpoint"]
    if digest is not None:
        _refuse_other_names(path, digest, {field.name for field in fields(CheckpointDigest)})
        _refuse_other_names(path, digest["files"], file_names(digest["files"]))
    # Folders of before there was one have none.
    expected = content["about"].pop(DIGEST, None)
    if expected is not None and expected != (found := _digest(content)):
        raise DamagedFileError(f"{path} was altered: its SHA-256 must be {expected}, found {found}")
    if digest is not None:
        content["checkpoint"] = CheckpointDigest(**digest)
    return RunDescription(**content)


def describe_environment() -> dict[str, Any]:
    """Versions, number of threads and default type of this process: what may change the last bit of a result."""
    return {
        "versions": {
            "torsor": _version("torsor"),
            "torch": torch.__version__,
            "numpy": _version("numpy"),
            "python": platform.python_version(),
        },
        "threads": torch.get_num_threads(),
        "dtype": str(torch.get_default_dtype()).removeprefix("torch."),
    }


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as JSON gives them back, so that a tuple equals the list that was stored for it.

    Args:
        arguments: by name.

    Raises:
        RunFolderError: naming the argument that JSON cannot hold.
    """
    result = {}
    for name, value in arguments.items():
        try:
            result[name] = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise RunFolderError(f"argument {name} must be something JSON can hold, got {value!r}") from error
    return result


def _digest(content: Mapping[str, Any]) -> str:
    """Of what ``run.json`` says, whatever the order and the spaces."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _refuse_other_names(path: Path, content: Any, names: set[str]) -> None:
    if not isinstance(content, dict) or content.keys() != names:
        found = content.keys() if isinstance(content, dict) else set()
        raise DamagedFileError(
            f"{path} was altered: missing or unexpected {', '.join(map(_named, sorted(names ^ found)))}"
        )


@cache
def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _named(name: str) -> str:
    """A name as it is, where it stays on its line."""
    return name if name.isprintable() else repr(name)


def _shown(arguments: Mapping[str, Any], name: str) -> str:
    return json.dumps(arguments[name]) if name in arguments else "unset"

"""The weights of a run, for whoever only reads them."""

from pathlib import Path

from torch import nn

from torsor.training.checkpoint import CheckpointDigest, Watch, locate, log_lengths, read_weights
from torsor.training.durable import DamagedFileError, RunFolderError
from torsor.training.engine import Engine, SingleProcess
from torsor.training.run_description import read_run


def load_weights(
    folder: Path, model: nn.Module, engine: Engine | None = None, watch: Watch | None = None
) -> CheckpointDigest:
    """Load the weights of a run into ``model`` without taking the folder's lock: also of a run that goes on.

    Args:
        folder: a run folder.
        model: built with the run's arguments.
        engine: reads the tensors; a single process by default.
        watch: is told how many bytes of the checkpoint have been read and found right, and how many there are.

    Raises:
        RunFolderError: when there is no checkpoint, or its files do not have the content that they must.
    """
    described = read_run(folder)
    if described.checkpoint is None:
        raise RunFolderError(f"{folder} has no checkpoint yet")
    try:
        read_weights(locate(folder, described.checkpoint, watch), model, engine or SingleProcess())
    except (RunFolderError, FileNotFoundError) as error:
        if read_run(folder).checkpoint == described.checkpoint:
            if isinstance(error, DamagedFileError):
                raise RunFolderError(f"{error}; {described.anew(folder)}") from error
            raise
        return load_weights(folder, model, engine, watch)  # the run went on and replaced its checkpoint meanwhile
    return described.checkpoint


def short_log(folder: Path, name: str) -> str:
    """What is wrong with a log that holds less than it did when the checkpoint was written; nothing where it is whole.

    Args:
        folder: a run folder, its checkpoint sound.
        name: of the log.
    """
    described, path = read_run(folder), folder / name
    if described.checkpoint is None:
        return ""
    wanted = log_lengths(locate(folder, described.checkpoint))[name]
    if not path.is_file():
        return f"{name} is missing: the checkpoint was written after {wanted} bytes of it"
    found = path.stat().st_size
    return f"{name} is shorter than it was: the checkpoint was written after {wanted} bytes, found {found}" * (
        found < wanted
    )

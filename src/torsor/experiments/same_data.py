"""What a run was trained on, kept in its folder: it goes on with the same data or not at all."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torsor.training import RunFolder
from torsor.training.durable import DamagedFileError, RunFolderError, read_json
from torsor.training.run_description import as_json

DATA = "data.json"


def keep_data(folder: RunFolder, data: Mapping[str, Any]) -> None:
    """Write down what a new run is trained on; refuse to go on with other data.

    Args:
        folder: of the run, opened.
        data: hashes of what is read from files; nothing where all of it is made from the seed.

    Raises:
        RunFolderError: naming what differs, with both values.
    """
    require_data(folder.path, data)
    if data and not folder.description.finished and not (folder.path / DATA).exists():
        folder.replace_json(DATA, as_json(data))


def require_data(path: Path, data: Mapping[str, Any]) -> None:
    """Refuse other data than a run was trained on; a run that says nothing of its data takes any.

    Args:
        path: a run folder.
        data: hashes of what is read from files now.

    Raises:
        RunFolderError: naming what differs, with both values.
    """
    if not (path / DATA).is_file():
        return
    held, wanted = _held(path), as_json(data)
    differences = [
        f"{name}={held.get(name)}, not {wanted.get(name)}"
        for name in held | wanted
        if held.get(name) != wanted.get(name)
    ]
    if differences:
        raise RunFolderError(f"{path} holds a run on data with {'; '.join(differences)}: bring the same data back")


def data_of(path: Path) -> dict[str, Any] | str:
    """What a run's numbers rest on, for the record: the hashes of its data, or that there are none."""
    return _held(path) if (path / DATA).is_file() else "made from the seed, or not recorded"


def _held(path: Path) -> dict[str, Any]:
    """What the folder says of the run's data."""
    try:
        held = read_json(path / DATA)
        if not isinstance(held, dict):
            raise DamagedFileError(f"{path / DATA} was altered: it must hold an object")
    except DamagedFileError as error:
        how = "put a copy of it back, or delete it and make sure yourself that the data are the same"
        raise RunFolderError(f"{error}; {how}") from error
    return held

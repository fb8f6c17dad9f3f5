"""Bring a data set here: from its public addresses or from a user's own copy, checked before it has its name."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from torsor.text.datasets import DataFile, DataSet, find_dataset
from torsor.text.storage import DataError, data_folder, disk_errors, path_of, require_equal, require_right
from torsor.text.writing import write_whole

OFFLINE = ("TORSOR_OFFLINE", "HF_HUB_OFFLINE")
_SECONDS = 30  # without a byte
_CHUNK = 2**16

Watch = Callable[[int, int], object]


def _nobody(_done: int, _of: int) -> None: ...


def fetch(name: str, from_path: Path | None = None, offline: bool = False, watch: Watch = _nobody) -> tuple[Path, ...]:
    """Put the files of a data set into the folder of all data.

    Files that are there and right stay as they are. A file is written beside its place, and gets its
    name only when its size and SHA-256 are right and it is on the disk: whatever happens, and however
    many processes fetch at once, what lies under the name is whole.

    Args:
        name: a name that ``torsor data list`` prints.
        from_path: a user's own copy: the file, or a folder that holds the files.
        offline: touch no network; so does ``TORSOR_OFFLINE=1`` or ``HF_HUB_OFFLINE=1`` in the environment.
        watch: is told, as bytes come from the network, how many there are of all that the data set has.

    Returns:
        The files, in the order of the data set.

    Raises:
        ValueError: when there is no such data set, its files cannot be had, or what was had is not right.
    """
    dataset = find_dataset(name)
    whole, before = sum(file.bytes for file in dataset.files), 0
    for file in dataset.files:
        start, before = before, before + file.bytes
        target = data_folder() / file.path
        with disk_errors(f"read {target}"):
            if target.exists():  # never replaced: it may be a user's own
                require_right(target, file, "; remove it first")
                continue
        if from_path is None:
            content = _download(dataset, file, offline, lambda got, start=start: watch(start + got, whole))
        else:
            content = _own(dataset, file, from_path)
        write_whole(target, content)
    return path_of(name)


def _own(dataset: DataSet, file: DataFile, given: Path) -> bytes:
    with disk_errors(f"read {given}"):
        if given.is_dir():
            places = (given / file.path, given / Path(file.path).name)
        elif len(dataset.files) > 1:
            names = ", ".join(Path(each.path).name for each in dataset.files)
            raise DataError(f"{given} must be a folder that holds {names}")
        else:
            places = (given,)
        for place in places:
            if place.is_file():
                require_right(place, file)
                content = place.read_bytes()
                require_equal(str(place), len(content), hashlib.sha256(content).hexdigest(), file)
                return content
    raise DataError(f"there is no file {' or '.join(map(str, places))}")


def _download(dataset: DataSet, file: DataFile, offline: bool, watch: Callable[[int], object]) -> bytes:
    own = f"with your own copy: torsor data fetch {dataset.name} --from PATH"
    forbidding = "--offline" if offline else next((each for each in OFFLINE if is_set(each)), None)
    if forbidding:
        raise DataError(f"{data_folder() / file.path} is missing and {forbidding} forbids the network; {own}")
    reasons = []
    for url in file.urls:
        try:
            return _read(url, file, watch)
        except DataError as error:
            reasons.append(str(error))
    raise DataError(f"cannot fetch {dataset.name}: {'; '.join(reasons)}; {own}")


def _read(url: str, file: DataFile, watch: Callable[[int], object]) -> bytes:
    # Late, for it reads certificates and proxies; a few files of a few MB need no more than this.
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_SECONDS) as response:
            # a redirection must not lead to where anybody on the way can answer
            if url.startswith("https://") and not response.geturl().startswith("https://"):
                raise DataError(f"{url} leads to {response.geturl()}, which is not https")
            content = bytearray()
            watch(0)
            # a byte more than there should be is enough to know that this is another file
            while len(content) <= file.bytes and (more := response.read(min(_CHUNK, file.bytes + 1 - len(content)))):
                content += more
                watch(len(content))
    except (OSError, HTTPException) as error:
        raise DataError(f"{url}: {' '.join(str(error).split()) or type(error).__name__}") from error
    if len(content) > file.bytes:
        raise DataError(f"{url} must have {file.bytes} bytes, got more")
    require_equal(url, len(content), hashlib.sha256(content).hexdigest(), file)
    return bytes(content)


def is_set(variable: str) -> bool:
    """Whether a variable of the environment says yes: 1, on, true or yes."""
    return os.environ.get(variable, "").lower() in {"1", "on", "true", "yes"}

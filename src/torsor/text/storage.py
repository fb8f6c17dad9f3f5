"""Where data sets lie on this machine; nothing is handed out before its checksum is right."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torsor.text.datasets import DataFile, find_dataset


class DataError(ValueError):
    """A data set cannot be used or fetched: one line says why, and what to do."""


class MissingDataError(DataError):
    """A file of a data set is not there; the line says which command fetches it."""


def data_folder() -> Path:
    """The folder of all data sets: ``TORSOR_DATA``, or ``torsor`` in the user's folder for data.

    The user's folder for data is ``XDG_DATA_HOME``, by default ``~/.local/share``.
    """
    if chosen := os.environ.get("TORSOR_DATA"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "torsor"


def path_of(name: str) -> tuple[Path, ...]:
    """The files of a data set, in its order, each with the size and the SHA-256 that it must have.

    Both are checked at every call.

    Args:
        name: a name that ``torsor data list`` prints.

    Raises:
        ValueError: when there is no such data set, or a file is missing or not the right one.
    """
    dataset = find_dataset(name)
    paths = []
    for file in dataset.files:
        path = data_folder() / file.path
        with disk_errors(f"read {path}"):
            if not path.is_file():
                raise MissingDataError(f"{path} is missing; run: torsor data fetch {name} (with your own: --from PATH)")
            require_right(path, file, f"; remove it and run: torsor data fetch {name}")
        paths.append(path)
    return tuple(paths)


def texts_of(name: str) -> tuple[str, ...]:
    """The files of a data set as texts, in its order.

    Args:
        name: a name that ``torsor data list`` prints.

    Raises:
        ValueError: when there is no such data set, or a file is missing or not the right one.
    """
    return tuple(read_text(path) for path in path_of(name))


def read_text(path: Path) -> str:
    r"""The characters of a UTF-8 file as they stand: no line end is translated.

    Raises:
        ValueError: when the file cannot be read or is not UTF-8.
    """
    with disk_errors(f"read {path}"):
        content = path.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be UTF-8, got byte 0x{content[error.start]:02x} at {error.start}") from error


def require_right(path: Path, file: DataFile, then: str = "") -> None:
    """Refuse a file that has not the size and the SHA-256 it must have.

    Args:
        path: what is looked at.
        file: what it must be.
        then: what the line says to do, after both checksums.

    Raises:
        ValueError: with both sizes and both checksums.
    """
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
        size = opened.tell()
    require_equal(str(path), size, found, file, then)


def require_equal(what: str, size: int, sha256: str, file: DataFile, then: str = "") -> None:
    """Refuse a size and a SHA-256 that are not the file's, with both of both."""
    if (size, sha256) != (file.bytes, file.sha256):
        raise DataError(f"{what} must have {file.bytes} bytes and sha256 {file.sha256}, got {size} and {sha256}{then}")


@contextmanager
def disk_errors(action: str) -> Iterator[None]:
    """Turn what the operating system refuses into one line that begins "cannot ``action``".

    Raises:
        ValueError: in place of any ``OSError`` inside.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"cannot {action}: {error.strerror or error}") from error

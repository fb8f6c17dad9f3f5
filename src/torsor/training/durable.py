"""Write files so that a crash at any instant leaves the old content or the new, whole."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

AT_ONCE = 2**24  # bytes of a file that is read for whoever watches


class RunFolderError(ValueError):
    """A file or folder of a run is not what it must be: one line says which, and what would be right."""


class DamagedFileError(RunFolderError):
    """A file does not hold what was written to it."""


def replace_json(path: Path, value: Any) -> None:
    """Put ``value`` in the file's place, as JSON, by writing beside it and renaming.

    Args:
        path: the file, in a folder that exists; ``NAME.tmp`` beside it is overwritten.
        value: anything JSON holds, without infinities and NaN.
    """
    temporary = path.with_name(path.name + ".tmp")
    write_json(temporary, value)
    temporary.replace(path)
    sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON and wait until it is on the disk; floats keep their last bit.

    Args:
        path: the file, overwritten where it stands: a crash can leave a part of it.
        value: anything JSON holds, without infinities and NaN.
    """
    with path.open("wb") as file:
        file.write(json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        RunFolderError: when the file cannot be read; ``DamagedFileError`` when it is not JSON.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error
    if not content.strip():
        raise DamagedFileError(f"{path} is empty")
    try:
        return json.loads(content)
    except RecursionError as error:
        raise DamagedFileError(f"{path} is not JSON of this package: its brackets are too deep") from error
    except ValueError as error:
        raise DamagedFileError(f"{path} is not JSON: {error}") from error


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file that holds one a line.

    Raises:
        RunFolderError: when the file cannot be read; ``DamagedFileError`` when a line is no JSON object.
    """
    with disk_errors(f"read {path}"):
        lines = path.read_bytes().splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise DamagedFileError(f"{path} was altered: line {number} is not JSON") from error
        if not isinstance(found[-1], dict):
            raise DamagedFileError(f"{path} was altered: line {number} is no JSON object")
    return found


def sync_file(path: Path) -> None:
    """Wait until the file's content is on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Wait until the folder's entries, and so the renames in it, are on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sha256(path: Path, watch: Callable[[int], object] | None = None) -> str:
    """The SHA-256 of a file's content, in hexadecimal.

    Args:
        path: of the file.
        watch: is told how many bytes have been read, from time to time.
    """
    with path.open("rb") as file:
        if watch is None:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256()
        while piece := file.read(AT_ONCE):
            digest.update(piece)
            watch(file.tell())
        return digest.hexdigest()


@contextmanager
def disk_errors(action: str) -> Iterator[None]:
    """Turn what the operating system refuses into one line that begins "cannot ``action``".

    Raises:
        RunFolderError: in place of any ``OSError`` inside.
    """
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"cannot {action}: {error.strerror or error}") from error


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

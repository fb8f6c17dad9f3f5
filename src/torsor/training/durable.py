"""Write files so that a crash at any instant leaves the old content or the new, whole."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class RunFolderError(ValueError):
    """A file or folder of a run is not what it must be: one line says which, and what would be right."""


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
        RunFolderError: when the file cannot be read or is not JSON.
    """
    try:
        content = path.read_bytes()
        if not content.strip():
            raise RunFolderError(f"{path} is empty")
        return json.loads(content)
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise RunFolderError(f"{path} is not JSON of this package: its brackets are too deep") from error
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON: {error}") from error


def sync_file(path: Path) -> None:
    """Wait until the file's content is on the disk."""
    _sync(path, os.O_RDONLY)


def sync_folder(path: Path) -> None:
    """Wait until the folder's entries, and so the renames in it, are on the disk."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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

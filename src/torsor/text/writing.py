"""Write a file so that its name always means a whole content, and hold a folder while writing in it."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torsor.text.storage import DataError, disk_errors


def write_whole(path: Path, content: bytes) -> None:
    """Put ``content`` in the file's place: a crash at any instant leaves the old content or the new, whole.

    Args:
        path: the file; its folder is made where it is missing.
        content: all that it will hold.

    Raises:
        ValueError: when the operating system refuses, such as for a full disk.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")  # its own in each process
    with disk_errors(f"write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Put ``value``, as JSON, in the file's place, whole.

    Raises:
        ValueError: when the operating system refuses.
    """
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        ValueError: when it cannot be read or is no JSON.
    """
    with disk_errors(f"read {path}"):
        content = path.read_bytes()
    try:
        return json.loads(content.decode())
    except RecursionError as error:
        raise DataError(f"{path} is not JSON of this package: its brackets are too deep") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error


def remove_leftovers(folder: Path) -> None:
    """Remove what writers that were killed left half-written in a folder."""
    for each in folder.glob(".*.part"):
        each.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries, and so the renames in it, are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Be the one process that writes in a folder that exists; a killed process holds it no more.

    Raises:
        ValueError: when another process holds it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(f"{folder} is being written by another process: wait for it or stop it") from error
        yield
    finally:
        os.close(descriptor)

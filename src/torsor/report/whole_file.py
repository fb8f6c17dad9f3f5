"""A file that is there as a whole or not at all."""

import os
from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Put a file in its place; what was there stays until the new one is whole, and two writers have a file each.

    Args:
        path: of the file; its folder is made where it is missing.
        content: of it.

    Raises:
        ValueError: when the operating system refuses.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror}") from error

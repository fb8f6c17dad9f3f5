"""What a bench has found, in a file that is there as a whole or not at all."""

import errno
import math
import os
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from torsor.training.durable import disk_errors, replace_json


def plain(content: Any) -> Any:
    """The same with words in the place of numbers that JSON does not have."""
    if isinstance(content, dict):
        return {str(key): plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [plain(each) for each in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content


def require_place(path: Path) -> None:
    """See that a file can be put there, before anything is measured for it.

    Raises:
        ValueError: when it cannot.
    """
    with disk_errors(f"write {path}"):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with TemporaryFile(dir=path.parent):
            pass


def write_content(path: Path, content: dict[str, Any]) -> None:
    """Put the content in the file's place as JSON.

    Args:
        path: the file, in a folder that exists.
        content: dictionaries, lists, words and numbers.

    Raises:
        ValueError: when the file cannot be written.
    """
    with disk_errors(f"write {path}"):
        replace_json(path, plain(content))


def write_text(path: Path, text: str) -> None:
    """Write lines to a file.

    Raises:
        ValueError: when the file cannot be written.
    """
    with disk_errors(f"write {path}"):
        path.write_text(text + "\n", encoding="utf-8")

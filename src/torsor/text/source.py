"""The abstract source: documents, one after the other."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from torsor.text.storage import DataError, disk_errors


class Source(ABC):
    """Documents in a fixed order.

    Guarantees, each a test in ``tests/test_text.py`` over every source:

    * two sources with the same description give the same documents;
    * ``documents(start)`` are those of ``documents()`` without the first ``start``.

    To add one: a final class with the two members below, and one line in ``tests/test_text.py``.
    """

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """Where the documents come from, as JSON holds it, with the checksums that fix them.

        Raises:
            ValueError: when the source cannot be read.
        """

    @abstractmethod
    def documents(self, start: int = 0) -> Iterator[str]:
        """The documents from number ``start`` on, counted from 0.

        Args:
            start: how many to pass over, at least 0.

        Raises:
            ValueError: when the source cannot be read or holds what is no document.
        """


def find_files(path: Path, suffixes: Sequence[str]) -> tuple[Path, ...]:
    """The file itself, or the files with one of these suffixes anywhere in a folder, sorted by their paths.

    Raises:
        ValueError: when there is none.
    """
    with disk_errors(f"read {path}"):
        if path.is_file():
            return (path,)
        if not path.exists():
            raise DataError(f"there is no file or folder {path}")
        found = sorted(each for each in path.rglob("*") if each.suffix in suffixes and each.is_file())
    if not found:
        raise DataError(f"{path} must hold files that end in {' or '.join(suffixes)}, got none")
    return tuple(found)


def describe_files(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The name, the size and the SHA-256 of each file: where they lie does not matter.

    Raises:
        ValueError: when one cannot be read.
    """
    described = []
    for path in paths:
        with disk_errors(f"read {path}"), path.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            described.append({"name": path.name, "bytes": opened.tell(), "sha256": digest})
    return described

"""Documents from plain text files."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

from torsor.text.source import Source, describe_files, find_files
from torsor.text.storage import DataError, disk_errors, read_text

SUFFIXES = (".txt", ".text", ".md")
_CHUNK = 2**20


@final
@dataclass(frozen=True)
class TextFiles(Source):
    r"""Each UTF-8 file is one document, or is cut into several at a separator; no character is changed.

    Args:
        path: a file, or a folder of files that end in .txt, .text or .md.
        separator: what stands between two documents of a file and belongs to neither, such as
            ``"<|endoftext|>"`` or "\n\n\n"; by default a file is one document. With a separator no file
            need fit in memory.

    Raises:
        ValueError: when the separator is empty.
    """

    path: Path
    separator: str | None = None

    def __post_init__(self) -> None:
        if self.separator is not None and not self.separator:
            raise ValueError("separator must have at least one character, got none")

    def description(self) -> dict[str, Any]:
        files = describe_files(find_files(self.path, SUFFIXES))
        return {"kind": "text files", "separator": self.separator, "files": files}

    def documents(self, start: int = 0) -> Iterator[str]:
        return islice(self._documents(), start, None)

    def _documents(self) -> Iterator[str]:
        for path in find_files(self.path, SUFFIXES):
            if self.separator is None:
                yield read_text(path)
            else:
                yield from _cut(path, self.separator)


def _cut(path: Path, separator: str) -> Iterator[str]:
    left = ""
    for piece in _pieces(path):
        *whole, left = (left + piece).split(separator)
        yield from whole
    yield left


def _pieces(path: Path) -> Iterator[str]:
    decoder, read = codecs.getincrementaldecoder("utf-8")(), 0
    with disk_errors(f"read {path}"), path.open("rb") as opened:
        while True:
            content = opened.read(_CHUNK)
            held = len(decoder.getstate()[0])  # the beginning of a character, from the chunk before
            try:
                yield decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                byte, where = error.object[error.start], read - held + error.start
                raise DataError(f"{path} must be UTF-8, got byte 0x{byte:02x} at {where}") from error
            if not content:
                return
            read += len(content)

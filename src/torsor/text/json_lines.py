"""Documents from files of one JSON object a line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torsor.text.source import Source, describe_files, find_files
from torsor.text.storage import DataError, disk_errors

SUFFIXES = (".jsonl", ".ndjson")


@final
@dataclass(frozen=True)
class JsonLines(Source):
    """One document a line: a field of the line's JSON object. Lines without any character are passed over.

    Args:
        path: a file, or a folder of files that end in .jsonl or .ndjson.
        field: the name of the field that holds the text.
    """

    path: Path
    field: str = "text"

    def description(self) -> dict[str, Any]:
        files = describe_files(find_files(self.path, SUFFIXES))
        return {"kind": "JSON lines", "field": self.field, "files": files}

    def documents(self, start: int = 0) -> Iterator[str]:
        number = 0
        for path in find_files(self.path, SUFFIXES):
            with disk_errors(f"read {path}"), path.open("rb") as opened:
                for line, content in enumerate(opened, start=1):
                    if content.isspace():
                        continue
                    if number >= start:  # what is passed over was read before
                        yield self._document(content, f"line {line} of {path}")
                    number += 1

    def _document(self, content: bytes, what: str) -> str:
        try:
            found = json.loads(content.decode())
        except UnicodeDecodeError as error:
            raise DataError(f"{what} must be UTF-8, got byte 0x{content[error.start]:02x} at {error.start}") from error
        except RecursionError as error:
            raise DataError(f"{what} is no document: its brackets are too deep") from error
        except ValueError as error:
            raise DataError(f"{what} is not JSON: {error}") from error
        if not isinstance(found, dict) or self.field not in found:
            fields = ", ".join(map(repr, found)) if isinstance(found, dict) else "no fields at all"
            raise DataError(f"{what} has no field {self.field!r}; it has {fields}")
        text = found[self.field]
        if not isinstance(text, str):
            raise DataError(f"the field {self.field!r} of {what} must be a text, got {json.dumps(text):.40}")
        return text

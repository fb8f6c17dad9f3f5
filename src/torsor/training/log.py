"""A file of JSON lines that can be cut back to where a checkpoint stood."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from torsor.training.durable import DamagedFileError


@final
class Log:
    """Lines of JSON, each written at once; opening it forgets all after ``length`` bytes.

    Args:
        path: the file, made at ``open`` where it is missing.
        length: bytes that belong to the checkpoint; the rest, a partial line too, is cut at ``open``.

    Raises:
        DamagedFileError: when the file is shorter than ``length``.
    """

    def __init__(self, path: Path, length: int) -> None:
        found = path.stat().st_size if path.exists() else 0
        if found < length:
            raise DamagedFileError(
                f"{path} was truncated: the checkpoint was written after {length} bytes, found {found}"
            )
        self.path = path
        self._saved = self._length = length
        self._descriptor = -1

    def open(self) -> None:
        """Cut the file and make it ready for more lines."""
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        os.ftruncate(self._descriptor, self._length)

    @property
    def unsaved(self) -> bool:
        """Whether lines were added since the last ``sync``."""
        return self._length > self._saved

    def append(self, line: Mapping[str, Any]) -> None:
        """Add one line, whole as far as other processes can see, without waiting for the disk.

        Args:
            line: anything JSON holds, without infinities and NaN.
        """
        data = json.dumps(line, allow_nan=False).encode() + b"\n"
        written = os.write(self._descriptor, data)
        self._length += written
        if written < len(data):
            raise OSError(f"{self.path.name}: only {written} of {len(data)} bytes were written")

    def sync(self) -> int:
        """Wait until all lines are on the disk; return the file's length in bytes."""
        os.fsync(self._descriptor)
        self._saved = self._length
        return self._length

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

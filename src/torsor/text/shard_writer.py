"""Write a stream of tokens to files, so that a writer that was killed can go on."""

import hashlib
import os
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Integer

from torsor.text.storage import DataError, disk_errors
from torsor.text.token_shards import WIDTHS, Shard, TokenShards

_CHUNK = 2**20


@final
class ShardWriter:
    """The files of one part; a document never crosses the border of two.

    What ``state`` gave after ``sync`` is enough to go on: a writer made with it cuts off whatever was
    written later and continues.

    Args:
        folder: where the files lie.
        part: the beginning of their names, "training".
        width: "uint16" or "uint32".
        capacity: tokens after which a file takes no further document.
        state: of an earlier writer; None to begin.

    Raises:
        ValueError: when a file is not as the state says, or the operating system refuses.
    """

    def __init__(self, folder: Path, part: str, width: str, capacity: int, state: dict[str, Any] | None = None) -> None:
        state = state or {"shards": [], "open": 0, "documents": 0, "bytes": 0}
        self._folder, self._part, self._width, self._capacity = folder, part, width, capacity
        self._done = [Shard(**each) for each in state["shards"]]
        self._tokens: int = state["open"]  # in the file that is open
        self.documents: int = state["documents"]
        self.bytes: int = state["bytes"]
        self._digest = hashlib.sha256()
        self._file: FileIO | None = self._reopened() if self._tokens else None

    @property
    def tokens(self) -> int:
        """How many were written, in all files."""
        return sum(shard.tokens for shard in self._done) + self._tokens

    def append(self, tokens: Integer[np.ndarray, "tokens"], size: int) -> int:
        """Add one document.

        Args:
            tokens: with the begin token before them.
            size: bytes of the document's UTF-8.

        Returns:
            How many bytes were written.

        Raises:
            ValueError: when the operating system refuses.
        """
        content = tokens.astype(WIDTHS[self._width]).tobytes()
        with disk_errors(f"write {self._path}"):
            if self._file is None:
                self._file, self._digest = self._path.open("wb", buffering=0), hashlib.sha256()
            written = 0
            while written < len(content):
                written += self._file.write(content[written:]) or 0
        self._digest.update(content)
        self._tokens += len(tokens)
        self.documents += 1
        self.bytes += size
        if self._tokens >= self._capacity:
            self._end_file()
        return len(content)

    def sync(self) -> None:
        """Wait until all that was written is on the disk.

        Raises:
            ValueError: when the operating system refuses.
        """
        if self._file is not None:
            with disk_errors(f"write {self._path}"):
                os.fsync(self._file.fileno())

    def state(self) -> dict[str, Any]:
        """How far the writer is, as JSON holds it."""
        return {
            "shards": [asdict(shard) for shard in self._done],
            "open": self._tokens,
            "documents": self.documents,
            "bytes": self.bytes,
        }

    def finish(self) -> TokenShards:
        """End the last file and give the whole stream.

        Raises:
            ValueError: when the operating system refuses.
        """
        if self._file is not None:
            self._end_file()
        return TokenShards(self._folder, tuple(self._done), self._width, self.documents, self.bytes)

    def close(self) -> None:
        """Let go of the file; what was not synced may be lost."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._part}-{len(self._done):05d}.bin"

    def _end_file(self) -> None:
        self.sync()
        path = self._path
        self._done.append(Shard(path.name, self._tokens, self._digest.hexdigest()))
        self._tokens = 0
        self.close()

    def _reopened(self) -> FileIO:
        size = self._tokens * WIDTHS[self._width].itemsize
        with disk_errors(f"go on with {self._path}"):
            opened = self._path.open("r+b", buffering=0)
            try:
                if os.fstat(opened.fileno()).st_size < size:
                    raise DataError(
                        f"{self._path} must have at least {size} bytes to go on: remove {self._folder} and begin again"
                    )
                opened.truncate(size)
                while content := opened.read(_CHUNK):
                    self._digest.update(content)
            except BaseException:
                opened.close()
                raise
        return opened

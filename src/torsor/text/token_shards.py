"""A stream of tokens that lies in files, read without being loaded."""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Integer

from torsor.text.storage import DataError, disk_errors

WIDTHS = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}


def width_for(vocabulary: int) -> str:
    """The narrowest of uint16 and uint32 that holds every token of a vocabulary."""
    return "uint16" if vocabulary <= 2**16 else "uint32"


@final
@dataclass(frozen=True)
class Shard:
    """One file of tokens, known by its content.

    Args:
        file: its name.
        tokens: how many it holds.
        sha256: of its content, in hexadecimal.
    """

    file: str
    tokens: int
    sha256: str


@final
@dataclass(frozen=True)
class TokenShards:
    """A stream of tokens in files, one after the other; no more of it is in memory than was asked for.

    The files are little-endian integers and nothing else. Their sizes are checked here, their
    checksums by ``verify``. ``len(shards)`` is the number of tokens.

    Args:
        folder: where the files lie.
        shards: the files in their order.
        width: "uint16" or "uint32".
        documents: how many documents the stream holds.
        bytes: of the documents' UTF-8.

    Raises:
        ValueError: when a file is missing or has not the size it must have.
    """

    folder: Path
    shards: tuple[Shard, ...]
    width: str
    documents: int
    bytes: int
    _ends: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for shard in self.shards:
            # an index that somebody else made must not have us read another of the user's files
            if Path(shard.file).name != shard.file or shard.file in {"", ".", ".."} or "\0" in shard.file:
                raise DataError(
                    f"a shard of {self.folder} must be the name of a file, without a folder, got {shard.file!r}"
                )
            path, expected = self.folder / shard.file, shard.tokens * WIDTHS[self.width].itemsize
            with disk_errors(f"read {path}"):
                if not path.is_file():
                    raise DataError(f"{path} is missing; prepare {self.folder} again")
                size = path.stat().st_size
            if size != expected:
                raise DataError(f"{path} must have {expected} bytes, got {size}; prepare {self.folder} again")
        object.__setattr__(self, "_ends", tuple(accumulate(shard.tokens for shard in self.shards)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, where: slice) -> Integer[np.ndarray, "tokens"]:
        """The tokens of a slice without a step, whichever files they lie in."""
        start, stop, step = where.indices(len(self))
        if step != 1:
            raise ValueError(f"a stream of tokens is read without a step, got {step}")
        parts = [
            mapped[max(0, start - end + len(mapped)) : stop - end + len(mapped)]
            for mapped, end in zip(self._mapped, self._ends, strict=True)
            if start < end and stop > end - len(mapped)
        ]
        return np.concatenate(parts) if parts else np.empty(0, WIDTHS[self.width])

    def __reduce__(self) -> tuple[Any, ...]:
        # the files stay where they are: another process maps them for itself
        return TokenShards, (self.folder, self.shards, self.width, self.documents, self.bytes)

    @property
    def sha256(self) -> str:
        """Over the checksums of the files, their order and the width of a token."""
        described = [self.width, *(f"{shard.tokens} {shard.sha256}" for shard in self.shards)]
        return hashlib.sha256("\n".join(described).encode()).hexdigest()

    def verify(self) -> None:
        """Read every file and compare its SHA-256.

        Raises:
            ValueError: when one differs, with both.
        """
        for shard in self.shards:
            path = self.folder / shard.file
            with disk_errors(f"read {path}"), path.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
            if found != shard.sha256:
                raise DataError(
                    f"{path} must have sha256 {shard.sha256}, got {found}: it was altered; prepare {self.folder} again"
                )

    def description(self) -> dict[str, Any]:
        """Counts and files, as the index holds them."""
        return {
            "tokens": len(self),
            "documents": self.documents,
            "bytes": self.bytes,
            "shards": [asdict(shard) for shard in self.shards],
        }

    @cached_property
    def _mapped(self) -> Sequence[np.ndarray]:
        with disk_errors(f"read {self.folder}"):
            return [np.memmap(self.folder / each.file, WIDTHS[self.width], "r") for each in self.shards]

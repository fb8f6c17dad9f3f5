"""A folder of prepared text: tokens of training and validation, their tokenizer, and an index of checksums."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torsor.text.loading import load_tokenizer
from torsor.text.storage import DataError
from torsor.text.token_shards import WIDTHS, Shard, TokenShards
from torsor.text.tokenizer import Tokenizer
from torsor.text.writing import read_json

INDEX, JOURNAL, TOKENIZER, FORMAT = "index.json", "preparing.json", "tokenizer.json", 1
DIGEST = "sha256"
_NAMES = {"format", "request", "tokenizer", "width", "parts", DIGEST}


@final
@dataclass(frozen=True)
class PreparedText:
    """What ``torsor data prepare`` made: open it with ``PreparedText.open``.

    Args:
        folder: where it lies.
        tokenizer: that made the tokens.
        parts: "training" and, where documents were held out, "validation".
        index: all that is known of it, as the file index.json holds it.
    """

    folder: Path
    tokenizer: Tokenizer
    parts: dict[str, TokenShards]
    index: dict[str, Any]

    @classmethod
    def open(cls, folder: Path, *, checksums: bool = True) -> "PreparedText":
        """Open a folder; nothing is handed out that is not what was prepared.

        Args:
            folder: that ``prepare`` filled.
            checksums: read every file once and compare its SHA-256, at the speed of the disk; without
                it files are known by their sizes, and the tokenizer by its SHA-256.

        Raises:
            ValueError: when the folder is not complete, or a file of it is missing, cut short or altered.
            ImportError: when the tokenizer is of byte pairs and the package tokenizers is missing.
        """
        if not (folder / INDEX).is_file():
            if (folder / JOURNAL).is_file():
                raise DataError(f"{folder} is not complete: the command that began to prepare it goes on")
            raise DataError(f"{folder} holds no prepared text; make it with: torsor data prepare")
        index = read_json(folder / INDEX)
        if not isinstance(index, dict) or index.get("format") != FORMAT:
            raise DataError(f"{folder / INDEX} must be an index of format {FORMAT}")
        try:
            width, expected = index["width"], str(index["tokenizer"]["sha256"])
            parts = {name: _part(folder, width, part) for name, part in index["parts"].items()}
            parts["training"]  # there is no text without one
            prepared = cls(folder, tokenizer := load_tokenizer(folder / TOKENIZER), parts, index)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{folder / INDEX} is no whole index: {error!r} was not expected") from error
        content = {name: value for name, value in index.items() if name != DIGEST}
        # folders of before there was a checksum have none
        if not index.keys() <= _NAMES or index.get(DIGEST) not in {None, digest_of(content)}:
            raise DataError(f"{folder / INDEX} was altered: prepare {folder} again")
        if tokenizer.sha256 != expected:
            raise DataError(f"{folder / TOKENIZER} must have sha256 {expected}, got {tokenizer.sha256}: it was altered")
        if checksums:
            prepared.verify()
        return prepared

    @property
    def training(self) -> TokenShards:
        """The stream to train on."""
        return self.parts["training"]

    @property
    def validation(self) -> TokenShards:
        """The stream of held-out documents.

        Raises:
            ValueError: when none were held out.
        """
        if "validation" not in self.parts:
            raise DataError(f"{self.folder} has no validation part; prepare one with --validation FRACTION")
        return self.parts["validation"]

    @property
    def sha256(self) -> dict[str, str]:
        """The SHA-256 of the tokenizer and of each part: to be recorded with every run."""
        return {"tokenizer": self.tokenizer.sha256, **{name: part.sha256 for name, part in self.parts.items()}}

    def verify(self) -> None:
        """Read every file and compare its SHA-256.

        Raises:
            ValueError: when one differs, with both.
        """
        for part in self.parts.values():
            part.verify()

    def require_tokenizer(self, sha256: str) -> None:
        """Refuse another tokenizer, such as that of a trained model, than made these tokens.

        Raises:
            ValueError: with both checksums.
        """
        if sha256 != self.tokenizer.sha256:
            raise DataError(f"the tokenizer of {self.folder} must have sha256 {sha256}, got {self.tokenizer.sha256}")

    def require_vocabulary(self, vocabulary: int) -> None:
        """Refuse a model whose vocabulary does not hold every token.

        Args:
            vocabulary: the model's; it may be larger, for padding.

        Raises:
            ValueError: with both numbers.
        """
        if vocabulary < self.tokenizer.vocabulary:
            raise DataError(
                f"vocabulary must be at least the {self.tokenizer.vocabulary} tokens of {self.folder}, got {vocabulary}"
            )


def digest_of(index: dict[str, Any]) -> str:
    """The SHA-256 of what an index says besides this, whatever the order and the spaces."""
    return hashlib.sha256(json.dumps(index, sort_keys=True).encode()).hexdigest()


def _part(folder: Path, width: str, part: dict[str, Any]) -> TokenShards:
    if width not in WIDTHS:
        raise DataError(f"the width of a token must be {' or '.join(WIDTHS)}, got {width!r}")
    shards = tuple(Shard(**each) for each in part["shards"])
    return TokenShards(folder, shards, width, part["documents"], part["bytes"])

"""From documents to a folder of tokens, in a way that goes on where it was killed."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, final

import numpy as np

from torsor.text.journal import Journal, begin, finish
from torsor.text.loading import load_tokenizer
from torsor.text.prepared_text import TOKENIZER
from torsor.text.shard_writer import ShardWriter
from torsor.text.source import Source
from torsor.text.storage import DataError, disk_errors
from torsor.text.token_shards import width_for
from torsor.text.tokenizer import Tokenizer, require_whole_characters
from torsor.text.tokenizer_recipe import TokenizerRecipe
from torsor.text.writing import held

TRAINING, VALIDATION = "training", "validation"
SHARD_TOKENS = 2**26
SYNC_BYTES = 2**26  # of tokens that a crash may cost
_SOURCES = "the source", "the validation source"  # in the order in which they are read
CHUNK_CHARACTERS, CHUNK_DOCUMENTS = 2**20, 2**12  # that are encoded at once


@final
@dataclass(frozen=True)
class Progress:
    """How far preparing is, from its beginning, runs that were killed included.

    Args:
        documents: read so far, held-out and empty ones included.
        bytes: of their UTF-8, as far as they were written.
        tokens: written so far.
    """

    documents: int
    bytes: int
    tokens: int


@final
@dataclass(frozen=True)
class Preparation:
    """Text to tokens: documents in their order, a begin token before each, and nothing between or after.

    Guarantees, each a test in ``tests/laws/test_packing_laws.py`` or ``tests/test_preparing.py``:

    * every document's tokens stand in one of the streams, after a begin token, in the source's order,
      and nothing else does: no padding, and no boundary is lost;
    * two equal documents are never in different parts;
    * killed at any moment and begun again, it leaves the same bytes as one that was never killed;
    * what the operating system refuses is one line, and the same command goes on when it no longer does.

    Documents without a character are passed over.

    Args:
        source: of the documents to train on.
        tokenizer: or a recipe for one, which is then made from the training documents.
        validation: the share of documents to hold out, chosen by each document's SHA-256; 0 for none.
            Or a source of its own, of which every document is held out.
        documents: how many of the source to take at most, of each source if there are two.
        tokens: of training, after which no further document is taken.
        shard_tokens: after which a file takes no further document, at least 1.

    Raises:
        ValueError: when an argument is out of its range.
    """

    source: Source
    tokenizer: Tokenizer | TokenizerRecipe
    validation: float | Source = 0.0
    documents: int | None = None
    tokens: int | None = None
    shard_tokens: int = SHARD_TOKENS

    def __post_init__(self) -> None:
        if not isinstance(self.validation, Source) and not 0 <= self.validation < 1:
            raise ValueError(f"validation must be at least 0 and below 1, got {self.validation}")
        for name, value in (
            ("documents", self.documents),
            ("tokens", self.tokens),
            ("shard_tokens", self.shard_tokens),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def into(self, folder: Path) -> Iterator[Progress]:
        """Fill a folder, or go on with one that was begun; nothing is done where it is complete.

        Args:
            folder: new, empty, or begun by an equal preparation.

        Yields:
            How far it is, after every million characters or so.

        Raises:
            ValueError: when the folder holds something else, the source cannot be read, a document cannot be
                encoded, a part would be empty or the operating system refuses.
            ImportError: when a package is missing; the line says which.
        """
        with disk_errors(f"write {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        with held(folder):
            yield from self._fill(folder)

    def _fill(self, folder: Path) -> Iterator[Progress]:
        request = json.loads(json.dumps(self._request()))  # as it comes back from a file
        journal = begin(folder, request)
        if journal is None:
            return
        tokenizer = self._made_tokenizer(folder)
        width = width_for(tokenizer.vocabulary)
        writers = {
            part: ShardWriter(folder, part, width, self.shard_tokens, journal.parts.get(part))
            for part in (TRAINING, VALIDATION)
        }
        try:
            yield from self._write(folder, journal, tokenizer, writers)
            parts = {part: writer.finish() for part, writer in writers.items()}
        finally:
            for writer in writers.values():
                writer.close()
        if not parts[TRAINING].documents:
            raise DataError("the source must hold a document to train on, got none")
        if self.validation and not parts[VALIDATION].documents:
            raise DataError(f"no document was held out of {parts[TRAINING].documents}: validation must be larger")
        about = {
            "sha256": tokenizer.sha256,
            "vocabulary": tokenizer.vocabulary,
            "begin": tokenizer.begin,
            "special": list(tokenizer.special),
        }
        described = {part: shards.description() for part, shards in parts.items() if shards.documents}
        finish(folder, {"request": request, "tokenizer": about, "width": width, "parts": described})

    def _write(
        self, folder: Path, journal: Journal, tokenizer: Tokenizer, writers: Mapping[str, ShardWriter]
    ) -> Iterator[Progress]:
        """Read, encode and write what the journal does not count as done."""
        sources = self._sources()
        number, done, earlier, unsynced = journal.source, journal.documents, journal.earlier, 0
        while number < len(sources):
            for chunk in _chunks(islice(sources[number].documents(done), self._left(done))):
                taken, written = self._append(chunk, number, done, tokenizer, writers)
                done += taken
                unsynced += written
                if unsynced >= SYNC_BYTES:
                    journal.keep(folder, number, done, earlier, writers)
                    unsynced = 0
                yield Progress(
                    earlier + done,
                    sum(writer.bytes for writer in writers.values()),
                    sum(writer.tokens for writer in writers.values()),
                )
                if taken < len(chunk):  # there are as many tokens as were asked for
                    break
            number, done, earlier = number + 1, 0, earlier + done
            journal.keep(folder, number, done, earlier, writers)

    def _append(
        self, chunk: Sequence[str], number: int, done: int, tokenizer: Tokenizer, writers: Mapping[str, ShardWriter]
    ) -> tuple[int, int]:
        """Write documents to their parts; how many were taken, and the bytes that were written."""
        contents = [
            require_whole_characters(text, f"document {place} of {_SOURCES[number]}")
            for place, text in enumerate(chunk, done)
        ]
        written = 0
        encoded = self._encoded(chunk, number, done, tokenizer)
        for place, (content, tokens) in enumerate(zip(contents, encoded, strict=True)):
            if number == 0 and self.tokens is not None and writers[TRAINING].tokens >= self.tokens:
                return place, written
            if content:
                packed = np.array([tokenizer.begin, *tokens])
                written += writers[self._part(content, number)].append(packed, len(content))
        return len(chunk), written

    def _encoded(self, chunk: Sequence[str], number: int, done: int, tokenizer: Tokenizer) -> list[list[int]]:
        try:
            return tokenizer.encode_all(chunk)
        except ValueError:
            for place, text in enumerate(chunk, done):  # which one was it?
                try:
                    tokenizer.encode(text)
                except ValueError as error:
                    raise DataError(f"document {place} of {_SOURCES[number]} cannot be encoded: {error}") from error
            raise

    def _part(self, content: bytes, number: int) -> str:
        """Where a document goes: a number that its content fixes is uniform in 0 .. 2**64 - 1."""
        if number or not isinstance(self.validation, float):
            return VALIDATION if number else TRAINING
        drawn = int.from_bytes(hashlib.sha256(content).digest()[:8], "big")
        return VALIDATION if drawn < self.validation * 2**64 else TRAINING

    def _sources(self) -> tuple[Source, ...]:
        return (self.source, self.validation) if isinstance(self.validation, Source) else (self.source,)

    def _left(self, done: int) -> int | None:
        return None if self.documents is None else max(0, self.documents - done)

    def _made_tokenizer(self, folder: Path) -> Tokenizer:
        """The tokenizer, in the folder from now on; a recipe is followed once."""
        path = folder / TOKENIZER
        if path.exists():
            return load_tokenizer(path)
        made = self.tokenizer
        if isinstance(made, TokenizerRecipe):
            try:
                made = made.train(self._training_documents())
            except ValueError as error:
                raise DataError(f"no tokenizer can be made: {error}") from error
        made.save(path)
        return made

    def _training_documents(self) -> Iterator[str]:
        for place, text in enumerate(islice(self.source.documents(), self.documents)):
            content = require_whole_characters(text, f"document {place} of the source")
            if content and self._part(content, 0) == TRAINING:
                yield text

    def _request(self) -> dict[str, Any]:
        """All that fixes the bytes."""
        recipe, validation = self.tokenizer, self.validation
        return {
            "source": self.source.description(),
            "tokenizer": recipe.description() if isinstance(recipe, TokenizerRecipe) else {"sha256": recipe.sha256},
            "validation": validation.description() if isinstance(validation, Source) else validation,
            "documents": self.documents,
            "tokens": self.tokens,
            "shard_tokens": self.shard_tokens,
        }


def _chunks(documents: Iterable[str]) -> Iterator[list[str]]:
    chunk, characters = [], 0
    for document in documents:
        chunk.append(document)
        characters += len(document)
        if characters >= CHUNK_CHARACTERS or len(chunk) >= CHUNK_DOCUMENTS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk

"""The abstract tokenizer: a text as numbers, and back."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Int64

from torsor.text.writing import write_json


class Tokenizer(ABC):
    """A text as tokens ``0 .. vocabulary - 1``.

    Some tokens are special: they stand for no text. One of them begins a document. ``encode`` gives
    no special token, whatever the text: a text that spells one is encoded as the characters it is.

    Guarantees, each a test in ``tests/test_text.py`` over every tokenizer:

    * ``decode(encode(text))`` is the text;
    * tokens lie in ``0 .. vocabulary - 1``, and none of an encoded text is special;
    * the bytes of an encoded text's tokens sum to those of its UTF-8;
    * a saved tokenizer, loaded, has the same SHA-256 and encodes alike;
    * tokenizers that differ in a token or a rule have different SHA-256.

    To add one: a final class with the members below, one branch in ``loading.py`` and one line in
    ``tests/test_text.py``.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of different tokens, special ones included."""

    @property
    @abstractmethod
    def begin(self) -> int:
        """The special token before every document."""

    @property
    @abstractmethod
    def special(self) -> tuple[int, ...]:
        """The tokens that stand for no text, in increasing order; ``begin`` is one of them."""

    @property
    @abstractmethod
    def bytes_per_token(self) -> Int64[np.ndarray, "vocabulary"]:
        """How many bytes of UTF-8 each token stands for; 0 for a special one."""

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each of several texts, without a begin token: faster than one by one.

        Raises:
            ValueError: when a text cannot be encoded.
        """

    @abstractmethod
    def decode(self, tokens: Iterable[SupportsIndex]) -> str:
        """The text of tokens; special ones have none, and bytes that are no UTF-8 become U+FFFD.

        Raises:
            ValueError: when a token is not in the vocabulary.
        """

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """All that the tokenizer is, as JSON holds it: what ``save`` writes."""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, without a begin token.

        Raises:
            ValueError: when the text cannot be encoded.
        """
        return self.encode_all([text])[0]

    @cached_property
    def sha256(self) -> str:
        """Of the content: two tokenizers with the same one encode alike."""
        described = json.dumps(self.content(), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(described.encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write ``content`` as JSON; a crash leaves no part of it under the name.

        Raises:
            ValueError: when the operating system refuses.
        """
        write_json(path, self.content())


def require_whole_characters(text: str, what: str) -> bytes:
    """The UTF-8 of a text, refused where it holds half of a surrogate pair, which no UTF-8 can.

    Args:
        text: characters.
        what: the text's name in the message.

    Raises:
        ValueError: with the half and its position.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{what} must be of whole characters, got {text[error.start]!r} at position {error.start}"
        ) from error


def require_in_vocabulary(tokens: Iterable[SupportsIndex], vocabulary: int) -> list[int]:
    """The tokens as a list, refused where one lies outside the vocabulary.

    Raises:
        ValueError: with the token.
    """
    listed = [index(token) for token in tokens]
    for token in listed:
        if not 0 <= token < vocabulary:
            raise ValueError(f"tokens must be in 0 .. {vocabulary - 1}, got {token}")
    return listed

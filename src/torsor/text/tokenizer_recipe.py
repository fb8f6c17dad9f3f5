"""A tokenizer that is yet to be made from the documents."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any, final

from torsor.text.byte_pairs import BytePairs, tokenizers_package
from torsor.text.character_tokenizer import CharacterTokenizer
from torsor.text.interruptible import interruptible
from torsor.text.tokenizer import Tokenizer, require_whole_characters

SPECIAL = ("<|bos|>", "<|eos|>", "<|pad|>")  # 0 begins a document; 1 and 2 are there for other programs
_BYTES = 256
# The alternatives are tried in this order at every place of a text; together they match every character.
PIECES = (
    r"'(?i:s|t|m|d|re|ve|ll)",  # the second half of an English contraction
    r"[^\p{L}\p{M}\p{N}\r\n]?[\p{L}\p{M}]+",  # a word, with one blank or sign before it
    r"\p{N}{1,2}",  # at most two digits: no number is a token of its own accord
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",  # signs, with a blank before and line ends after
    r"\s*[\r\n]+",  # line ends, with blanks before
    r"\s+(?!\S)",  # blanks but the last before a word, which goes with the word
    r"\s+",
)


@final
class TooLittleTextError(ValueError):
    """Documents that do not give as many tokens as are asked for.

    Args:
        given: tokens that they give.
        entries: tokens that were asked for.
    """

    def __init__(self, given: int, entries: int) -> None:
        super().__init__(f"entries must be at most {given}, which is all that these documents give, got {entries}")
        self.given = given


class TokenizerRecipe(ABC):
    """How to make a tokenizer from documents; the same documents give the same tokenizer."""

    @abstractmethod
    def train(self, documents: Iterable[str]) -> Tokenizer:
        """The tokenizer of these documents.

        Raises:
            ValueError: when they do not suffice.
        """

    @abstractmethod
    def description(self) -> dict[str, Any]:
        """All that the recipe is, as JSON holds it."""


@final
@dataclass(frozen=True)
class BytePairRecipe(TokenizerRecipe):
    """Byte-pair encoding with 0 for the begin token, 1 and 2 for end and padding, then the 256 bytes.

    A text is cut into words, at most two digits, signs and blanks before pairs are merged, so that no
    token crosses these borders; letters keep the marks that stand on them.

    Args:
        entries: tokens in all, at least 259.
        characters: of the documents, how many to learn from at most.
        per_document: of one document, how many to learn from at most, so that no long one rules.

    Raises:
        ValueError: when an argument is out of its range.

    Example:
        >>> tokenizer = BytePairRecipe(entries=262).train(["to be or not to be"])
        >>> tokenizer.vocabulary, tokenizer.begin, tokenizer.decode(tokenizer.encode("or not"))
        (262, 0, 'or not')
    """

    entries: int = 32_768
    characters: int = 2_000_000_000
    per_document: int = 10_000

    def __post_init__(self) -> None:
        smallest = len(SPECIAL) + _BYTES
        if self.entries < smallest:
            raise ValueError(
                f"entries must be at least {smallest}, the bytes and {len(SPECIAL)} special tokens, got {self.entries}"
            )
        if self.characters < 1 or self.per_document < 1:
            raise ValueError(
                f"characters and per_document must be at least 1, got {self.characters} and {self.per_document}"
            )

    def train(self, documents: Iterable[str]) -> BytePairs:
        package = tokenizers_package()
        made = package.Tokenizer(package.models.BPE())
        made.pre_tokenizer = package.pre_tokenizers.Sequence(
            [
                package.pre_tokenizers.Split(package.Regex("|".join(PIECES)), "isolated"),
                package.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        made.decoder = package.decoders.ByteLevel()
        trainer = package.trainers.BpeTrainer(
            vocab_size=self.entries,
            special_tokens=list(SPECIAL),
            initial_alphabet=package.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        stop = Event()
        interruptible(lambda: made.train_from_iterator(_until(stop, self._beginnings(documents)), trainer), stop)
        if made.get_vocab_size() < self.entries:
            raise TooLittleTextError(made.get_vocab_size(), self.entries)
        return BytePairs(json.loads(made.to_str()))

    def description(self) -> dict[str, Any]:
        return {"kind": "byte pairs", "pieces": list(PIECES), **asdict(self)}

    def _beginnings(self, documents: Iterable[str]) -> Iterator[str]:
        left = self.characters
        for document in documents:
            beginning = document[: min(self.per_document, left)]
            require_whole_characters(beginning, "a document")
            yield beginning
            left -= len(beginning)
            if left <= 0:
                return


@final
@dataclass(frozen=True)
class CharacterRecipe(TokenizerRecipe):
    """One token for each character of the documents, sorted by code point, after the begin token."""

    def train(self, documents: Iterable[str]) -> CharacterTokenizer:
        symbols: set[str] = set()
        for document in documents:
            symbols.update(document)
        return CharacterTokenizer("".join(sorted(symbols)))

    def description(self) -> dict[str, Any]:
        return {"kind": "characters"}


def _until(stop: Event, texts: Iterator[str]) -> Iterator[str]:
    for text in texts:
        if stop.is_set():
            return
        yield text

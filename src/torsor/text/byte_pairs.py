"""Byte-pair encoding on bytes, carried out by the package tokenizers."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, SupportsIndex, final

import numpy as np
from jaxtyping import Int64

from torsor.text.storage import DataError
from torsor.text.tokenizer import Tokenizer, require_in_vocabulary, require_whole_characters

if TYPE_CHECKING:
    import tokenizers

MISSING = "byte-pair encoding needs the package tokenizers: pip install 'torsor[text]'"
_SPLITTING = {"ByteLevel", "Split", "Sequence"}  # what cuts a text and changes none of it


@final
@dataclass(frozen=True, eq=False)
class BytePairs(Tokenizer):
    """Byte-pair encoding of a text's UTF-8, such as GPT-2's.

    A text is cut into pieces by a pattern, and in each piece pairs of neighbours are merged, in the
    order of the merges, starting from single bytes: every text has tokens, and none is lost.

    Args:
        definition: the content of a ``tokenizer.json`` of the package tokenizers. It is kept as it
            is, and ``save`` writes it, so that other programs read it too. The special token with the
            smallest number begins a document: in GPT-2's file ``<|endoftext|>``, the only one.

    Raises:
        ValueError: when ``definition`` is no byte-level byte-pair encoding, changes the text before it
            encodes it, or has no special token.
        ImportError: when the package tokenizers is missing.
    """

    definition: dict[str, Any] = field(repr=False)
    _tokens: list[str] = field(init=False, repr=False)
    _special: tuple[int, ...] = field(init=False, repr=False)
    _encoder: "tokenizers.Tokenizer" = field(init=False, repr=False)

    def __post_init__(self) -> None:
        tokens, special = _tokens_of(self.definition)
        if not special:
            raise DataError("a tokenizer must have a special token to begin a document, got none")
        package = tokenizers_package()
        with _Understood():
            encoder = package.Tokenizer.from_str(json.dumps(self.definition))
        encoder.encode_special_tokens = True  # a document that spells one holds no boundary
        encoder.no_truncation()
        encoder.no_padding()
        object.__setattr__(self, "_tokens", tokens)
        object.__setattr__(self, "_special", special)
        object.__setattr__(self, "_encoder", encoder)

    @property
    def vocabulary(self) -> int:
        return len(self._tokens)

    @property
    def begin(self) -> int:
        return self._special[0]

    @property
    def special(self) -> tuple[int, ...]:
        return self._special

    @property
    def bytes_per_token(self) -> Int64[np.ndarray, "vocabulary"]:
        lengths = np.array([len(token) for token in self._tokens])  # each byte is written as one character of its own
        lengths[list(self._special)] = 0
        return lengths

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        for text in texts:
            require_whole_characters(text, "the text")
        return [each.ids for each in self._encoder.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, tokens: Iterable[SupportsIndex]) -> str:
        return self._encoder.decode(require_in_vocabulary(tokens, self.vocabulary), skip_special_tokens=True)

    def content(self) -> dict[str, Any]:
        return self.definition


@final
class _Understood:
    """Turn what the package tokenizers raises, which has no class of its own, into an error of one line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is Exception:
            raise DataError(f"the package tokenizers does not take it: {' '.join(str(error).split())}") from error


def tokenizers_package() -> ModuleType:
    """The package tokenizers, or what to install.

    Raises:
        ImportError: when it is missing.
    """
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError(MISSING) from error
    return tokenizers


def _tokens_of(definition: dict[str, Any]) -> tuple[list[str], tuple[int, ...]]:
    """All tokens in their order, and the special ones; refused where the package would fail or change a text."""
    model = definition.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or not isinstance(model.get("vocab"), dict):
        raise DataError("a tokenizer's model must be a byte-pair encoding with a vocabulary")
    kinds = {part: (definition.get(part) or {}).get("type") for part in ("normalizer", "pre_tokenizer", "decoder")}
    if kinds["normalizer"] or kinds["pre_tokenizer"] not in _SPLITTING or kinds["decoder"] != "ByteLevel":
        raise DataError(
            "a tokenizer must be byte-level and change no text before it encodes it, "
            f"got {', '.join(f'{part} {kind}' for part, kind in kinds.items())}"
        )
    pieces = definition["pre_tokenizer"].get("pretokenizers", [definition["pre_tokenizer"]])
    if pieces[-1].get("type") != "ByteLevel" or any(piece.get("add_prefix_space") for piece in pieces):
        raise DataError("a tokenizer must turn a text into its bytes and add no space before it")
    added = {each["content"]: each["id"] for each in definition.get("added_tokens", ())}
    special = {each["content"]: each["id"] for each in definition.get("added_tokens", ()) if each["special"]}
    if added != special:
        raise DataError(f"every added token of a tokenizer must be special, {min(added.keys() - special)!r} is not")
    numbered = {number: token for token, number in {**model["vocab"], **added}.items()}
    if set(numbered) != set(range(len(numbered))) or len(numbered) != len({**model["vocab"], **added}):
        raise DataError("a tokenizer's tokens must be numbered 0, 1, 2, ... without a gap")
    for merge in model.get("merges", ()):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        if not {left, right, left + right} <= model["vocab"].keys():
            raise DataError(f"a tokenizer's merges must be of tokens of its vocabulary, got {left!r} and {right!r}")
    return [numbered[number] for number in range(len(numbered))], tuple(sorted(special.values()))

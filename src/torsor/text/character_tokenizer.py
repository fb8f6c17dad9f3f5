"""One token for each character."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex, final

import numpy as np
from jaxtyping import Int64

from torsor.text.tokenizer import Tokenizer, require_in_vocabulary, require_whole_characters


@final
@dataclass(frozen=True)
class CharacterTokenizer(Tokenizer):
    """Token 0 begins a document; token ``k`` from 1 on is the character ``symbols[k - 1]``.

    Args:
        symbols: the characters, each once.

    Raises:
        ValueError: when there is none, one stands twice or one is half of a surrogate pair.

    Example:
        >>> tokenizer = CharacterTokenizer(" benort")
        >>> tokenizer.encode("to be"), tokenizer.decode([0, 7, 5])
        ([7, 5, 1, 2, 3], 'to')
    """

    symbols: str
    _token_of: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.symbols:
            raise ValueError("symbols must hold at least one character, got none")
        require_whole_characters(self.symbols, "symbols")
        token_of = {symbol: token for token, symbol in enumerate(self.symbols, start=1)}
        if len(token_of) < len(self.symbols):
            twice = next(symbol for symbol in self.symbols if self.symbols.count(symbol) > 1)
            raise ValueError(f"symbols must hold each character once, got {twice!r} {self.symbols.count(twice)} times")
        object.__setattr__(self, "_token_of", token_of)

    @property
    def vocabulary(self) -> int:
        return len(self.symbols) + 1

    @property
    def begin(self) -> int:
        return 0

    @property
    def special(self) -> tuple[int, ...]:
        return (0,)

    @property
    def bytes_per_token(self) -> Int64[np.ndarray, "vocabulary"]:
        return np.array([0, *(len(symbol.encode()) for symbol in self.symbols)], dtype=np.int64)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encode(text) for text in texts]

    def decode(self, tokens: Iterable[SupportsIndex]) -> str:
        return "".join(self.symbols[token - 1] for token in require_in_vocabulary(tokens, self.vocabulary) if token)

    def content(self) -> dict[str, Any]:
        return {"kind": "characters", "symbols": self.symbols}

    def _encode(self, text: str) -> list[int]:
        try:
            return [self._token_of[symbol] for symbol in text]
        except KeyError:
            where = next(place for place, symbol in enumerate(text) if symbol not in self._token_of)
            raise ValueError(
                f"the text must hold symbols of the vocabulary only, got {text[where]!r} at position {where}"
            ) from None

"""Text for a language model: a prepared folder, or a small text whose tokens are made on the spot."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from torsor.experiments.experiment import nearest
from torsor.tasks import TokenStream
from torsor.text import DATASETS, BytePairRecipe, CharacterTokenizer, PreparedText, Tokenizer, read_text, texts_of
from torsor.text.tokenizer_recipe import TooLittleTextError

HELD_OUT = 10  # percent of a small text, at its end
MADE = "made"
MADE_TOKENS = 2**20
FIRST_SYMBOL = 0x10000  # beyond it lie as many code points as any vocabulary needs, none of them half a pair
LARGEST_TEXT = 100_000_000  # characters; a larger one is prepared once, not at every start


@final
@dataclass(frozen=True)
class LanguageData:
    """What a language model is trained and scored on.

    Args:
        name: of the text, for the record.
        tokenizer: that made the tokens.
        training: the packed stream to train on.
        validation: the packed stream of held-out text.
        record: hashes and how it was cut, as JSON.
    """

    name: str
    tokenizer: Tokenizer
    training: TokenStream
    validation: TokenStream
    record: dict[str, Any]


def language_data(text: str, entries: int) -> LanguageData:
    """The data of this name.

    Args:
        text: a folder that ``torsor data prepare`` filled; or a data set or a text file, whose last tenth is
            held out and whose byte pairs are learned from the rest; or "made", a stream of random tokens
            from which nothing can be learned, to count and to time.
        entries: of the tokenizer that is learned; a prepared folder has its own.

    Raises:
        ValueError: when there is no such text, it is too small or too large, or it cannot be read.
        ImportError: when byte pairs are needed and the package tokenizers is missing.
    """
    if not text:
        raise ValueError("text must name a data set, a text file or a folder made by torsor data prepare, got none")
    if text == MADE:
        return _made(entries)
    path = Path(text)
    if path.is_dir():
        prepared = PreparedText.open(path)
        return LanguageData(
            path.name,
            prepared.tokenizer,
            prepared.training,
            prepared.validation,
            {
                "name": path.name,
                "split": "documents held out",
                **{f"{k}_sha256": v for k, v in prepared.sha256.items()},
            },
        )
    if path.is_file():
        return _small(path.name, read_text(path), entries)
    if text not in DATASETS:
        hint = nearest(text, DATASETS)
        raise ValueError(f"text must be a data set, a text file or a prepared folder, got {text!r}{hint}")
    return _small(text, "".join(texts_of(text)), entries)


def _made(entries: int) -> LanguageData:
    tokenizer = CharacterTokenizer("".join(map(chr, range(FIRST_SYMBOL, FIRST_SYMBOL + entries - 1))))
    streams = np.random.default_rng(0).integers(1, entries, (2, MADE_TOKENS), dtype=np.int32)
    return LanguageData(MADE, tokenizer, streams[0], streams[1], {"name": MADE, "split": "random tokens"})


def _small(name: str, text: str, entries: int) -> LanguageData:
    """The first nine tenths to train on, the last tenth held out, as one document each."""
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"text must have at most {LARGEST_TEXT} characters, got {len(text)}: torsor data prepare it")
    if not text:
        raise ValueError(f"{name} must hold the text to learn from, it is empty")
    cut = len(text) * (100 - HELD_OUT) // 100
    training, validation = text[:cut], text[cut:]
    recipe = BytePairRecipe(entries, per_document=LARGEST_TEXT)
    try:
        tokenizer = recipe.train([training])
    except TooLittleTextError as error:
        raise ValueError(
            f"{name} has {len(text):,} characters, whose first {100 - HELD_OUT} percent give {error.given} entries, "
            f"not {entries}: take a longer text, or entries of at most {error.given}"
        ) from error
    narrow = np.uint16 if tokenizer.vocabulary <= 2**16 else np.uint32

    def stream(part: str) -> np.ndarray:
        return np.array([tokenizer.begin, *tokenizer.encode(part)], dtype=narrow)

    streams = stream(training), stream(validation)
    hashes = [_sha256(each) for each in streams]
    record = {
        "name": name,
        "split": f"{100 - HELD_OUT}-{HELD_OUT}",
        "tokenizer_sha256": tokenizer.sha256,
        "training_sha256": hashes[0],
        "validation_sha256": hashes[1],
    }
    return LanguageData(name, tokenizer, *streams, record)


def _sha256(stream: np.ndarray) -> str:
    return hashlib.sha256(stream.astype("<u4").tobytes()).hexdigest()


def bytes_of(tokenizer: Tokenizer) -> Sequence[int]:
    """How many bytes of UTF-8 each token stands for."""
    return torch.from_numpy(np.asarray(tokenizer.bytes_per_token)).tolist()

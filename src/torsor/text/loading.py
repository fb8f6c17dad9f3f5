"""Tokenizers from files."""

import json
from pathlib import Path

from torsor.text.byte_pairs import BytePairs
from torsor.text.character_tokenizer import CharacterTokenizer
from torsor.text.storage import DataError, texts_of
from torsor.text.tokenizer import Tokenizer
from torsor.text.writing import read_json

END_OF_TEXT = "<|endoftext|>"


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer of a file: one that ``save`` wrote, or a ``tokenizer.json`` of the package tokenizers.

    Args:
        path: the file. Of byte pairs the special token with the smallest number begins a document,
            which in GPT-2's file is ``<|endoftext|>``.

    Raises:
        ValueError: when the file cannot be read or holds no tokenizer that can be used.
        ImportError: when it is of byte pairs and the package tokenizers is missing.
    """
    found = read_json(path)
    try:
        if not isinstance(found, dict):
            raise DataError("it must hold one JSON object")
        if found.get("kind") == "characters":
            return CharacterTokenizer(str(found.get("symbols", "")))
        return BytePairs(found)
    except (AttributeError, KeyError, IndexError, TypeError) as error:  # of a definition that is not shaped like one
        raise DataError(f"{path} is no tokenizer: {error!r} was not expected") from error
    except ValueError as error:
        raise DataError(f"{path} is no tokenizer: {error}") from error


def gpt2_tokenizer() -> BytePairs:
    """GPT-2's byte-pair encoding, from the two files of the data set ``gpt2-bpe``; ``<|endoftext|>`` begins a document.

    Raises:
        ValueError: when the data set is not here; the line says how to fetch it.
        ImportError: when the package tokenizers is missing.
    """
    encoder, merges = texts_of("gpt2-bpe")
    vocabulary = json.loads(encoder)
    lines = [line for line in merges.split("\n") if line and not line.startswith("#version")]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": vocabulary[END_OF_TEXT], "content": END_OF_TEXT, "special": True}
    matching = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return BytePairs(
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{**end, **matching}],
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": vocabulary, "merges": [line.split(" ") for line in lines]},
        }
    )

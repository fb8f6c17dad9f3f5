"""Our tokenizers as transformers loads them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torsor.text.byte_pairs import BytePairs
from torsor.text.character_tokenizer import CharacterTokenizer
from torsor.text.tokenizer import Tokenizer

BEGIN, FILLING = "<|begin|>", "<|pad|>"


@final
@dataclass(frozen=True)
class PlainCharacters:
    """Token ``k`` is the character ``symbols[k]``, and none begins a text: what character models read.

    Args:
        symbols: the characters, each once.

    Raises:
        ValueError: when there is none or one stands twice.
    """

    symbols: str

    def __post_init__(self) -> None:
        if not self.symbols or len(set(self.symbols)) < len(self.symbols):
            raise ValueError(f"symbols must hold at least one character and each once, got {self.symbols!r}")

    @property
    def vocabulary(self) -> int:
        """Number of characters."""
        return len(self.symbols)


def special_tokens(tokenizer: Tokenizer | PlainCharacters | None) -> dict[str, int]:
    """The tokens that begin, end and fill up, by the names that a configuration has for them.

    A begin token ends the document before it, and fills up. Without one there is none of them in the vocabulary:
    what fills up then is beyond it, no model ever reads it, and generation alone is told (``filling_token``).
    """
    match tokenizer:
        case None | PlainCharacters():
            return {}
        case _:
            return dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), tokenizer.begin)


def filling_token(tokenizer: Tokenizer | PlainCharacters | None) -> int | None:
    """The token beyond the vocabulary that fills up where no token of a text does; None where one does."""
    return tokenizer.vocabulary if isinstance(tokenizer, PlainCharacters) else None


def fast_tokenizer(tokenizer: Tokenizer | PlainCharacters) -> Any:
    """The same tokenizer as a ``PreTrainedTokenizerFast``, which puts the begin token before every text.

    Raises:
        ValueError: when it is of another kind than those of this package.
        ImportError: when the package tokenizers or transformers is missing.
    """
    from tokenizers import Tokenizer as Encoder
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    match tokenizer:
        case PlainCharacters():
            encoder = _characters({symbol: token for token, symbol in enumerate(tokenizer.symbols)})
            encoder.add_special_tokens([FILLING])
            names = {"pad_token": FILLING}
        case CharacterTokenizer():
            encoder = _characters({symbol: token for token, symbol in enumerate([BEGIN, *tokenizer.symbols])})
            encoder.add_special_tokens([BEGIN])
            names = dict.fromkeys(("bos_token", "eos_token", "pad_token"), BEGIN)
        case BytePairs():
            encoder = Encoder.from_str(json.dumps(tokenizer.definition))
            begin = encoder.id_to_token(tokenizer.begin)
            names = dict.fromkeys(("bos_token", "eos_token", "pad_token"), begin)
        case _:
            raise ValueError(f"tokenizer must be of byte pairs or characters, got {type(tokenizer).__name__}")
    if begin := names.get("bos_token"):
        encoder.post_processor = TemplateProcessing(
            single=[begin, "$A"], pair=[begin, "$A", begin, "$B"], special_tokens=[(begin, encoder.token_to_id(begin))]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=encoder,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],  # older versions add a third, which no model here reads
        **names,
    )


def save_tokenizer(tokenizer: Tokenizer | PlainCharacters, folder: Path) -> None:
    """Write the files from which ``AutoTokenizer`` loads it, in every version of transformers.

    Raises:
        ValueError: as ``fast_tokenizer``.
        ImportError: as ``fast_tokenizer``.
    """
    fast_tokenizer(tokenizer).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["tokenizer_class"] = "PreTrainedTokenizerFast"  # newer versions write a name that older ones do not know
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _characters(vocabulary: dict[str, int]) -> Any:
    from tokenizers import Regex, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Encoder

    # a symbol that is not in the vocabulary is refused by the missing unknown token
    encoder = Encoder(models.WordLevel(vocabulary, unk_token="<|unknown|>"))
    encoder.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    encoder.decoder = decoders.Fuse()
    return encoder

"""A text in the parts that are trained on, chosen by and reported on."""

import hashlib
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from typing import Literal, final

from torsor.kinds import kind_of

Split = Literal["80-10-10", "90-5-5", "90-10"]
SPLITS: dict[Split, tuple[int, ...]] = {"80-10-10": (80, 90), "90-5-5": (90, 95), "90-10": (90,)}  # cuts, in percent


@final
@dataclass(frozen=True)
class Corpus:
    """Training, validation and, where there is one, test text, as characters.

    Args:
        training: what is trained on.
        validation: what settings and checkpoints are chosen by.
        test: what is reported once; None where the split has no such part.
        split: the name of the way it was cut, part of ``sha256``.

    Raises:
        ValueError: when a part is no string, is empty or holds half of a surrogate pair, which no UTF-8 can.

    Attributes:
        sha256: over the split's name and the parts in their order, each as its length in bytes (8 of
            them, little-endian) and its UTF-8. Two runs with the same one had the same data.
    """

    training: str = field(repr=False)
    validation: str = field(repr=False)
    test: str | None = field(default=None, repr=False)
    split: str = "separate texts"
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha256()
        named = {"training": self.training, "validation": self.validation, "test": self.test}
        parts = {name: text for name, text in named.items() if name != "test" or text is not None}
        for name, text in {"split": self.split, **parts}.items():
            if not isinstance(text, str):
                raise ValueError(f"the {name} text must be a string, got {kind_of(text)}")
            if not text:
                raise ValueError(f"the {name} text must have at least one character, got none")
            try:
                content = text.encode()
            except UnicodeEncodeError as error:
                raise ValueError(
                    f"the {name} text must be of whole characters, got {text[error.start]!r} at position {error.start}"
                ) from error
            digest.update(len(content).to_bytes(8, "little") + content)
        object.__setattr__(self, "sha256", digest.hexdigest())

    @classmethod
    def cut(cls, text: str, split: Split = "80-10-10") -> "Corpus":
        """One text, cut into contiguous parts.

        "80-10-10" cuts n characters at floor(0.8 n) and floor(0.9 n), "90-5-5" at floor(0.9 n) and
        floor(0.95 n), "90-10" at floor(0.9 n) alone, with no test part.

        Args:
            text: characters, in their order.
            split: percentages of training, validation and test.

        Raises:
            ValueError: when there is no such split, or a part would be empty.
        """
        if split not in SPLITS:
            close = get_close_matches(split, SPLITS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(SPLITS)}"
            raise ValueError(f"there is no split {split!r}; {hint}")
        if not isinstance(text, str):
            raise ValueError(f"the text must be a string, got {kind_of(text)}")
        if not text:
            raise ValueError("the text must have at least one character, got none")
        edges = [0, *(len(text) * percent // 100 for percent in SPLITS[split]), len(text)]
        return cls(*(text[start:end] for start, end in pairwise(edges)), split=split)

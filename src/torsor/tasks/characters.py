"""Character-level language modelling: read a text, name the character that comes next."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor

from torsor.kinds import kind_of
from torsor.tasks.base import Batch, Task
from torsor.tasks.corpus import Corpus
from torsor.tasks.requirements import require_64_bits, require_at_least_one
from torsor.tensors import require_tensor

_TRAINING = 0  # the random stream of a seed; evaluation draws nothing
MOST_CHARACTERS = 2**31  # in one batch: 16 GiB of tokens


@final
@dataclass(frozen=True, eq=False)
class Characters(Task):
    r"""Windows of a text; at each position the target is the next character.

    The vocabulary is the set of symbols of the training text, or of all parts, sorted by code point: token ``k``
    is ``symbols[k]``. A symbol of another part or of a prompt that is not among them is refused.

    Window ``i`` of an update starts at a position of the training text that is uniform over all
    :math:`n - \mathrm{context}` of them, and depends on ``(seed, update, i)`` alone: a smaller batch
    holds the first windows of a larger one. It is a 64-bit number of the counter-based generator
    Philox, with the seed for key and the update in the counter, modulo their number: uniform up to a
    relative :math:`(n - \mathrm{context})\, 2^{-64}`. Evaluation draws nothing: its windows follow
    each other through the validation text.

    Args:
        corpus: the text in its parts.
        context: characters in a window, at least 1 and fewer than in any part.
        seed: 0 to 2⁶⁴ - 1.
        of_all_parts: whether symbols that training never shows belong to the vocabulary, too. Any text of one's own
            has some; a model scores them by what it gives to what it has not seen.

    Raises:
        ValueError: when an argument is not admissible, or a part holds a symbol that is not in the vocabulary.

    Attributes:
        symbols: the vocabulary, in its order.
        training: the training text as tokens, in the narrowest integers that hold them.
        validation: the validation text likewise.
        test: the test text likewise, None where there is none.

    Example:
        >>> from torsor.tasks import Corpus
        >>> task = Characters(Corpus.cut("to be or not to be " * 50), context=8)
        >>> batch = task.batch(update=0, size=4)
        >>> task.symbols, batch.tokens.shape, task.decode(task.encode("not to be"))
        (' benort', torch.Size([4, 8]), 'not to be')
    """

    corpus: Corpus
    context: int
    seed: int = 0
    of_all_parts: bool = False
    symbols: str = field(init=False, repr=False)
    training: Integer[Tensor, "training"] = field(init=False, repr=False)
    validation: Integer[Tensor, "validation"] = field(init=False, repr=False)
    test: Integer[Tensor, "test"] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.corpus, Corpus):
            raise ValueError(f"corpus must be a Corpus, got {kind_of(self.corpus)}: Corpus.cut(text) is one of a text")
        require_at_least_one(context=self.context)
        require_64_bits(seed=self.seed)
        shown = [self.corpus.training]
        if self.of_all_parts:
            shown += [self.corpus.validation, self.corpus.test or ""]
        object.__setattr__(self, "symbols", "".join(sorted(set("".join(shown)))))
        for name, text in (
            ("training", self.corpus.training),
            ("validation", self.corpus.validation),
            ("test", self.corpus.test),
        ):
            if text is not None and len(text) <= self.context:
                raise ValueError(
                    f"context must be less than the {len(text)} characters of the {name} text, got {self.context}"
                )
            object.__setattr__(self, name, None if text is None else self._tokens(text, f"the {name} text"))

    @property
    def vocabulary(self) -> int:
        """The number of symbols."""
        return len(self.symbols)

    @property
    def classes(self) -> int:
        """The same symbols, as what comes next."""
        return len(self.symbols)

    @property
    def data_hash(self) -> str:
        """The corpus's SHA-256, over its split's name and its parts: to be recorded with every run."""
        return self.corpus.sha256

    def encode(self, text: str) -> Int[Tensor, "length"]:
        """The tokens of a text, such as a prompt.

        Raises:
            ValueError: when a symbol is not in the vocabulary, with its position.
        """
        return self._tokens(text, "the text").long()

    def decode(self, tokens: Integer[Tensor, "length"]) -> str:
        """The text of tokens.

        Raises:
            ValueError: when a token is not in the vocabulary.
        """
        require_tensor("tokens", tokens)
        indices = tokens.long().numpy(force=True)
        wrong = indices[(indices < 0) | (indices >= self.vocabulary)]
        if wrong.size:
            raise ValueError(f"tokens must be in 0 .. {self.vocabulary - 1}, got {int(wrong[0])}")
        return _code_points(self.symbols)[indices].tobytes().decode("utf-32-le")

    def batch(self, update: int, size: int) -> Batch:
        """The training batch of an optimizer update.

        Args:
            update: the number of the update, 0 to 2⁶⁴ - 1.
            size: number of windows, at least 1.
        """
        require_64_bits(update=update)
        self._require_size(size)
        counter = np.array([0, 0, update, _TRAINING], dtype=np.uint64)  # a list would pass through floats
        numbers = np.random.Philox(key=self.seed, counter=counter).random_raw(size)
        starts = (numbers % np.uint64(len(self.training) - self.context)).astype(np.int64)
        return self._windows(self.training, torch.from_numpy(starts))

    def evaluation(self, size: int) -> Batch:
        """The first ``size`` windows of the validation text, each beginning where the one before ends.

        Args:
            size: number of windows, at least 1 and at most as many as lie whole in the text.

        Raises:
            ValueError: when ``size`` is not admissible.
        """
        self._require_size(size)
        windows = (len(self.validation) - 1) // self.context
        if size > windows:
            raise ValueError(f"size must be at most the {windows} windows of the validation text, got {size}")
        return self._windows(self.validation, torch.arange(size) * self.context)

    def _windows(self, text: Integer[Tensor, "characters"], starts: Int[Tensor, "batch"]) -> Batch:
        rows = text[starts[:, None] + torch.arange(self.context + 1)].long()
        return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())

    def _tokens(self, text: str, what: str) -> Integer[Tensor, "length"]:
        points, known = _code_points(text), _code_points(self.symbols)
        tokens = np.searchsorted(known, points).clip(max=len(known) - 1)
        wrong = np.flatnonzero(known[tokens] != points)
        if wrong.size:
            where = int(wrong[0])
            known_of = "all parts" if self.of_all_parts else "the training text"
            raise ValueError(f"{what} must hold symbols of {known_of} only, got {text[where]!r} at position {where}")
        narrowest = np.uint8 if len(known) <= 2**8 else np.int16 if len(known) <= 2**15 else np.int32
        return torch.from_numpy(tokens.astype(narrowest))

    def _require_size(self, size: int) -> None:
        """Refuse before the memory does what no machine holds."""
        require_at_least_one(size=size)
        if size * (self.context + 1) > MOST_CHARACTERS:
            raise ValueError(
                f"size windows of context + 1 characters must be at most {MOST_CHARACTERS} in all, "
                f"got {size} of {self.context + 1}"
            )


def _code_points(text: str) -> np.ndarray:
    # A lone half of a surrogate pair passes, to be refused by its position like any other symbol.
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")

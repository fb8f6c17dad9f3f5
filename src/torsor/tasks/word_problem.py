"""The word problem: read letters of a finite group, name the product of those read so far."""

from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.groups.requirements import require_finite_group
from torsor.tasks.base import IGNORED, Batch, Task
from torsor.tasks.requirements import require_64_bits, require_at_least_one
from torsor.tensors import require_tensor

_TRAINING, _EVALUATION = 0, 1  # the random streams of a seed
_BLOCK = 64  # words that are drawn at once
MOST_TOKENS = 2**31  # in one batch: 16 GiB of them


@final
@dataclass(frozen=True, eq=False)
class WordProblem(Task):
    r"""Track the state :math:`q_t = x_1 x_2 \cdots x_t` of a finite group, :math:`q_0 = e`.

    The state :math:`q` becomes :math:`q x`, "q, then x", on reading the letter :math:`x`. Letters
    are independent and uniform over the alphabet.

    Both tensors of a batch have ``length + 1`` positions. Position 0 holds the begin token, whose
    id is the number of letters, and is not scored (target -100). Position :math:`t \ge 1` holds the
    letter :math:`x_t` (token ``k`` is the element ``letters[k]``), with the target :math:`q_t` as an
    index of the group's elements.

    Batches are a pure function of ``(seed, update)``, and more than that, letter :math:`x_t` of word
    ``i`` depends on ``(seed, update, i, t)`` alone: a smaller batch holds the first words of a larger
    one, and shorter words are the beginnings of longer ones. They are numbers of the counter-based
    generator Philox, with the seed for key and the update in the counter, so no two updates, nor
    training and evaluation, share a random number. That does not make the *words* different: short
    words are few, and come up in both. A letter is a 64-bit number modulo the number of letters,
    uniform up to a relative :math:`6 \cdot 10^{-16}` for every admissible group.

    Args:
        group: the finite group, of at least two elements.
        length: number of letters in a word, at least 1.
        alphabet: "generators" reads the group's generators, in their order; "all" reads every
            element.
        seed: 0 to 2⁶⁴ - 1.

    Raises:
        ValueError: when an argument is not admissible.

    Example:
        >>> from torsor.groups import symmetric
        >>> batch = WordProblem(symmetric(3), length=4).batch(update=0, size=2)
        >>> batch.tokens.shape, batch.targets[:, 0].tolist()
        (torch.Size([2, 5]), [-100, -100])
    """

    group: FiniteGroup
    length: int
    alphabet: Literal["generators", "all"] = "generators"
    seed: int = 0
    letters: tuple[int, ...] = field(init=False, repr=False)
    _next_state: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_finite_group(self.group)
        if self.group.order < 2:
            raise ValueError(f"group must have at least two elements, got {self.group.name} of order 1")
        if self.alphabet not in {"generators", "all"}:
            raise ValueError(f"alphabet must be 'generators' or 'all', got {self.alphabet!r}")
        require_at_least_one(length=self.length)
        require_64_bits(seed=self.seed)
        letters = self.group.generators if self.alphabet == "generators" else tuple(range(self.group.order))
        object.__setattr__(self, "letters", letters)
        # Flat, so that one step of all words is one gather: state * len(letters) + letter.
        object.__setattr__(self, "_next_state", self.group.table[:, list(letters)].ravel())

    @property
    def vocabulary(self) -> int:
        """The letters and the begin token."""
        return len(self.letters) + 1

    @property
    def classes(self) -> int:
        """The order of the group."""
        return self.group.order

    @property
    def begin(self) -> int:
        """The id of the begin token: the last of the vocabulary."""
        return len(self.letters)

    def batch(self, update: int, size: int, length: int | None = None) -> Batch:
        """The training batch of an optimizer update.

        Args:
            update: the number of the update, 0 to 2⁶⁴ - 1.
            size: number of words, at least 1.
            length: letters in each word, for a curriculum; the task's own ``length`` by default.
        """
        require_64_bits(update=update)
        return self._draw(_TRAINING, update, size, self.length if length is None else length)

    def evaluation(self, size: int, length: int | None = None) -> Batch:
        """The first ``size`` words to evaluate on, from a stream apart from training's.

        Args:
            size: number of words, at least 1.
            length: letters in each word; the task's own ``length`` by default.
        """
        return self._draw(_EVALUATION, 0, size, self.length if length is None else length)

    def label(self, tokens: Int[Tensor, "batch length"]) -> Int[Tensor, "batch length"]:
        """The targets of given words, of any length.

        Args:
            tokens: words, each with the begin token first and letters after it.

        Raises:
            ValueError: when they are no tensor, the first token of a word is not the begin token, or a later one is not
                a letter.
        """
        require_tensor("tokens", tokens)
        if tokens.shape[-1] == 0 or not (tokens[:, 0] == self.begin).all():
            raise ValueError(f"every word must begin with the begin token {self.begin}")
        letters = tokens[:, 1:]
        wrong = letters[(letters < 0) | (letters >= self.begin)]
        if wrong.numel():
            raise ValueError(f"letters must be in 0 .. {self.begin - 1}, got {int(wrong[0])}")
        return self._targets(letters.T.numpy(force=True)).to(tokens.device)

    def _draw(self, stream: int, update: int, size: int, length: int) -> Batch:
        require_tokens(size, length)
        numbers = []
        for block in range(-(-size // _BLOCK)):
            counter = np.array([0, block, update, stream], dtype=np.uint64)  # a list would pass through floats
            raw = np.random.Philox(key=self.seed, counter=counter).random_raw(length * _BLOCK)
            # One row for each position, so that the first rows do not depend on how many follow.
            numbers.append(raw.reshape(length, _BLOCK))
        letters = (np.concatenate(numbers, axis=1)[:, :size] % np.uint64(len(self.letters))).astype(np.int64)
        tokens = torch.full((size, length + 1), self.begin)
        tokens[:, 1:] = torch.from_numpy(letters).T
        return Batch(tokens, self._targets(letters))

    def _targets(self, letters: Int[np.ndarray, "length batch"]) -> Int[Tensor, "batch length_and_one"]:
        states = np.full((len(letters) + 1, letters.shape[1]), IGNORED)
        state = np.full(letters.shape[1], self.group.identity)
        for position, letter in enumerate(letters, 1):
            state = states[position] = self._next_state[state * len(self.letters) + letter]
        return torch.from_numpy(states).T.contiguous()


def require_tokens(size: int, length: int) -> None:
    """Refuse before the memory does what no machine holds."""
    require_at_least_one(size=size)
    require_at_least_one(length=length)
    if size * (length + 1) > MOST_TOKENS:
        raise ValueError(
            f"size words of length + 1 tokens must be at most {MOST_TOKENS} in all, got {size} of {length + 1}"
        )

"""Words in which some letters never follow some others in training, and are made to in evaluation."""

from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from jaxtyping import Int, UInt64

from torsor.kinds import kind_of
from torsor.tasks import Batch, Task, WordProblem
from torsor.tasks.requirements import require_64_bits
from torsor.tasks.word_problem import require_tokens
from torsor.tracking.pair_choice import Pair, allowed_pairs, leads_everywhere, least_length
from torsor.tracking.requirements import require_at_least
from torsor.tracking.words import EVALUATION, PLACES, TRAINING, RandomNumbers


@final
@dataclass(frozen=True, eq=False)
class HeldOutPairs(Task):
    r"""A word problem whose training words hold none of some ordered pairs of neighbours.

    The first letter of a training word is uniform, and each later one is uniform over the letters
    that may follow the one before. ``familiar`` draws words of the same law for evaluation, and
    ``evaluation`` draws uniform words into each of which ``forced`` different held-out pairs are written,
    one after the other in turn: word ``i`` begins with pair ``i`` modulo their number. What a model
    loses between the two is the price of pairs that it has not seen.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py``:

    * no word of ``batch`` or ``familiar`` holds a held-out pair; every word of ``evaluation`` does, and as
      many words as there are pairs hold every one;
    * after every training word every state can still be reached, and within the task's length every
      one is met: what is held out is pairs, not states;
    * a batch is a pure function of ``(seed, update)``, and a smaller one holds the first words of a
      larger one.

    Args:
        task: the word problem, with the length, the alphabet and the seed.
        pairs: ordered pairs of tokens, such as ``choose_pairs`` draws; each once, at least one.
        forced: how many pairs are written into each evaluation word, at most half of its length.

    Raises:
        ValueError: when ``task`` is no word problem, a pair is not two letters or comes twice, the training words
            do not lead everywhere, the task's length is too short to meet every state, or ``forced`` is out of range.

    Example:
        >>> from torsor.groups import symmetric
        >>> from torsor.tracking import choose_pairs
        >>> task = WordProblem(symmetric(3), length=8, alphabet="all")
        >>> HeldOutPairs(task, choose_pairs(task)).batch(update=0, size=2).tokens.shape
        torch.Size([2, 9])
    """

    task: WordProblem
    pairs: tuple[Pair, ...]
    forced: int = 1
    _followers: np.ndarray = field(init=False, repr=False)
    _counts: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.task, WordProblem):
            raise ValueError(f"task must be a WordProblem, got {kind_of(self.task)}")
        letters = len(self.task.letters)
        if not self.pairs or len(set(self.pairs)) != len(self.pairs):
            raise ValueError(f"pairs must be one or more, each once, got {self.pairs}")
        for pair in self.pairs:
            if len(pair) != 2 or not all(0 <= letter < letters for letter in pair):
                raise ValueError(f"a pair must be of two letters in 0 .. {letters - 1}, got {pair}")
        _require_forced(self.forced, len(self.pairs), self.task.length)
        if not leads_everywhere(self.task, self.pairs):
            raise ValueError(
                f"words without the pairs must lead from everywhere to every state of {self.task.group.name}, "
                f"got {len(self.pairs)} pairs that prevent it"
            )
        needed = least_length(self.task, self.pairs)
        if needed is not None and needed > self.task.length:
            raise ValueError(
                f"length must be at least {needed} for training words to meet every state, got {self.task.length}"
            )
        allowed = allowed_pairs(self.task, self.pairs)
        # row by row the letters that may follow, then the rest: the first of them are counted
        object.__setattr__(self, "_followers", np.argsort(~allowed, axis=1, kind="stable"))
        object.__setattr__(self, "_counts", allowed.sum(axis=1).astype(np.uint64))

    @property
    def vocabulary(self) -> int:
        """The letters and the begin token."""
        return self.task.vocabulary

    @property
    def classes(self) -> int:
        """The order of the group."""
        return self.task.classes

    def batch(self, update: int, size: int, length: int | None = None) -> Batch:
        """The training batch of an optimizer update, without the pairs.

        Args:
            update: the number of the update, 0 to 2⁶⁴ - 1.
            size: number of words, at least 1.
            length: letters in each word, for a curriculum; the task's own ``length`` by default.
        """
        require_64_bits(update=update)
        return self._without(TRAINING, update, size, length)

    def familiar(self, size: int, length: int | None = None) -> Batch:
        """The first ``size`` words to evaluate on that hold none of the pairs, as training's do.

        Args:
            size: number of words, at least 1.
            length: letters in each word; the task's own ``length`` by default.
        """
        return self._without(EVALUATION, 0, size, length)

    def evaluation(self, size: int, length: int | None = None) -> Batch:
        """The first ``size`` words to evaluate on, with held-out pairs in each.

        Args:
            size: number of words, at least 1.
            length: letters in each word; the task's own ``length`` by default.
        """
        length = self.task.length if length is None else length
        require_tokens(size, length)
        _require_forced(self.forced, len(self.pairs), length)
        letters = (self._numbers(EVALUATION, 0, size, length) % np.uint64(len(self.task.letters))).astype(np.int64)
        slots = length // 2  # neighbours (0, 1), (2, 3), ...; an odd length leaves one letter, before or after them
        drawn = RandomNumbers(self.task.seed, PLACES, 0, size).next(slots + 1)
        shift = (drawn[0] % np.uint64(2)).astype(np.int64) * (length % 2)
        chosen = drawn[1:].argsort(axis=0, kind="stable")[: self.forced]
        words, pairs = np.arange(size), np.array(self.pairs)
        for turn, slot in enumerate(chosen):
            for side in (0, 1):
                letters[2 * slot + shift + side, words] = pairs[(words + turn) % len(pairs), side]
        return self._batch(letters)

    def _without(self, stream: int, update: int, size: int, length: int | None) -> Batch:
        length = self.task.length if length is None else length
        require_tokens(size, length)
        numbers = self._numbers(stream, update, size, length)
        letters = np.empty(numbers.shape, dtype=np.int64)
        letters[0] = numbers[0] % np.uint64(len(self.task.letters))
        for position in range(1, length):
            before = letters[position - 1]
            place = (numbers[position] % self._counts[before]).astype(np.int64)
            letters[position] = self._followers[before, place]
        return self._batch(letters)

    def _numbers(self, stream: int, update: int, size: int, length: int) -> UInt64[np.ndarray, "length size"]:
        return RandomNumbers(self.task.seed, stream, update, size).next(length)

    def _batch(self, letters: Int[np.ndarray, "length size"]) -> Batch:
        tokens = torch.full((letters.shape[1], len(letters) + 1), self.task.begin)
        tokens[:, 1:] = torch.from_numpy(letters).T
        return Batch(tokens, self.task.label(tokens))


def _require_forced(forced: int, pairs: int, length: int) -> None:
    require_at_least(1, forced=forced)
    if length < 2:
        raise ValueError(f"length must be at least 2 where a pair is held out, got {length}")
    if forced > min(pairs, length // 2):
        raise ValueError(
            f"forced must be at most the number of pairs, {pairs}, and half of the length, {length // 2}, got {forced}"
        )

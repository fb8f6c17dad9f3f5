"""What a model of one word problem is examined on, and the word problems that are worth it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

from torsor.groups import cyclic, named
from torsor.tasks import WordProblem
from torsor.tracking.held_out_pairs import HeldOutPairs
from torsor.tracking.requirements import require_at_least
from torsor.tracking.streaming import Stream

SUITE_GROUPS = ("C2", "C6", "C60", "S3", "D4", "Q8", "A4", "SL(2,3)", "S4", "A5", "S5", "S3xS3", "A4xZ5")
ALPHABETS: tuple[Literal["all", "generators"], ...] = ("all", "generators")
TRAIN_LENGTHS = (16, 32, 64, 128)
MULTIPLES = (1, 2, 4, 16, 64)


@final
@dataclass(frozen=True)
class Suite:
    """Words of a trained length and of its multiples.

    Args:
        task: the word problem that the model is trained on, of the length that it is trained on.
        multiples: of this length, at which the model is examined: 1, 2, 4, 16 and 64 by default.
        words: how many words of each length, at least 2.
        held_out: the pairs that training has left out, where it has; the model is then examined on
            words with them and on words without them too.
        tokens_at_once: the model reads as many words in one call as have about so many tokens.
        at_lengths: lengths of the words in place of multiples of the trained one.

    Raises:
        ValueError: when multiples or lengths do not ascend from at least 1, a number is too small, or
            ``held_out`` is of another word problem.

    Example:
        >>> from torsor.groups import symmetric
        >>> suite = Suite(WordProblem(symmetric(3), length=16))
        >>> suite.lengths
        (16, 32, 64, 256, 1024)
    """

    task: WordProblem
    multiples: tuple[int, ...] = MULTIPLES
    words: int = 500
    held_out: HeldOutPairs | None = None
    tokens_at_once: int = 2**16
    at_lengths: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _require_ascending("multiples", self.multiples)
        if self.at_lengths is not None:
            _require_ascending("lengths", self.at_lengths)
        require_at_least(2, words=self.words)
        require_at_least(1, tokens_at_once=self.tokens_at_once)
        if self.held_out is not None:
            own, other = ((task.group.name, task.letters, task.length) for task in (self.task, self.held_out.task))
            if own != other:
                raise ValueError(
                    f"held_out must be of the suite's word problem, {own[0]} of length {own[2]} in {len(own[1])} "
                    f"letters, got {other[0]} of length {other[2]} in {len(other[1])}"
                )

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the words."""
        if self.at_lengths is not None:
            return self.at_lengths
        return tuple(multiple * self.task.length for multiple in self.multiples)

    def stream(self, length: int = 2**20, words: int = 100) -> Stream:
        """The same word problem as a stream: its words begin as the suite's do."""
        return Stream(self.task, length, words)

    def abelian_control(self) -> "Suite":
        """The same suite on the cyclic group of the same order, where counting letters is enough.

        A model that fails on a group and not on this one fails at the order of the letters. Held-out pairs are
        left out: there is none that does not commute. In the alphabet of generators there is one letter.
        """
        task = WordProblem(cyclic(self.task.group.order), self.task.length, self.task.alphabet, self.task.seed)
        return replace(self, task=task, held_out=None)


def suites(
    train_length: int = 64,
    *,
    groups: Sequence[str] = SUITE_GROUPS,
    alphabets: Sequence[Literal["all", "generators"]] = ALPHABETS,
    words: int = 500,
    seed: int = 0,
) -> tuple[Suite, ...]:
    """A suite for each group and alphabet.

    Args:
        train_length: 16 to 128.
        groups: names, as ``torsor.groups.named`` knows them.
        alphabets: "all", "generators", or both.
        words: how many words of each length.
        seed: of the words.

    Raises:
        ValueError: when ``train_length`` is out of range, a group has no such name, or a number is too small.
    """
    low, high = TRAIN_LENGTHS[0], TRAIN_LENGTHS[-1]
    if not low <= train_length <= high:
        raise ValueError(f"train_length must be in {low} .. {high}, got {train_length}")
    return tuple(
        Suite(WordProblem(named(name), train_length, alphabet, seed), words=words)
        for name in groups
        for alphabet in alphabets
    )


def _require_ascending(name: str, values: tuple[int, ...]) -> None:
    if not values or list(values) != sorted(set(values)) or values[0] < 1:
        raise ValueError(f"{name} must ascend from at least 1, got {values}")

"""A million tokens at constant memory: every word is followed to its first error."""

from dataclasses import dataclass
from typing import Any, final

import torch

from torsor.tasks import Proportion, WordProblem
from torsor.tracking.answers import likeliest
from torsor.tracking.reading import Chunked, Step, asked_to_read, has_words_first, read, selected
from torsor.tracking.requirements import require_at_least, require_outputs
from torsor.tracking.words import word_pieces

_TOKENS_AT_ONCE = 256  # of each word, whose answers are looked at together


@final
@dataclass(frozen=True)
class Stream:
    """Words that a model with a state reads without end, or almost.

    Args:
        task: the word problem, whose evaluation words are read.
        length: letters in each word; 1,048,576 by default.
        words: how many words, at least 1.

    Raises:
        ValueError: when a number is below 1.
    """

    task: WordProblem
    length: int = 2**20
    words: int = 100

    def __post_init__(self) -> None:
        require_at_least(1, length=self.length, words=self.words)


@final
@dataclass(frozen=True)
class StreamEvaluation:
    """How far each word of a stream was tracked.

    Args:
        length: letters in each word.
        first_errors: for each word the position of its first wrong answer, from 1, or None.
    """

    length: int
    first_errors: tuple[int | None, ...]

    def unbroken(self, position: int) -> Proportion:
        """The words without an error up to and including a position.

        Raises:
            ValueError: when the position is not in 0 .. length.
        """
        if not 0 <= position <= self.length:
            raise ValueError(f"position must be in 0 .. {self.length}, got {position}")
        survivors = sum(error is None or error > position for error in self.first_errors)
        return Proportion(survivors, len(self.first_errors))

    @property
    def joint(self) -> Proportion:
        """The words without any error."""
        return self.unbroken(self.length)

    @property
    def positions(self) -> tuple[int, ...]:
        """The powers of two below the length, and the length."""
        return (*(2**power for power in range(self.length.bit_length()) if 2**power < self.length), self.length)

    @property
    def frontier(self) -> int:
        """The last position up to which every word is right."""
        return min((error - 1 for error in self.first_errors if error is not None), default=self.length)

    def __str__(self) -> str:
        low, high = self.joint.interval()
        return (
            f"{self.joint.hits} of {self.joint.trials} words without an error in {self.length} tokens "
            f"[{low:.3f}, {high:.3f}]; all words right up to {self.frontier}"
        )

    def to_json(self) -> dict[str, Any]:
        """The curve of unbroken words with its Clopper-Pearson intervals, as a plain dictionary."""
        curve = [self.unbroken(position) for position in self.positions]
        return {
            "length": self.length,
            "words": len(self.first_errors),
            "joint": self.joint.value,
            "joint_interval": list(self.joint.interval()),
            "frontier": self.frontier,
            "positions": list(self.positions),
            "unbroken": [each.value for each in curve],
            "unbroken_intervals": [list(each.interval()) for each in curve],
            "first_errors": list(self.first_errors),
        }


@torch.no_grad()
def follow(model: Step | Chunked, stream: Stream, device: torch.device | str = "cpu") -> StreamEvaluation:
    """Read the words of a stream, each up to its first error.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py``:

    * the words are those of ``task.evaluation``, and the first errors those of one pass over them;
    * a word that has gone wrong is not read on, where the state can be parted by words (tensors in
      tuples, lists and dictionaries, words first and no other axis as long); else it is read
      and not counted;
    * the model is given at most one chunk at a time, and nothing is kept of what it was given.

    Args:
        model: ``step(tokens "batch", state) -> (logits "batch classes", state)``, one token of every word
            at a time; or ``Chunked(read)``, several at once, which is much faster. The first state is None.
        stream: the words.
        device: where the tokens are put.

    Raises:
        ValueError: when the model changes its input or does not return finite logits for every token
            and element.
    """
    with asked_to_read(model):
        return StreamEvaluation(stream.length, _first_errors(model, stream, device))


def _first_errors(model: Step | Chunked, stream: Stream, device: torch.device | str) -> tuple[int | None, ...]:
    task = stream.task
    reading = torch.arange(stream.words)  # the words that the state holds
    errors: list[int | None] = [None] * stream.words
    state, start, divisible = None, 0, False
    piece = model.length if isinstance(model, Chunked) else _TOKENS_AT_ONCE
    for batch in word_pieces(task, stream.words, stream.length, piece):
        outputs, state = read(model, batch.tokens[reading].to(device), state, task.vocabulary)
        require_outputs(outputs, (len(reading), batch.tokens.shape[1]), task.classes)
        if start == 0:
            divisible = has_words_first(state, stream.words)
        first = int(start == 0)  # the begin token is not scored
        wrong = likeliest(outputs)[:, first:] != batch.targets[reading, first:]
        start += batch.tokens.shape[1]
        if wrong.any():
            broken = wrong.any(-1)
            places = wrong.int().argmax(-1) + (start - batch.tokens.shape[1] + first)
            for row in broken.nonzero()[:, 0].tolist():
                word = int(reading[row])
                errors[word] = int(places[row]) if errors[word] is None else errors[word]
            if None not in errors:
                break
            if divisible:
                going_on = (~broken).nonzero()[:, 0]
                state, reading = selected(state, going_on), reading[going_on]
    return tuple(errors)

"""The examination of a model that carries a state through words: longer than trained, and streamed without end."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import nn

from torsor.experiments.evaluating import device_of, evaluating, finite
from torsor.experiments.study import Examination
from torsor.experiments.word_examination import require_tokens
from torsor.tasks import Proportion, Scores, WordProblem, score
from torsor.tracking import word_pieces

GLANCE_WORDS = 256
SCORED_AT_ONCE = 250  # words in one forward pass
PIECE = 256  # tokens of each streamed word in one forward pass


@final
@dataclass(frozen=True)
class StateExamination(Examination):
    """Score a recurrent model on words that training does not draw, up to four times as long, and on streamed ones.

    Args:
        task: the word problem, of the trained length.
        words: how many words the trained model is scored on.
        stream_length: letters of each streamed word.
        stream_words: how many words are streamed.

    Raises:
        ValueError: when a number is below 1, or the words are more tokens than a task gives at once.
    """

    task: WordProblem
    words: int
    stream_length: int
    stream_words: int

    def __post_init__(self) -> None:
        # what is first used after the training is refused before it
        for name, value in {"stream_length": self.stream_length, "stream_words": self.stream_words}.items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        require_tokens("words", self.words, self.task, longest=max(self.lengths))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The trained length, twice and four times as much."""
        return tuple(self.task.length * multiple for multiple in (1, 2, 4))

    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        """Accuracies at the trained length."""
        (scores,) = self._scores(model, (self.task.length,), GLANCE_WORDS, update)
        return {"token": scores.token, "last": scores.last.value, "joint": scores.joint.value}

    @property
    def tokens(self) -> int:
        return self.words * (max(self.lengths) + 1) + self.stream_words * (self.stream_length + 1)

    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The task, the scores at each length with the accuracy of every position, and those of the stream."""
        scores = self._scores(model, self.lengths, self.words, update)
        return {
            "task": {
                "group": self.task.group.name,
                "length": self.task.length,
                "alphabet": self.task.alphabet,
                "words": self.words,
            },
            "lengths": [each.to_json() for each in scores],
            "stream": self._stream(model, update),
        }

    @torch.no_grad()
    def _scores(self, model: nn.Module, lengths: tuple[int, ...], words: int, update: int) -> list[Scores]:
        # shorter words are the beginnings of longer ones, and the model is causal: one pass gives every length
        batch = self.task.evaluation(words, max(lengths))
        device = device_of(model)
        totals: list[Scores] | None = None
        with evaluating(model):
            for start in range(0, words, SCORED_AT_ONCE):
                rows = slice(start, start + SCORED_AT_ONCE)
                logits = finite(model(batch.tokens[rows].to(device))[0], update)
                part = [score(logits[:, : each + 1], batch.targets[rows, : each + 1]) for each in lengths]
                totals = part if totals is None else [total + more for total, more in zip(totals, part, strict=True)]
        return totals or []

    @torch.no_grad()
    def _stream(self, model: nn.Module, update: int) -> dict[str, Any]:
        """Every word read to its end, whatever comes, a piece at a time."""
        device = device_of(model)
        right = np.zeros(self.stream_length + 1, dtype=np.int64)
        sound = np.full(self.stream_words, True)
        unbroken = np.zeros(self.stream_length + 1, dtype=np.int64)
        state, start = None, 0
        with evaluating(model):
            for batch in word_pieces(self.task, self.stream_words, self.stream_length, PIECE):
                logits, state = model(batch.tokens.to(device), state)
                hits = (finite(logits, update).argmax(-1) == batch.targets).numpy()
                if start == 0:
                    hits[:, 0] = True  # the begin token, which is not scored
                so_far = np.logical_and.accumulate(hits, axis=1) & sound[:, None]
                stop = start + hits.shape[1]
                right[start:stop], unbroken[start:stop] = hits.sum(axis=0), so_far.sum(axis=0)
                sound, start = so_far[:, -1], stop
        return _summary(right[1:], unbroken[1:], self.stream_words)


def _summary(right: np.ndarray, unbroken: np.ndarray, words: int) -> dict[str, Any]:
    """A stream by its powers of two: accuracy of the positions since the one before, and words without any error."""
    length = len(right)
    ends = [*(2**power for power in range(length.bit_length()) if 2**power < length), length]
    joint, last = Proportion(int(unbroken[-1]), words), Proportion(int(right[-1]), words)
    return {
        "words": words,
        "length": length,
        "token": float(right.sum() / (words * length)),
        "last": last.value,
        "last_interval": list(last.interval()),
        "joint": joint.value,
        "joint_interval": list(joint.interval()),
        "positions": ends,
        "accuracy": [float(right[begin:end].mean() / words) for begin, end in zip([0, *ends[:-1]], ends, strict=True)],
        "unbroken": [float(unbroken[end - 1] / words) for end in ends],
    }

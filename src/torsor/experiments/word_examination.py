"""The examination of a word problem: accuracies over held-out words at several depths, from one pass."""

from dataclasses import dataclass
from typing import Any, final

import torch
from torch import nn

from torsor.experiments.evaluating import device_of
from torsor.experiments.study import Examination, NonFiniteLogitsError
from torsor.tasks import Scores, WordProblem, score
from torsor.tasks.word_problem import MOST_TOKENS

GLANCE_WORDS = 256
SCORED_AT_ONCE = 500  # words in one forward pass


@final
@dataclass(frozen=True)
class WordExamination(Examination):
    """Score a looped model on words that training does not draw.

    Args:
        task: the word problem.
        depths: the numbers of loops at which the trained model is scored.
        trained_steps: the largest number of loops in training, at which is glanced.
        words: how many words the trained model is scored on.

    Raises:
        ValueError: when ``words`` is below 1, or they are more tokens than a task gives at once.
    """

    task: WordProblem
    depths: tuple[int, ...]
    trained_steps: int
    words: int

    def __post_init__(self) -> None:
        # what is first used after the training is refused before it
        require_tokens("words", self.words, self.task)

    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        (scores,) = self._scores(model, (self.trained_steps,), GLANCE_WORDS, update)
        return {
            "steps": self.trained_steps,
            "joint": scores.joint.value,
            "token": scores.token,
            "last": scores.last.value,
        }

    @property
    def tokens(self) -> int:
        return self.words * (self.task.length + 1)

    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The task, the trained depth, and for each depth the scores with their intervals."""
        scores = self._scores(model, self.depths, self.words, update)
        return {
            "task": {
                "group": self.task.group.name,
                "length": self.task.length,
                "alphabet": self.task.alphabet,
                "words": self.words,
            },
            "trained_steps": self.trained_steps,
            "depths": [{"steps": steps} | each.to_json() for steps, each in zip(self.depths, scores, strict=True)],
        }

    @torch.no_grad()
    def _scores(self, model: nn.Module, depths: tuple[int, ...], words: int, update: int) -> list[Scores]:
        batch = self.task.evaluation(words)
        device = device_of(model)
        was_training = model.training
        model.eval()
        parts = []
        for start in range(0, words, SCORED_AT_ONCE):
            rows = slice(start, start + SCORED_AT_ONCE)
            logits = model(batch.tokens[rows].to(device), steps=depths).cpu()
            if not logits.isfinite().all():
                raise NonFiniteLogitsError(update)
            parts.append([score(each, batch.targets[rows]) for each in logits])
        model.train(was_training)
        totals = parts[0]
        for part in parts[1:]:
            totals = [total + more for total, more in zip(totals, part, strict=True)]
        return totals


def require_tokens(name: str, size: int, task: WordProblem, longest: int | None = None) -> None:
    """Refuse a number of words that is below 1 or more tokens than a task gives at once.

    Args:
        name: of the number.
        size: the number.
        task: the word problem.
        longest: letters of the longest words; the task's own by default.
    """
    positions = (task.length if longest is None else longest) + 1
    if size < 1:
        raise ValueError(f"{name} must be at least 1, got {size}")
    if size * positions > MOST_TOKENS:
        raise ValueError(f"{name} must be at most {MOST_TOKENS // positions}, got {size}")

"""The examination of a looped language model: perplexity and LAMBADA at several depths, each from one pass."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, final

from torch import nn

from torsor.experiments.evaluating import device_of
from torsor.experiments.study import Examination, NonFiniteLogitsError
from torsor.tasks import HeldOutText, LastWords

T = TypeVar("T")


@final
@dataclass(frozen=True)
class LanguageExamination(Examination):
    """Score a looped language model on held-out text and, where they are given, on last words.

    Args:
        text: the text, with its hashes, for the record.
        held_out: what perplexity is taken on.
        few: a shorter piece of it, for a glance.
        last_words: LAMBADA's passages; None to leave them out.
        depths: the numbers of loops at which the trained model is scored.
        trained_steps: the mean number of loops in training, at which is glanced.
    """

    text: dict[str, Any]
    held_out: HeldOutText
    few: HeldOutText
    last_words: LastWords | None
    depths: tuple[int, ...]
    trained_steps: int

    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        """Perplexity of a few rows at the mean depth of training."""
        found = _scored(
            model, update, lambda: self.few.perplexity_at_steps(model, (self.trained_steps,), device=device_of(model))
        )
        return {"steps": self.trained_steps, "perplexity": found[self.trained_steps].value}

    @property
    def tokens(self) -> int:
        return self.held_out.rows * self.held_out.context + (self.last_words.tokens if self.last_words else 0)

    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The text, the mean depth of training, and for each depth perplexity and, if wanted, LAMBADA."""
        perplexities = _scored(
            model, update, lambda: self.held_out.perplexity_at_steps(model, self.depths, device=device_of(model))
        )
        words, last = self.last_words, {}
        if words is not None:
            last = _scored(model, update, lambda: words.score_at_steps(model, self.depths, device=device_of(model)))
        return {
            "text": self.text,
            "trained_steps": self.trained_steps,
            "perplexity_by_depth": [{"steps": steps} | perplexities[steps].to_json() for steps in self.depths],
            "lambada_by_depth": [{"steps": steps} | last[steps].to_json() for steps in self.depths if steps in last],
        }


def _scored(model: nn.Module, update: int, scores: Callable[[], T]) -> T:
    was_training = model.training
    model.eval()
    try:
        return scores()
    except FloatingPointError as error:
        raise NonFiniteLogitsError(update) from error
    finally:
        model.train(was_training)

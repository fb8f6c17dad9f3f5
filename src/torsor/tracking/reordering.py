"""How much a model's output depends on the order of the letters before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.answers import Model, asked, logits_of
from torsor.tracking.requirements import require_at_least
from torsor.tracking.resampling import Bootstrapped, bootstrap_mean


@final
@dataclass(frozen=True)
class ReorderSensitivity:
    """Divergence between the outputs of words and of the same words with their letters shuffled.

    Args:
        positions: the lengths of the shuffled beginnings.
        divergence: at each, the mean over words in bits: 0 to 1, with its bootstrap interval.
        moved: at each, the share of words whose true state the shuffling changes. A model that
            tracks the state has this divergence.
    """

    positions: tuple[int, ...]
    divergence: tuple[Bootstrapped, ...]
    moved: tuple[float, ...]

    formula: ClassVar[str] = "mean over words of JS(p(. | word), p(. | shuffled word)), in bits"

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {
            "formula": self.formula,
            "positions": list(self.positions),
            "divergence": [each.to_json() for each in self.divergence],
            "moved": list(self.moved),
        }


@torch.no_grad()
def reorder_sensitivity(
    model: Model,
    task: WordProblem,
    positions: Sequence[int] | None = None,
    words: int = 200,
    generator: torch.Generator | None = None,
) -> ReorderSensitivity:
    r"""Shuffle the first ``t`` letters of words and compare what the model says after them.

    The model reads both words up to position ``t`` and no further. Its whole outputs are compared
    by the Jensen-Shannon divergence in bits. A model that only counts letters has 0 at every position.

    Args:
        model: ``tokens -> logits``, or ``tokens -> (logits, state)``.
        task: the word problem, whose evaluation words are shuffled.
        positions: of the outputs, each at least 1; the powers of two up to the task's length by default.
        words: how many words, at least 1.
        generator: of the shuffles; by default a fresh one of fixed seed, so that two calls agree.

    Raises:
        ValueError: when a position is not in 1 .. length, or the model does not answer as it should.
    """
    require_at_least(1, words=words)
    chosen = tuple(positions or (2**power for power in range(task.length.bit_length()) if 2**power <= task.length))
    for position in chosen:
        if not 1 <= position <= task.length:
            raise ValueError(f"positions must be in 1 .. {task.length}, the task's length, got {position}")
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    batch = task.evaluation(words)
    divergences, moved = [], []
    with asked(model):
        for position in chosen:
            kept = batch.tokens[:, : position + 1]
            shuffled = _shuffled(kept, generator)
            one, other = (
                logits_of(model, tokens, task.vocabulary, task.classes)[:, -1].double().log_softmax(-1)
                for tokens in (kept, shuffled)
            )
            divergences.append(bootstrap_mean(_jensen_shannon(one, other).numpy(force=True)))
            changed = task.label(shuffled)[:, -1] != batch.targets[:, position]
            moved.append(float(changed.double().mean()))
    return ReorderSensitivity(chosen, tuple(divergences), tuple(moved))


def _shuffled(tokens: Int[Tensor, "batch length"], generator: torch.Generator) -> Int[Tensor, "batch length"]:
    """The same letters of every word in an order of its own; the begin token stays."""
    letters = tokens[:, 1:]
    order = torch.rand(letters.shape, generator=generator, dtype=torch.float64).argsort(-1)
    return torch.cat([tokens[:, :1], letters.gather(-1, order)], dim=-1)


def _jensen_shannon(
    one: Float[Tensor, "batch outputs"], other: Float[Tensor, "batch outputs"]
) -> Float[Tensor, "batch"]:
    """In bits, of two laws given by their logarithms."""
    middle = torch.logaddexp(one, other) - log(2)
    parts = [(each.exp() * (each - middle)).sum(-1) for each in (one, other)]
    return ((parts[0] + parts[1]) / (2 * log(2))).clamp(min=0)

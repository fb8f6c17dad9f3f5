"""Whether words that end in one coset are continued alike: what a model's state holds, seen from outside."""

from dataclasses import asdict, dataclass
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.answers import Model, answers_of
from torsor.tracking.requirements import require_at_least
from torsor.tracking.resampling import Bootstrapped, bootstrap_mean


@final
@dataclass(frozen=True)
class ContinuationAgreement:
    """How often two words with one continuation get the same answers after it, over pairs of words.

    Args:
        within: pairs whose beginnings end in one right coset of the subgroup, and in different states
            where the subgroup has more than one.
        across: pairs whose beginnings end in different cosets.
    """

    within: Bootstrapped
    across: Bootstrapped

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        return asdict(self)


def continuation_agreement(
    model: Model,
    task: WordProblem,
    subgroup: tuple[int, ...],
    *,
    beginning: int | None = None,
    continuation: int = 16,
    words: int = 200,
) -> ContinuationAgreement:
    r"""Continue words that end in one coset :math:`H q`, or in two, by the same letters and compare the answers.

    A model whose state is the coset answers alike within, and not across; a model that tracks the
    element does neither. The share of equal answers is taken over the positions of the
    continuation, and its mean over pairs.

    Args:
        model: ``tokens -> logits``, or ``tokens -> (logits, state)``.
        task: the word problem, whose evaluation words begin the pairs.
        subgroup: :math:`H`.
        beginning: letters before the continuation; the task's length by default.
        continuation: letters of the continuation, at least 1.
        words: how many words begin the pairs, at least 2.

    Raises:
        ValueError: when a number is out of range, no two words can be paired, or the model does not
            answer as it should.
    """
    beginning = task.length if beginning is None else beginning
    require_at_least(1, beginning=beginning, continuation=continuation)
    require_at_least(2, words=words)
    batch = task.evaluation(words, beginning + continuation)
    ends = batch.targets[:, beginning]
    coset = torch.tensor(task.group.coset_index(subgroup, "right").copy()).long()[ends]
    alike = coset[:, None] == coset[None]
    same_state = ends[:, None] == ends[None]
    inside = alike & ~same_state if len(subgroup) > 1 else alike & ~torch.eye(words, dtype=torch.bool)
    answers = _continued(model, task, batch.tokens, torch.arange(words), beginning)

    def agreement(partners: Tensor, kind: str) -> Bootstrapped:
        paired = partners.any(-1)
        if not paired.any():
            raise ValueError(f"words must hold a pair that ends in {kind}, got {words} words without one")
        # the next partner after oneself, around the circle, so that no word is everyone's partner
        turned = torch.stack([row.roll(-place) for place, row in enumerate(partners)])
        partner = (turned.int().argmax(-1) + torch.arange(words)) % words
        other = _continued(model, task, batch.tokens, partner, beginning)
        equal = (answers == other).double().mean(-1)[paired]
        return bootstrap_mean(equal.numpy())

    return ContinuationAgreement(agreement(inside, "one coset"), agreement(~alike, "different cosets"))


def _continued(
    model: Model, task: WordProblem, tokens: Int[Tensor, "batch length"], begun: Int[Tensor, "batch"], beginning: int
) -> Int[Tensor, "batch continuation"]:
    """The answers over each word's own continuation, after the beginning of the word that ``begun`` names."""
    words = torch.cat([tokens[begun, : beginning + 1], tokens[:, beginning + 1 :]], dim=1)
    at_once = max(1, 2**24 // (words.shape[1] * (task.classes + 1)))
    return answers_of(model, words, task.vocabulary, task.classes, at_once)[:, beginning + 1 :]

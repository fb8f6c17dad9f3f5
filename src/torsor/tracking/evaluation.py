"""A model examined on a suite: scores at every length, the controls beside them, and the algebra of the errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final, overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tasks import IGNORED, Batch, Scores
from torsor.tracking.answers import Model, answers_of
from torsor.tracking.ceiling import order_blind_ceilings
from torsor.tracking.frontiers import Frontier, frontier
from torsor.tracking.reading import Chunked, Step
from torsor.tracking.resampling import Bootstrapped, bootstrap_mean, bootstrap_ratio
from torsor.tracking.stage_fit import CosetFit, coset_fit
from torsor.tracking.streaming import Stream, StreamEvaluation, follow
from torsor.tracking.suite import Suite

EXACT_THRESHOLDS = (0.75, 0.90, 0.99)
QUOTIENT_THRESHOLD = 0.90
TRANSITION = 6  # positions after the exact frontier that belong to neither side


@final
@dataclass(frozen=True)
class QuotientScores:
    """How well the coset of a normal subgroup is tracked, whatever the answer is inside it.

    Args:
        subgroup: the normal subgroup :math:`N`.
        scores: an answer counts as right in the coset of the state.
        frontier: of these, at 0.90.
        exact_given_coset: the share of right answers among those in the right coset, beyond the exact
            frontier; 1 / |N| where nothing inside is known. None where there is no such answer.
    """

    subgroup: tuple[int, ...]
    scores: Scores
    frontier: Frontier
    exact_given_coset: Bootstrapped | None

    def to_json(self) -> dict[str, Any]:
        """The scores with their intervals as a plain dictionary."""
        return {
            "subgroup": list(self.subgroup),
            "order": len(self.subgroup),
            "uniform_inside": 1 / len(self.subgroup),
            "frontier": self.frontier.to_json(),
            "exact_given_coset": self.exact_given_coset.to_json() if self.exact_given_coset else None,
            **self.scores.to_json(),
        }


@final
@dataclass(frozen=True)
class LengthEvaluation:
    """What a model does on words of one length.

    Args:
        length: letters in each word.
        multiple: of the trained length.
        scores: an answer counts as right where it is the state.
        token: the share of right answers over all positions, with a bootstrap interval over words.
        frontiers: of these, at 0.75, 0.90 and 0.99.
        quotients: of every proper, non-trivial normal subgroup.
        abelian: those of the commutator subgroup, the control that a counter of letters can pass; None
            where the group has no commutative quotient, or is commutative.
        window: the first position of the stage test, six beyond the frontier at 0.75.
        stage: what the errors from there on agree on; None where the window is empty.
        chance: 1 / order.
        ceiling: the order-blind ceiling at the last position, "exact" or a "bound".
        familiar: scores on words without the held-out pairs, where there are such.
        forced: scores on words with them.
    """

    length: int
    multiple: int
    scores: Scores
    token: Bootstrapped
    frontiers: tuple[Frontier, ...]
    quotients: tuple[QuotientScores, ...]
    abelian: QuotientScores | None
    window: int
    stage: CosetFit | None
    chance: float
    ceiling: tuple[float, Literal["exact", "bound"]]
    familiar: Scores | None
    forced: Scores | None

    def to_json(self) -> dict[str, Any]:
        """The scores with their intervals and the controls as a plain dictionary."""
        return {
            "length": self.length,
            "multiple": self.multiple,
            "scores": self.scores.to_json(),
            "token": self.token.to_json(),
            "frontiers": [each.to_json() for each in self.frontiers],
            "quotients": [each.to_json() for each in self.quotients],
            "abelian": list(self.abelian.subgroup) if self.abelian else None,
            "window": self.window,
            "stage": self.stage.to_json() if self.stage else None,
            "chance": self.chance,
            "ceiling": {"value": self.ceiling[0], "kind": self.ceiling[1]},
            "familiar": self.familiar.to_json() if self.familiar else None,
            "forced": self.forced.to_json() if self.forced else None,
        }


@final
@dataclass(frozen=True)
class Evaluation:
    """What a model does on a suite.

    Args:
        group: the name of the group.
        alphabet: "all" or "generators".
        train_length: the length that the model was trained on.
        words: how many words of each length.
        lengths: one entry for each.
    """

    group: str
    alphabet: str
    train_length: int
    words: int
    lengths: tuple[LengthEvaluation, ...]

    def __str__(self) -> str:
        head = f"{self.group}, alphabet {self.alphabet}, trained at length {self.train_length}, {self.words} words each"
        return "\n".join([head, *(_line(each) for each in self.lengths), f"  [stage: {CosetFit.formula}]"])

    def to_json(self) -> dict[str, Any]:
        """All numbers as a plain dictionary."""
        return {
            "group": self.group,
            "alphabet": self.alphabet,
            "train_length": self.train_length,
            "words": self.words,
            "lengths": [each.to_json() for each in self.lengths],
        }


@overload
def evaluate(model: Model, suite: Suite, *, device: torch.device | str = "cpu") -> Evaluation: ...
@overload
def evaluate(model: Step | Chunked, suite: Stream, *, device: torch.device | str = "cpu") -> StreamEvaluation: ...
def evaluate(
    model: Callable[..., Any] | Chunked, suite: Suite | Stream, *, device: torch.device | str = "cpu"
) -> Evaluation | StreamEvaluation:
    r"""Examine any model on the words of a suite, or follow it along a stream.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py`` or, of stages, ``tests/claims/test_cosets.py``:

    * the words are ``task.evaluation(words, length)``, and the scores those of ``torsor.tasks.score``;
    * a model that answers the states scores 1 at every length; one that answers uniformly in the
      cosets of a normal subgroup is right in the coset, 1 / |N| of these times exactly, and has the stage N;
    * how many words it reads at once changes nothing for a model that treats them apart.

    Args:
        model: with a ``Suite``, ``tokens -> logits`` or ``tokens -> (logits, state)``, "batch length
            outputs" with at least one output for each element. With a ``Stream``, ``step(tokens "batch",
            state) -> (logits "batch outputs", state)``, or ``Chunked`` of a callable that reads several
            tokens at once; the first state is None. A module is examined in evaluation mode; any other
            callable, a method of a module among them, as it is.
        suite: the words.
        device: where the tokens are put.

    Raises:
        ValueError: when the model does not know a token, changes its input, or does not return finite
            logits for every token and element.

    Example:
        >>> from torsor.groups import cyclic
        >>> from torsor.tasks import WordProblem
        >>> suite = Suite(WordProblem(cyclic(2), length=4, alphabet="all"), multiples=(1,), words=10)
        >>> evaluate(lambda tokens: torch.zeros(*tokens.shape, 2), suite).lengths[0].chance
        0.5
    """
    if isinstance(suite, Stream):
        return follow(model, suite, device)
    if isinstance(model, Chunked):
        raise ValueError("model must be a callable of tokens alone for a Suite, got Chunked, which reads a Stream")
    ceilings = order_blind_ceilings(suite.task.group, suite.lengths, suite.task.alphabet)
    entries = []
    for multiple, length, ceiling in zip(suite.multiples, suite.lengths, ceilings, strict=True):
        batch = suite.task.evaluation(suite.words, length)
        answers = _answers(model, suite, batch, device)
        familiar = forced = None
        if suite.held_out is not None:
            familiar, forced = (
                Scores.of(_correct(_answers(model, suite, words, device), words.targets))
                for words in (
                    suite.held_out.familiar(suite.words, length),
                    suite.held_out.evaluation(suite.words, length),
                )
            )
        entries.append(_length_evaluation(suite, multiple, batch, answers, ceiling, familiar, forced))
    task = suite.task
    return Evaluation(task.group.name, task.alphabet, task.length, suite.words, tuple(entries))


def _answers(model: Model, suite: Suite, batch: Batch, device: torch.device | str) -> Int[Tensor, "batch length"]:
    at_once = max(1, suite.tokens_at_once // batch.tokens.shape[1])
    return answers_of(model, batch.tokens.to(device), suite.task.vocabulary, suite.task.classes, at_once)


def _correct(answers: Tensor, targets: Tensor) -> Tensor:
    """Which answers are right, without the begin token's position."""
    return (answers == targets)[:, 1:]


def _length_evaluation(
    suite: Suite,
    multiple: int,
    batch: Batch,
    answers: Int[Tensor, "batch length"],
    ceiling: tuple[float, Literal["exact", "bound"]],
    familiar: Scores | None,
    forced: Scores | None,
) -> LengthEvaluation:
    group = suite.task.group
    exact = _correct(answers, batch.targets)
    scores = Scores.of(exact)
    frontiers = tuple(frontier(scores, threshold) for threshold in EXACT_THRESHOLDS)
    window = frontiers[0].value + TRANSITION
    quotients = tuple(
        _quotient_scores(group, subgroup, answers, batch.targets, window)
        for subgroup in group.normal_subgroups()
        if 1 < len(subgroup) < group.order
    )
    stage = None
    if window <= scores.length:
        stage = coset_fit(answers, batch.targets, group, window=slice(window, None))
    commutators = group.commutator_subgroup()
    return LengthEvaluation(
        length=scores.length,
        multiple=multiple,
        scores=scores,
        token=bootstrap_mean(exact.double().mean(-1).numpy()),
        frontiers=frontiers,
        quotients=quotients,
        abelian=next((each for each in quotients if each.subgroup == commutators), None),
        window=window,
        stage=stage,
        chance=1 / group.order,
        ceiling=ceiling,
        familiar=familiar,
        forced=forced,
    )


def _quotient_scores(
    group: FiniteGroup, subgroup: tuple[int, ...], answers: Tensor, targets: Tensor, window: int
) -> QuotientScores:
    # an answer beyond the elements lies in no coset, and the begin token's target in another still
    index = torch.tensor([*group.coset_index(subgroup, "right").tolist(), -1])
    given = index[answers.clamp(max=group.order)]
    scored = targets != IGNORED
    right = (given == index[targets.clamp(min=0)]) & scored
    scores = Scores.of(right[:, 1:])
    inside = right[:, window:].sum(-1).numpy()
    hits = (answers == targets)[:, window:].sum(-1).numpy()
    conditional = bootstrap_ratio(hits, inside) if np.any(inside) else None
    return QuotientScores(subgroup, scores, frontier(scores, QUOTIENT_THRESHOLD), conditional)


def _line(each: LengthEvaluation) -> str:
    low, high = each.scores.joint.interval()
    value, kind = each.ceiling
    return (
        f"  length {each.length}: joint {each.scores.joint.value:.3f} [{low:.3f}, {high:.3f}], token "
        f"{each.scores.token:.3f}, chance {each.chance:.3f}, order-blind {value:.3f} ({kind}); "
        f"{each.stage.finding if each.stage else 'no position beyond the frontier'}"
    )

"""A model examined on a suite: scores at every length, the controls beside them, and the algebra of the errors."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tasks import IGNORED, Batch, Scores
from torsor.tracking.answers import Model, answers_of, asked
from torsor.tracking.ceiling import order_blind_ceilings
from torsor.tracking.frontiers import frontier
from torsor.tracking.reading import Chunked, Step
from torsor.tracking.requirements import require_at_least
from torsor.tracking.resampling import bootstrap_mean, bootstrap_ratio
from torsor.tracking.results import Evaluation, LengthEvaluation, QuotientScores
from torsor.tracking.stage_fit import coset_fit
from torsor.tracking.streaming import Stream, StreamEvaluation, follow
from torsor.tracking.suite import Suite

EXACT_THRESHOLDS = (0.75, 0.90, 0.99)
QUOTIENT_THRESHOLD = 0.90
TRANSITION = 6  # positions after the exact frontier that belong to neither side


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
      cosets of a normal subgroup is right in the coset, ``1 / |N|`` of these times exactly, and has the stage N;
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
    (found,) = _evaluations(model, suite, device, ())
    return found


def evaluate_depths(
    model: Callable[..., Any], suite: Suite, depths: Sequence[int], *, device: torch.device | str = "cpu"
) -> dict[int, Evaluation]:
    """Examine a looped model at several depths, from one pass over the words.

    Args:
        model: ``model(tokens, steps=(4, 8)) -> logits`` with the depths on a new first axis, as ``LoopedTransformer``.
        suite: the words.
        depths: numbers of loops, at least one, each once.
        device: where the tokens are put.

    Returns:
        What ``evaluate`` finds at each depth.

    Raises:
        ValueError: as ``evaluate``, or when depths are not positive numbers, each once.

    Example:
        >>> from torsor.groups import cyclic
        >>> from torsor.tasks import WordProblem
        >>> suite = Suite(WordProblem(cyclic(2), length=4, alphabet="all"), multiples=(1,), words=10)
        >>> list(evaluate_depths(lambda tokens, steps: torch.zeros(len(steps), *tokens.shape, 2), suite, (1, 3)))
        [1, 3]
    """
    if not depths or len(set(depths)) != len(depths):
        raise ValueError(f"depths must be one or more, each once, got {list(depths)}")
    for depth in depths:
        require_at_least(1, depths=depth)
    steps = tuple(depths)
    with asked(model):
        found = _evaluations(lambda tokens: model(tokens, steps=steps), suite, device, (len(steps),))
    return dict(zip(steps, found, strict=True))


def _evaluations(
    model: Model, suite: Suite, device: torch.device | str, leading: tuple[int, ...]
) -> tuple[Evaluation, ...]:
    """One evaluation for each place of the first axis, where ``leading`` says that there is one more than usual."""
    task = suite.task
    ceilings = order_blind_ceilings(task.group, suite.lengths, task.alphabet)
    entries = []
    for length, ceiling in zip(suite.lengths, ceilings, strict=True):
        sources = [task.evaluation]
        if suite.held_out is not None:
            sources += [suite.held_out.familiar, suite.held_out.evaluation]
        batch, *others = (source(suite.words, length) for source in sources)
        answers = _answers(model, suite, batch, device, leading)
        apart = [_answers(model, suite, other, device, leading) for other in others]
        entries.append(
            [
                _length_evaluation(
                    suite, batch, each, ceiling, *_scores_apart(others, [other[place] for other in apart])
                )
                for place, each in enumerate(answers)
            ]
        )
    return tuple(
        Evaluation(task.group.name, task.alphabet, task.length, suite.words, lengths)
        for lengths in zip(*entries, strict=True)
    )


def _scores_apart(batches: list[Batch], answers: list[Tensor]) -> tuple[Scores | None, Scores | None]:
    """The scores on words without the held-out pairs and with them; None where nothing is held out."""
    if not batches:
        return None, None
    familiar, forced = (Scores.of(_correct(each, batch.targets)) for each, batch in zip(answers, batches, strict=True))
    return familiar, forced


def _answers(
    model: Model, suite: Suite, batch: Batch, device: torch.device | str, leading: tuple[int, ...]
) -> Int[Tensor, "places batch length"]:
    at_once = max(1, suite.tokens_at_once // batch.tokens.shape[1])
    task = suite.task
    answers = answers_of(model, batch.tokens.to(device), task.vocabulary, task.classes, at_once, leading)
    return answers if leading else answers[None]


def _correct(answers: Tensor, targets: Tensor) -> Tensor:
    """Which answers are right, without the begin token's position."""
    return (answers == targets)[:, 1:]


def _length_evaluation(
    suite: Suite,
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
    stage, counted = None, 1
    if window <= scores.length:
        counted = window
        stage = coset_fit(answers, batch.targets, group, window=slice(window, None))
    commutators = group.commutator_subgroup()
    return LengthEvaluation(
        length=scores.length,
        multiple=scores.length / suite.task.length,
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
        confusion=_confusion(answers[:, counted:], batch.targets[:, counted:], group.order),
    )


def _confusion(answers: Tensor, targets: Tensor, order: int) -> tuple[tuple[int, ...], ...]:
    pairs = targets.flatten() * (order + 1) + answers.flatten().clamp(max=order)
    counts = pairs.bincount(minlength=order * (order + 1)).reshape(order, order + 1)
    return tuple(map(tuple, counts.tolist()))


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

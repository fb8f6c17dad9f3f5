"""The examination of a learned tracker: words by length, held-out pairs, coset stages, a stream and a proof."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, final

import torch
from torch import Tensor, nn

from torsor.experiments.evaluating import device_of, evaluating, finite
from torsor.experiments.state_examination import GLANCE_WORDS, SCORED_AT_ONCE, StateExamination
from torsor.experiments.study import RecallingExamination
from torsor.tasks import Batch, Scores, WordProblem
from torsor.tracking import (
    CosetFit,
    HeldOutPairs,
    StageTracker,
    SubgroupFit,
    Suite,
    coset_fit,
    evaluate,
    frontier,
    prove_closure,
)
from torsor.tracking.evaluation import EXACT_THRESHOLDS, TRANSITION
from torsor.tracking.tracked import thinned

MOST_STATES = 1000  # of the walk that looks for a proof; a tracker with more is called not finite


@final
@dataclass(frozen=True)
class TrackingExamination(RecallingExamination):
    """Score a tracker at the trained length, twice and four times it, on held-out pairs, streamed, and by a proof.

    Args:
        task: the word problem, of the trained length.
        held_out: the pairs that training has left out, where it has.
        words: how many words of each length.
        stream_length: letters of each streamed word.
        stream_words: how many words are streamed.
        carries_state: whether the model can be read on token by token at constant memory; only then is it streamed
            and is a proof looked for.
    """

    task: WordProblem
    held_out: HeldOutPairs | None
    words: int
    stream_length: int
    stream_words: int
    carries_state: bool = True
    _stages: StageTracker = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_stages", StageTracker(self.task.group))
        # what is first used after the training is refused before it
        self._of_state()
        self._suite()

    def recall(self, glances: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        for update, glance in glances:
            self._stages.note(update, stage_of(glance["stage"]))

    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        """Accuracies at the trained length, and under "stage" what the errors say of every subgroup."""
        found, fit = self._look(model, update)
        self._stages.note(update, fit.stage)
        return found | {"stage": fit.to_json()}

    @property
    def tokens(self) -> int:
        by_state = self._of_state()
        lengths = by_state.tokens if self.carries_state else self.words * sum(by_state.lengths)
        again = 3 if self.held_out is not None else 1
        return lengths + (again * self.words + GLANCE_WORDS) * (self.task.length + 1)

    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The task, scores by length, on held-out pairs and of the stream, the proof, and the stages that lasted."""
        found = self._by_state(model, update) if self.carries_state else self._whole(model, update)
        if self.held_out is not None:
            pairs = self.held_out
            found["held_out"] = {
                "pairs": len(pairs.pairs),
                "familiar": self._scores(model, pairs.familiar(self.words), update).to_json(),
                "forced": self._scores(model, pairs.evaluation(self.words), update).to_json(),
            }
        # of the trained length: quotients, their frontiers, and how much is known inside a coset that is known
        whole = evaluate(model, self._suite(), device=device_of(model))
        found["cosets"] = thinned(whole.lengths[0].to_json())
        final, fit = self._look(model, update)
        return found | {"stages": self._stages.to_json(), "final": final | {"stage": fit.to_json()}}

    def _of_state(self) -> StateExamination:
        return StateExamination(self.task, self.words, self.stream_length, self.stream_words)

    def _suite(self) -> Suite:
        return Suite(self.task, multiples=(1,), words=self.words)

    def _look(self, model: nn.Module, update: int) -> tuple[dict[str, Any], CosetFit]:
        batch = self.task.evaluation(GLANCE_WORDS)
        answers = self._answers(model, batch.tokens, update)
        scores = Scores.of((answers == batch.targets)[:, 1:])
        # the errors beyond what is known exactly, or all of the second half where the whole word is nearly known
        window = min(frontier(scores, EXACT_THRESHOLDS[0]).value + TRANSITION, self.task.length // 2)
        fit = coset_fit(answers, batch.targets, self.task.group, window=slice(window, None))
        return {"token": scores.token, "last": scores.last.value, "joint": scores.joint.value}, fit

    def _by_state(self, model: nn.Module, update: int) -> dict[str, Any]:
        found = self._of_state().evaluate(model, update)
        with evaluating(model):
            closed = prove_closure(
                model.step,  # pyright: ignore[reportArgumentType]
                self.task,
                most=MOST_STATES,
                device=device_of(model),
            )
        return found | {"closure": closed.to_json()}

    def _whole(self, model: nn.Module, update: int) -> dict[str, Any]:
        task, lengths = self.task, [self.task.length * multiple for multiple in (1, 2, 4)]
        return {
            "task": {
                "group": task.group.name,
                "length": task.length,
                "alphabet": task.alphabet,
                "words": self.words,
            },
            "lengths": [self._scores(model, task.evaluation(self.words, each), update).to_json() for each in lengths],
        }

    def _scores(self, model: nn.Module, batch: Batch, update: int) -> Scores:
        answers = self._answers(model, batch.tokens, update)
        return Scores.of((answers == batch.targets)[:, 1:])

    @torch.no_grad()
    def _answers(self, model: nn.Module, tokens: Tensor, update: int) -> Tensor:
        device = device_of(model)
        with evaluating(model):
            return torch.cat([_answer(model(part.to(device)), update) for part in tokens.split(SCORED_AT_ONCE)])


def _answer(outputs: Any, update: int) -> Tensor:
    return finite(outputs[0] if isinstance(outputs, tuple) else outputs, update).argmax(-1)


def stage_of(fit: Mapping[str, Any]) -> SubgroupFit | None:
    """The stage of a fit that was written down as ``CosetFit.to_json`` gives it."""
    stage = fit["stage"]
    if stage is None:
        return None
    known: dict[str, Any] = {each.name: stage[each.name] for each in fields(SubgroupFit)}
    known["subgroup"] = tuple(known["subgroup"])
    return SubgroupFit(**known)

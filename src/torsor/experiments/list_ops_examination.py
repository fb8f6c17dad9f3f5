"""The examination of ListOps: how many expressions are evaluated right, and what a mere glance at them would give."""

from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.experiments.evaluating import device_of, evaluating, finite
from torsor.experiments.study import Examination, Step
from torsor.tasks import IGNORED, Batch, ListOps, Proportion
from torsor.tasks.list_trees import OPERATORS, PAD

GLANCE_EXPRESSIONS = 256
SCORED_AT_ONCE = 100  # expressions in one forward pass


@final
@dataclass(frozen=True)
class MeanPass(Step):
    """The model's logits averaged over an expression's tokens without padding: a readout of the mean features."""

    def forward(self, model: nn.Module, tokens: Tensor, update: int, rows: slice) -> Tensor:
        logits = model(tokens)[0]
        there = (tokens != PAD)[..., None].to(logits.dtype)
        mean = (logits * there).sum(dim=1) / there.sum(dim=1)
        return mean[:, None].expand_as(logits)

    def notes(self, update: int) -> dict[str, Any]:
        return {}


@final
@dataclass(frozen=True)
class ListOpsExamination(Examination):
    """Score a model on expressions that training does not draw, half of them for validation and half for the test.

    Args:
        task: the expressions.
        step: how an answer is read from the model.
        expressions: how many each of validation and test have, at least 1.

    Raises:
        ValueError: when ``expressions`` is below 1.
    """

    task: ListOps
    step: Step
    expressions: int

    def __post_init__(self) -> None:
        if self.expressions < 1:
            raise ValueError(f"expressions must be at least 1, got {self.expressions}")

    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The share of right answers among a few of the expressions for validation."""
        batch = self.task.evaluation(min(GLANCE_EXPRESSIONS, self.expressions))
        answers, truth = self._answers(model, batch, update), _values(batch)
        return {"accuracy": float((answers == truth).double().mean())}

    @property
    def tokens(self) -> int:
        return 2 * self.expressions * self.task.longest

    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The task, and for validation and test the accuracies and what the controls give."""
        batch = self.task.evaluation(2 * self.expressions)
        answers, truth = self._answers(model, batch, update), _values(batch)
        halves = {"validation": slice(self.expressions), "test": slice(self.expressions, None)}
        return {
            "task": {name: getattr(self.task, name) for name in ("depth", "arguments", "shortest", "longest")},
            "expressions": {
                name: summary(batch.tokens[rows], truth[rows], answers[rows]) for name, rows in halves.items()
            },
        }

    @torch.no_grad()
    def _answers(self, model: nn.Module, batch: Batch, update: int) -> Int[Tensor, "batch"]:
        device, parts = device_of(model), []
        with evaluating(model):
            for start in range(0, len(batch.tokens), SCORED_AT_ONCE):
                rows = slice(start, start + SCORED_AT_ONCE)
                logits = finite(self.step.forward(model, batch.tokens[rows].to(device), update, rows), update)
                parts.append(_at_the_end(logits, batch.targets[rows]).argmax(-1))
        return torch.cat(parts)


def summary(
    tokens: Int[Tensor, "batch length"], truth: Int[Tensor, "batch"], answers: Int[Tensor, "batch"]
) -> dict[str, Any]:
    """Scores of some expressions, and the controls on the same ones, as plain numbers.

    ``balanced`` is the mean over the values that occur of the accuracy where it is the value. ``commonest`` always
    answers the value that is commonest here; ``first_operator`` the commonest one of its outermost operator: what
    can be had without reading on. Both know the answers, and so bound what such rules reach.

    Args:
        tokens: the expressions.
        truth: their values.
        answers: of the model.
    """
    right = answers == truth
    proportion = Proportion(int(right.sum()), len(truth))
    groups = {kind: (tokens[:, 0] == kind).nonzero()[:, 0] for kind in OPERATORS}
    return {
        "expressions": len(truth),
        "accuracy": proportion.value,
        "interval": list(proportion.interval()),
        "balanced": float(torch.stack([right[truth == value].double().mean() for value in truth.unique()]).mean()),
        "values": truth.bincount(minlength=10).tolist(),
        "commonest": _commonest(truth) / len(truth),
        "first_operator": sum(_commonest(truth[rows]) for rows in groups.values() if len(rows)) / len(truth),
        "by_operator": {
            name: {"expressions": len(rows), "right": int(right[rows].sum())}
            for name, rows in zip(("min", "max", "median", "sum_mod"), groups.values(), strict=True)
        },
    }


def _commonest(truth: Int[Tensor, "batch"]) -> int:
    return int(truth.bincount().max())


def _values(batch: Batch) -> Int[Tensor, "batch"]:
    """The one target of every expression."""
    return batch.targets[batch.targets != IGNORED]


def _at_the_end(
    logits: Float[Tensor, "batch length classes"], targets: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch classes"]:
    return logits[targets != IGNORED]

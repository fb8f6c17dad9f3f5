"""What one run needs: a model, a task, a plan, and how the trained model is examined."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from torch import Tensor, nn
from torch.optim import Optimizer

from torsor.tasks import Task
from torsor.training import Engine, NonFiniteLoss, Plan, SingleProcess
from torsor.transitions import Transition


class Step(ABC):
    """The forward pass of an update; a pure function of the model, the tokens and the update's number."""

    @abstractmethod
    def forward(self, model: nn.Module, tokens: Tensor, update: int, rows: slice) -> Tensor:
        """The logits of these rows of the batch of update number ``update``, from 0."""

    @abstractmethod
    def notes(self, update: int) -> dict[str, Any]:
        """What the log of update number ``update`` says besides its loss."""


@final
@dataclass(frozen=True)
class WholePass(Step):
    """The model called with its tokens; of a recurrent model's two outputs, the first.

    A model that refuses its own numbers, as one whose states lie on a group does when they overflow, has diverged
    like one whose loss is not finite.
    """

    def forward(self, model: nn.Module, tokens: Tensor, update: int, rows: slice) -> Tensor:
        try:
            outputs = model(tokens)
        except FloatingPointError as error:
            raise NonFiniteLoss(update + 1, math.nan, math.nan) from error
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def notes(self, update: int) -> dict[str, Any]:
        return {}


class Examination(ABC):
    """How a model is scored: in passing while it is trained, and thoroughly at the end.

    To add one: a final class with the three members, and a ``Reading`` for the tables that show it.
    """

    @abstractmethod
    def glance(self, model: nn.Module, update: int) -> dict[str, Any]:
        """A quick score on data that is not trained on; its numbers are shown while the run goes on.

        Args:
            model: as it is; it is left in the mode it was in.
            update: how many updates it has had.

        Raises:
            NonFiniteLogitsError: when the model's logits are not finite.
        """

    @property
    @abstractmethod
    def tokens(self) -> int:
        """About how many tokens ``evaluate`` lets the model read, for those who wait for it."""

    @abstractmethod
    def evaluate(self, model: nn.Module, update: int) -> dict[str, Any]:
        """The scores that ``evaluation.json`` holds, with the task they are of.

        Args:
            model: as it is; it is left in the mode it was in.
            update: how many updates it has had.

        Raises:
            NonFiniteLogitsError: when the model's logits are not finite.
        """


class RecallingExamination(Examination, ABC):
    """An examination whose evaluation rests on the glances before it too."""

    @abstractmethod
    def recall(self, glances: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Take up the glances of a run that was broken off: the update of each, and what ``glance`` gave.

        Called once before any glance, so that a run which goes on is evaluated as one in one piece.
        """


class NonFiniteLogitsError(ArithmeticError):
    """The trained model gave logits that are infinite or not a number.

    Args:
        update: how many updates its parameters have had.
    """

    def __init__(self, update: int) -> None:
        super().__init__(f"update {update} left a model whose logits are not finite")


@final
@dataclass(frozen=True)
class Study:
    """The parts of one run, built and untrained.

    Args:
        label: the row's name in a table, "conformal, 2 groups".
        model: what is trained.
        optimizer: over the model's parameters.
        task: where batches come from.
        plan: how many updates, and how.
        examination: how the model is scored.
        seed: of the run: initial weights, batches and depths.
        data: hashes of what is read from files; nothing where all data are made from the seed.
        step: the forward pass of an update.
        transition: the part of the model that carries its state, which the diagnostics look at; None
            where there is no such part.
        engine: the machine and its precision.
    """

    label: str
    model: nn.Module
    optimizer: Optimizer
    task: Task
    plan: Plan
    examination: Examination
    seed: int
    data: Mapping[str, Any] = field(default_factory=dict)
    step: Step = field(default_factory=WholePass)
    transition: Transition | None = None
    engine: Engine = field(default_factory=SingleProcess)

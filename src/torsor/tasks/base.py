"""The abstract task: batches that are a function of the update's number, and a batch to evaluate on."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from torsor.tensors import require_tensor

IGNORED = -100  # cross_entropy's own default: a target that is not scored


@final
@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens, and at the same positions the classes to predict.

    Args:
        tokens: what the model reads, int64.
        targets: the class at each position, int64; -100 (``IGNORED``) where nothing is scored.

    Raises:
        ValueError: when one is no tensor, or the two differ in shape.
    """

    tokens: Int[Tensor, "batch length"]
    targets: Int[Tensor, "batch length"]

    def __post_init__(self) -> None:
        require_tensor("tokens", self.tokens)
        require_tensor("targets", self.targets)
        if self.tokens.shape != self.targets.shape:
            shapes = f"{tuple(self.tokens.shape)} and {tuple(self.targets.shape)}"
            raise ValueError(f"tokens and targets must have one shape, got {shapes}")

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(self.tokens.to(device), self.targets.to(device))


class Task(ABC):
    """Where batches come from.

    Guarantees, each a law over every registered task in ``tests/laws/test_task_laws.py``:

    * a batch depends on the task, the number of the update and the size alone: training resumes
      exactly without a saved iterator;
    * the evaluation batch shares no random stream with any training batch;
    * tokens are in ``0 .. vocabulary - 1``, and targets in ``0 .. classes - 1`` or -100.

    To add a task: a final class with the four members below, and one line in ``tests/cases.py``.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """Number of different tokens."""

    @property
    @abstractmethod
    def classes(self) -> int:
        """Number of different targets."""

    @abstractmethod
    def batch(self, update: int, size: int) -> Batch:
        """The training batch of an optimizer update.

        Args:
            update: the number of the update, from 0.
            size: number of sequences, at least 1.
        """

    @abstractmethod
    def evaluation(self, size: int) -> Batch:
        """The first ``size`` sequences to evaluate on, the same at every call.

        Args:
            size: number of sequences, at least 1.
        """

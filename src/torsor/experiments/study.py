"""What one run needs: a model, a task, a plan, and what is looked at in the end."""

from dataclasses import dataclass
from typing import final

from torch import Tensor, nn
from torch.optim import Optimizer

from torsor.recurrence.depth import Depth
from torsor.tasks import WordProblem
from torsor.tasks.word_problem import MOST_TOKENS
from torsor.training import Plan
from torsor.transitions import Transition


@final
@dataclass(frozen=True)
class Study:
    """The parts of one run, built and untrained.

    Args:
        label: the row's name in a table, "conformal, 2 groups".
        model: what is trained.
        transition: the part of the model that carries its state, which the diagnostics look at.
        optimizer: over the model's parameters.
        task: where batches come from.
        plan: how many updates, and how.
        depth: the loops of each update; a pure function of the seed and the update.
        depths: the numbers of loops at which the trained model is scored.
        trained_steps: the largest number of loops in training.
        words: how many words the trained model is scored on.
        seed: of the run: initial weights, batches and depths.

    Raises:
        ValueError: when ``words`` is below 1, or they or a batch are more tokens than a task gives at once.
    """

    label: str
    model: nn.Module
    transition: Transition
    optimizer: Optimizer
    task: WordProblem
    plan: Plan
    depth: Depth
    depths: tuple[int, ...]
    trained_steps: int
    words: int
    seed: int

    def __post_init__(self) -> None:
        # what is first used after the training is refused before it
        if self.words < 1:
            raise ValueError(f"words must be at least 1, got {self.words}")
        for name, size in (("words", self.words), ("batch", self.plan.batch)):
            if size * (self.task.length + 1) > MOST_TOKENS:
                raise ValueError(f"{name} must be at most {MOST_TOKENS // (self.task.length + 1)}, got {size}")

    def steps(self, update: int) -> int:
        """The number of loops of update number ``update``, from 0."""
        return self.depth.at(self.seed, update)

    def forward(self, model: nn.Module, tokens: Tensor, update: int) -> Tensor:
        """The forward pass of update number ``update``."""
        return model(tokens, steps=self.steps(update))

"""What one training run does, apart from model, task and optimizer."""

from dataclasses import dataclass, field
from typing import final

from torsor.training.curriculum import Curriculum, WholeSequence
from torsor.training.schedule import Schedule


@final
@dataclass(frozen=True)
class Plan:
    """How many updates on how large batches, and how the rate, the gradient and the length are held.

    The peak learning rate is the optimizer's own, so that it stands in one place and every parameter
    group may have another.

    Args:
        updates: number of updates of the whole run, at least 1; also the schedule's horizon.
        batch: sequences per update, at least 1.
        clip: largest joint 2-norm of the gradients, positive; ``math.inf`` for no limit.
        schedule: the factor on the learning rate of each update.
        curriculum: the length of each batch.
        parts: into how many parts a batch is cut that go forward and backward one after another, at
            least 1; more of them take less memory, and the update is the same up to rounding.

    Raises:
        ValueError: when an argument is out of its range.
    """

    updates: int
    batch: int
    clip: float = 1.0
    schedule: Schedule = field(default_factory=Schedule)
    curriculum: Curriculum = field(default_factory=WholeSequence)
    parts: int = 1

    def __post_init__(self) -> None:
        if self.updates < 1:
            raise ValueError(f"updates must be at least 1, got {self.updates}")
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1, got {self.batch}")
        if self.parts < 1:
            raise ValueError(f"parts must be at least 1, got {self.parts}")
        if not self.clip > 0:
            raise ValueError(f"clip must be positive, got {self.clip}")

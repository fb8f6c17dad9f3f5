"""How long the sequences of a batch are, as the loss falls."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class CurriculumState:
    """Where a curriculum stands: small, and stored in the checkpoint to the last bit.

    Args:
        stage: number of the present length, from 0.
        mean: running mean of the loss at this stage.
        count: number of updates at this stage.
    """

    stage: int = 0
    mean: float = 0.0
    count: int = 0


class Curriculum(ABC):
    """A rule for the length of the next batch; it has no state of its own.

    To add one: a final class with the two methods. What it must remember is a ``CurriculumState``.
    """

    @abstractmethod
    def length(self, state: CurriculumState) -> int | None:
        """The number of letters to train on: positions after the first one; None for all of them."""

    @abstractmethod
    def after(self, state: CurriculumState, loss: float) -> CurriculumState:
        """The state after an update whose mean loss over the labels was ``loss``."""


@final
@dataclass(frozen=True)
class WholeSequence(Curriculum):
    """No curriculum: every batch at the task's full length."""

    def length(self, state: CurriculumState) -> None:
        return None

    def after(self, state: CurriculumState, loss: float) -> CurriculumState:
        return state


@final
@dataclass(frozen=True)
class LengthCurriculum(Curriculum):
    r"""Start at the first length, and go to the next one whenever the running loss is low.

    The running mean of update :math:`k = 1, 2, \dots` of a stage is
    :math:`m_k = s_k m_{k-1} + (1 - s_k) \ell_k` with :math:`s_k = \min(s, 1 - 1/k)`: the plain mean
    at first and the exponential one later, so that no starting value has to be made up. Once
    :math:`m_k` is under the threshold the next length begins with a new mean; the last one stays.

    Args:
        lengths: letters per sequence, increasing, at least 1 each; the last is usually the task's.
        threshold: mean cross entropy, in nats, under which a length counts as learned; positive.
        smoothing: weight :math:`s` of the past in the exponential mean, in [0, 1).

    Raises:
        ValueError: when an argument is out of its range.

    Example:
        >>> curriculum = LengthCurriculum(lengths=(2, 4), threshold=0.25)
        >>> state = CurriculumState()
        >>> [curriculum.length(state := curriculum.after(state, loss)) for loss in (0.4, 0.1, 0.04, 0.9)]
        [2, 2, 4, 4]
    """

    lengths: tuple[int, ...]
    threshold: float = 0.25
    smoothing: float = 0.9

    def __post_init__(self) -> None:
        increasing = all(low < high for low, high in zip(self.lengths, self.lengths[1:], strict=False))
        if not self.lengths or self.lengths[0] < 1 or not increasing:
            raise ValueError(f"lengths must increase and start at 1 or more, got {self.lengths}")
        if not self.threshold > 0:
            raise ValueError(f"threshold must be positive, got {self.threshold}")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing must be in [0, 1), got {self.smoothing}")

    def length(self, state: CurriculumState) -> int:
        if state.stage >= len(self.lengths):
            raise ValueError(f"stage must be under the number of lengths = {len(self.lengths)}, got {state.stage}")
        return self.lengths[state.stage]

    def after(self, state: CurriculumState, loss: float) -> CurriculumState:
        count = state.count + 1
        smoothing = min(self.smoothing, 1 - 1 / count)
        mean = smoothing * state.mean + (1 - smoothing) * loss
        if mean < self.threshold and state.stage + 1 < len(self.lengths):
            return CurriculumState(stage=state.stage + 1)
        return CurriculumState(state.stage, mean, count)

"""Which loops of earlier tokens a cache keeps: all of them, the last, or a budget."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final


class CachePolicy(ABC):
    """How many keys and values a cache keeps of each core layer and token, and which of them a loop reads.

    Loop number ``t``, from 0, writes the keys and values of the tokens that are read into the slot ``slot(t)``
    and reads those of all tokens before from the same slot: of a token that was read earlier, what it
    last wrote there. A token that has made fewer loops than there are slots has its last keys and
    values in the slots that it did not reach. The tokens of one piece see each other at the same
    loop under every policy; one that has ended is seen as it ended.

    To add one: a final class with the members below.

    Attributes:
        slots: keys and values that are kept of each core layer and token.
    """

    slots: int

    @abstractmethod
    def slot(self, step: int) -> int:
        """The slot of a loop, ``0 .. slots - 1``."""

    @abstractmethod
    def require(self, steps: int) -> None:
        """Refuse more loops than the policy has room for.

        Raises:
            ValueError: when there is no room.
        """


@final
@dataclass(frozen=True)
class Full(CachePolicy):
    """Every loop keeps its own: the cached model is the model, in whatever pieces it reads.

    Args:
        steps: the most loops of a token, at least 1.

    Raises:
        ValueError: when ``steps`` is below 1.
    """

    steps: int

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, got {self.steps}")

    @property
    def slots(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.steps

    def slot(self, step: int) -> int:
        return step

    def require(self, steps: int) -> None:
        if steps > self.steps:
            raise ValueError(f"steps must be at most the {self.steps} loops that the cache has room for, got {steps}")


@final
@dataclass(frozen=True)
class LastLoop(CachePolicy):
    """Earlier tokens are seen at every loop as their last loop left them: the cache does not grow with depth.

    This is another function than the model's: it is what "KV sharing in decoding" and a "budget of 1" mean.
    """

    slots = 1

    def slot(self, step: int) -> int:
        return 0

    def require(self, steps: int) -> None:
        return


@final
@dataclass(frozen=True)
class Budget(CachePolicy):
    """Loop ``t`` writes and reads slot ``t mod slots``: a budget of 1 is ``LastLoop``, one of all loops is ``Full``.

    Args:
        slots: the budget, at least 1.

    Raises:
        ValueError: when ``slots`` is below 1.
    """

    slots: int

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots must be at least 1, got {self.slots}")

    def slot(self, step: int) -> int:
        return step % self.slots

    def require(self, steps: int) -> None:
        return

"""How a model is read: a whole text at once, and on from a state where it carries one."""

from abc import ABC, abstractmethod
from typing import Any, Protocol, final, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from torsor.models.attending import Attending


class Reading(ABC):
    """One way to call models that are called in different ways.

    Attributes:
        carries: whether there is a state to read on from.
    """

    carries: bool

    @abstractmethod
    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        """Logits at every position of whole sequences.

        Args:
            tokens: of the sequences.
            steps: loops, of a model that has any; None for any other.
        """

    @abstractmethod
    def initial_state(self, batch: int) -> Any:
        """The state before the first token: a tensor, or tuples of tensors, whose first axis is the sequence."""

    @abstractmethod
    def read(
        self, tokens: Int[Tensor, "batch length"], state: Any
    ) -> tuple[Float[Tensor, "batch length classes"], Any]:
        """Logits at the positions of a next piece, and the state after it."""


@runtime_checkable
class Recurrent(Protocol):
    """A model that is called with tokens and a state, and gives both back."""

    def initial_state(self, batch: int, /) -> Any: ...

    def __call__(self, tokens: Tensor, state: Any = None, /) -> tuple[Tensor, Any]: ...


@final
class ReadingOn(Reading):
    """A recurrent model.

    Args:
        model: that is read.
    """

    carries = True

    def __init__(self, model: Recurrent) -> None:
        self._model = model

    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        require_no_steps(steps)
        return self._model(tokens)[0]

    def initial_state(self, batch: int) -> Any:
        return self._model.initial_state(batch)

    def read(
        self, tokens: Int[Tensor, "batch length"], state: Any
    ) -> tuple[Float[Tensor, "batch length classes"], Any]:
        return self._model(tokens, state)


@final
class ReadingBack(Reading):
    """A model that attends to all it has read.

    Args:
        model: that is read.
    """

    carries = True

    def __init__(self, model: Attending) -> None:
        self._model = model

    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        require_no_steps(steps)
        return self._model(tokens)

    def initial_state(self, batch: int) -> Any:
        return self._model.initial_state(batch)

    def read(
        self, tokens: Int[Tensor, "batch length"], state: Any
    ) -> tuple[Float[Tensor, "batch length classes"], Any]:
        return self._model.extend(tokens, state)


def require_no_steps(steps: int | None) -> None:
    """Refuse a number of loops where there is no loop.

    Raises:
        ValueError: when one is given.
    """
    if steps is not None:
        raise ValueError(f"steps must be None for a model without a loop, got {steps}")

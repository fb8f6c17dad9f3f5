"""How a model is read: a whole text at once, or piece by piece."""

from abc import ABC, abstractmethod
from typing import Any, Protocol, final, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from torsor.interop.row_cache import RowCache, require_no_steps
from torsor.interop.sequence_cache import SequenceCache
from torsor.models.attending import Attending


class Reading(ABC):
    """One way to call models that are called in different ways."""

    @abstractmethod
    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        """Logits at every position of whole sequences.

        Args:
            tokens: of the sequences.
            steps: loops, of a model that has any; None for any other.
        """

    @abstractmethod
    def cache(self, batch: int, steps: int | None) -> SequenceCache:
        """What sequences that have read nothing go on from.

        Args:
            batch: sequences.
            steps: the most loops, of a model that has any; None for any other.
        """


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

    def __init__(self, model: Recurrent) -> None:
        self._model = model

    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        require_no_steps(steps)
        return self._model(tokens)[0]

    def cache(self, batch: int, steps: int | None) -> SequenceCache:
        require_no_steps(steps)
        return RowCache(self._model, [self._model.initial_state(1) for _ in range(batch)])


@final
class ReadingBack(Reading):
    """A model that attends to all it has read.

    Args:
        model: that is read.
    """

    def __init__(self, model: Attending) -> None:
        self._model = model

    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        require_no_steps(steps)
        return self._model(tokens)

    def cache(self, batch: int, steps: int | None) -> SequenceCache:
        require_no_steps(steps)
        return RowCache(self._model.extend, [self._model.initial_state(1) for _ in range(batch)])

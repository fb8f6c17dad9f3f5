"""A model that reads one token of every sequence at a time."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from torsor.models import LSTM, GroupRNN, LayeredModel, RotRNN
from torsor.models.attending import Attending


@runtime_checkable
class Stepwise(Protocol):
    """A model that reads one token of every sequence at a time."""

    def initial_state(self, batch: int, /) -> Any:
        """The state before the first token."""
        ...

    def step(self, tokens: Int[Tensor, "batch"], state: Any, /) -> tuple[Float[Tensor, "batch classes"], Any]:
        """The logits of the next token, and the state after this one."""
        ...


def read_piece(
    model: Stepwise, tokens: Int[Tensor, "batch length"], state: Any
) -> tuple[Float[Tensor, "batch classes"], Any]:
    """The logits after a piece, and the state: at once where the model can, token by token otherwise.

    Args:
        model: a model of ours reads the piece in parallel.
        tokens: at least one of every sequence.
        state: before the piece.

    Raises:
        ValueError: when there is no token.
    """
    match model:
        case Attending():
            logits, state = model.extend(tokens, state)
            return logits[:, -1], state
        case LSTM() | GroupRNN() | RotRNN() | LayeredModel():
            logits, state = model(tokens, state)
            return logits[:, -1], state
    logits = None
    for each in tokens.unbind(1):
        logits, state = model.step(each, state)
    if logits is None:
        raise ValueError(f"tokens must have at least one token of every sequence, got shape {tuple(tokens.shape)}")
    return logits, state

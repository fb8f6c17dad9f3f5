"""How a model with a state is read on: one token of every word at a time, or a chunk of them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from torsor.kinds import kind_of
from torsor.tracking.answers import asked, asked_for, each_token, require_unchanged
from torsor.tracking.requirements import require_at_least

Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


@final
@dataclass(frozen=True)
class Chunked:
    """A callable that reads several tokens of every word at once, as ``model(tokens, state)`` of a recurrent model.

    Args:
        read: ``(tokens "batch length", state) -> (outputs "batch length ...", state)``; the first state
            is None.
        length: how many tokens it reads at once, at least 1; the last chunk may be shorter.

    Raises:
        ValueError: when ``length`` is below 1.
    """

    read: Step
    length: int = 256

    def __post_init__(self) -> None:
        require_at_least(1, length=self.length)


def read(model: Step | Chunked, tokens: Int[Tensor, "batch length"], state: Any, vocabulary: int) -> tuple[Tensor, Any]:
    """The outputs "batch length ..." at some more positions, and the state after them.

    Args:
        model: ``step(tokens "batch", state) -> (outputs "batch ...", state)``, or the same in chunks.
        tokens: what it reads next.
        state: what it returned last, or None before the first token.
        vocabulary: how many tokens there are, to say so where the model does not know one.

    Raises:
        ValueError: when it cannot read the tokens, changes its input or returns no pair of a tensor and a state.
    """
    given = tokens.clone()
    outputs, state = asked_for(
        lambda: _read(model, given, state),
        lambda: _read(model, each_token(tokens, vocabulary), None),
        vocabulary,
        f"words of {tokens.shape[1]} tokens" if state is None else f"{tokens.shape[1]} tokens more of a word",
    )
    require_unchanged(given, tokens)
    return outputs, state


def _read(model: Step | Chunked, tokens: Int[Tensor, "batch length"], state: Any) -> tuple[Tensor, Any]:
    if isinstance(model, Chunked):
        return _pair(model.read(tokens, state))
    each = []
    for column in tokens.unbind(1):
        output, state = _pair(model(column, state))
        each.append(output)
    return torch.stack(each, dim=1) if each[0].ndim else each[0], state


def asked_to_read(model: Step | Chunked) -> AbstractContextManager[None]:
    """A module that is read on is so in evaluation mode, in chunks or not."""
    return asked(model.read if isinstance(model, Chunked) else model)


def selected(state: Any, rows: Int[Tensor, "rows"]) -> Any:
    """The state of some words: these rows of every tensor in it.

    Args:
        state: tensors, in tuples, lists and dictionaries, as ``has_words_first`` admits them.
        rows: which words.
    """
    if isinstance(state, Tensor):
        return state[rows.to(state.device)]
    if isinstance(state, dict):
        return {key: selected(value, rows) for key, value in state.items()}
    if isinstance(state, tuple | list):
        return type(state)(selected(value, rows) for value in state)
    return state


def has_words_first(state: Any, words: int) -> bool:
    """Whether the rows of a state are beyond doubt its words, so that some of them can be left out.

    Every tensor must have ``words`` rows, and no other axis as long: a state whose words stand on the
    second axis, as torch's own recurrent modules have it, could not be told apart. Only plain
    tuples, lists and dictionaries are looked into. A number of Python's in it, a position say, is part
    of the state and in no row of it: whose it is could not be told.
    """
    if isinstance(state, Tensor):
        return state.ndim > 0 and state.shape[0] == words and words not in state.shape[1:]
    if type(state) is dict:
        return all(has_words_first(value, words) for value in state.values())
    if type(state) in {tuple, list}:
        return all(has_words_first(value, words) for value in state)
    return state is None or isinstance(state, str)


def _pair(result: Any) -> tuple[Tensor, Any]:
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], Tensor):
        raise ValueError(f"the model must return a pair (outputs, state), got {kind_of(result)}")
    return result

"""What a model answers to tokens, with one clear line where it cannot be asked or does not answer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.tracking.requirements import require_outputs

Model = Callable[..., Any]


def logits_of(model: Model, tokens: Int[Tensor, "batch length"], vocabulary: int, classes: int) -> Tensor:
    """The model's logits, "batch length outputs", for a copy of the tokens that it may not change.

    Args:
        model: ``tokens -> logits``, or ``tokens -> (logits, state)`` of a recurrent model.
        tokens: what it reads.
        vocabulary: how many tokens there are, to say so where the model does not know one.
        classes: how many elements the group has. The model may have more outputs; an answer beyond
            the elements is wrong.

    Raises:
        ValueError: when the model does not know a token, changes its input, or returns what are not
            finite logits for every token and class.
    """
    given = tokens.clone()
    with every_token_known(vocabulary):
        result = model(given)
    require_unchanged(given, tokens)
    logits: Any = result[0] if isinstance(result, tuple) and result else result
    require_outputs(logits, tuple(tokens.shape), classes)
    return logits


@torch.no_grad()
def answers_of(
    model: Model, tokens: Int[Tensor, "batch length"], vocabulary: int, classes: int, words_at_once: int
) -> Int[Tensor, "batch length"]:
    """The likeliest output at every position, a few words at a time.

    Of equal logits the smallest class counts as the answer. A module is asked in evaluation mode.

    Raises:
        ValueError: as ``logits_of``.
    """
    with asked(model):
        parts = [likeliest(logits_of(model, part, vocabulary, classes)) for part in tokens.split(words_at_once)]
    return torch.cat(parts)


def likeliest(logits: Float[Tensor, "*positions outputs"]) -> Int[Tensor, "*positions"]:
    """The class with the largest logit, the smallest of equals, on the CPU."""
    if logits.dtype in {torch.float32, torch.float64}:
        # numpy's is eight times faster than torch's
        return torch.from_numpy(np.asarray(logits.numpy(force=True).argmax(-1)))
    return logits.argmax(-1).cpu()


@contextmanager
def asked(model: Model) -> Iterator[None]:
    """A module answers in evaluation mode and goes back to its own mode; any other callable answers as it is."""
    if not isinstance(model, nn.Module):
        yield
        return
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@contextmanager
def every_token_known(vocabulary: int) -> Iterator[None]:
    """Say of a look-up out of range what was looked up.

    Raises:
        ValueError: when the model does not know a token.
    """
    try:
        yield
    except IndexError as error:
        raise ValueError(
            f"the model must read the tokens 0 .. {vocabulary - 1}, the last of which begins a word, got {error}"
        ) from error


def require_unchanged(given: Tensor, tokens: Tensor) -> None:
    """Refuse a model that has written to what it was given.

    Raises:
        ValueError: when the tokens are not what they were.
    """
    if not torch.equal(given, tokens):
        raise ValueError("the model must not change its input, got tokens that it has written to")

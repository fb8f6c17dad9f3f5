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


def logits_of(
    model: Model,
    tokens: Int[Tensor, "batch length"],
    vocabulary: int,
    classes: int,
    leading: tuple[int, ...] = (),
) -> Tensor:
    """The model's logits, "batch length outputs", for a copy of the tokens that it may not change.

    Args:
        model: ``tokens -> logits``, or ``tokens -> (logits, state)`` of a recurrent model.
        tokens: what it reads.
        vocabulary: how many tokens there are, to say so where the model does not know one.
        classes: how many elements the group has. The model may have more outputs; an answer beyond
            the elements is wrong.
        leading: further axes of the logits, before the others.

    Raises:
        ValueError: when the model cannot read the tokens, changes its input, or returns what are not
            finite logits for every token and class.
    """
    given = tokens.clone()
    result = asked_for(
        lambda: model(given),
        lambda: model(each_token(tokens, vocabulary)),
        vocabulary,
        f"words of {tokens.shape[1]} tokens",
    )
    require_unchanged(given, tokens)
    logits: Any = result[0] if isinstance(result, tuple) and result else result
    require_outputs(logits, (*leading, *tokens.shape), classes)
    return logits


@torch.no_grad()
def answers_of(
    model: Model,
    tokens: Int[Tensor, "batch length"],
    vocabulary: int,
    classes: int,
    words_at_once: int,
    leading: tuple[int, ...] = (),
) -> Int[Tensor, "*leading batch length"]:
    """The likeliest output at every position, a few words at a time.

    Of equal logits the smallest class counts as the answer. A module is asked in evaluation mode.

    Raises:
        ValueError: as ``logits_of``.
    """
    with asked(model):
        parts = [
            likeliest(logits_of(model, part, vocabulary, classes, leading)) for part in tokens.split(words_at_once)
        ]
    return torch.cat(parts, dim=-2)


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


def asked_for(ask: Callable[[], Any], probe: Callable[[], Any], vocabulary: int, length: str) -> Any:
    """What a model returns, or one line that says whether it stumbles over a token or over the length.

    Args:
        ask: the model at work.
        probe: the model reading every token in a word by itself: where it can, the length is at fault.
        vocabulary: how many tokens there are.
        length: how many tokens it was to read, in words.

    Raises:
        ValueError: when the model raises what torch raises on tokens, lengths or shapes that do not fit.
    """
    try:
        return ask()
    except (IndexError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError) or "allocate memory" in str(error):
            raise  # no fault of the model's
        said = str(error).strip().partition("\n")[0] or type(error).__name__
        if _works(probe):
            raise ValueError(f"the model must read {length}, got {said}") from error
        raise ValueError(
            f"the model must read the tokens 0 .. {vocabulary - 1}, {vocabulary - 1} letters and the token that begins "
            f"a word; it seems to know fewer, got {said}"
        ) from error


def each_token(like: Int[Tensor, "batch length"], vocabulary: int) -> Int[Tensor, "vocabulary 1"]:
    """Every token in a word by itself."""
    return torch.arange(vocabulary, device=like.device)[:, None]


def _works(probe: Callable[[], Any]) -> bool:
    try:
        probe()
    except (IndexError, RuntimeError):
        return False
    return True


def require_unchanged(given: Tensor, tokens: Tensor) -> None:
    """Refuse a model that has written to what it was given.

    Raises:
        ValueError: when the tokens are not what they were.
    """
    if not torch.equal(given, tokens):
        raise ValueError("the model must not change its input, got tokens that it has written to")

"""Text from a trained model, piece by piece as it is drawn."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import final

import torch

from torsor.experiments.text_model import TextModel
from torsor.generation import CachedLoop, CachePolicy, ExitRule, LoopedReader, Prompts, Sampling, generate
from torsor.models import LoopedTransformer
from torsor.tasks.requirements import require_64_bits

LONGEST_CHARACTER = 4  # bytes of UTF-8: so many tokens may be parts of one character


@final
@dataclass(frozen=True)
class Loops:
    """How a looped model is read.

    Args:
        steps: loops of every token.
        policy: of the cache.
        rule: ends a drawn token before that; None for none.
        warm: start a drawn token from the last state of the one before.
    """

    steps: int
    policy: CachePolicy
    rule: ExitRule | None = None
    warm: bool = False


def generated_text(
    text: TextModel, prompt: str, count: int, sampling: Sampling, seed: int, loops: Loops | None = None
) -> Iterator[str]:
    """Continue a prompt.

    Args:
        text: the model; a looped one is read as ``loops`` says, and only such a one.
        prompt: at least one character, all of them of what the model was trained on.
        count: how many tokens to draw, at least 1.
        sampling: how one is drawn.
        seed: of the draws.
        loops: for a looped model; None for any other.

    Yields:
        The text of one token after another: nothing for a token that ends in the middle of a character, whose text
        comes with the one that completes it.

    Raises:
        ValueError: when the prompt is empty or cannot be encoded, ``count`` is below 1, ``seed`` has not 64 bits, or
            ``loops`` does not go with the model.
        ArithmeticError: when a logit is not finite.
    """
    if count < 1:
        raise ValueError(f"characters must be at least 1, got {count}")
    require_64_bits(seed=seed)
    if not prompt:
        raise ValueError("prompt must have at least one character, got none")
    tokens = text.encode(prompt)
    model, device = text.model, "cpu"
    if isinstance(model, LoopedTransformer):
        if loops is None:
            raise ValueError("a looped model must be told its loops, got none")
        capacity = len(tokens) + count
        loops.policy.require(loops.steps)
        device = model.inject.weight.device
        model = CachedLoop(LoopedReader(model), loops.steps, capacity, loops.policy, loops.rule, loops.warm)
    elif loops is not None:
        raise ValueError("loops go with a looped model, got a model without")
    prompts = Prompts.of([tokens], torch.device(device))
    drawn = generate(model, prompts, sampling, torch.Generator().manual_seed(seed))
    return streamed((int(token) for token in islice(drawn, count)), text.decode)


def streamed(tokens: Iterator[int], decode: Callable[[Sequence[int]], str]) -> Iterator[str]:
    """The text of each token; what may be a part of a character waits for the rest of it.

    Args:
        tokens: one after another.
        decode: tokens to their text; U+FFFD stands for a part of a character.

    Yields:
        As many pieces as there are tokens, and one more where the last are no whole character.
    """
    waiting: list[int] = []
    for token in tokens:
        waiting.append(token)
        piece = decode(waiting)
        if piece.endswith("\ufffd") and len(waiting) < LONGEST_CHARACTER:
            yield ""
            continue
        yield piece
        waiting.clear()
    if waiting:
        yield decode(waiting)

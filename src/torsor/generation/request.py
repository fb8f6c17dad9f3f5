"""What is asked of a generator: a prompt, and how to go on from it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import final

from torsor.generation.exits import ExitRule
from torsor.generation.sampling import Sampling


@final
@dataclass(frozen=True)
class Request:
    """A prompt to continue.

    Args:
        prompt: its tokens, at least one.
        tokens: how many to draw, at least 1.
        steps: loops of every token, at least 1.
        sampling: how one is drawn; the most probable one by default.
        seed: of the draws.
        rule: ends a drawn token before its ``steps``; None for none. The prompt is read at the full depth.
        warm: start a drawn token from the last state of the one before, not from zeros.
        stop: tokens that end the answer; they belong to it.

    Raises:
        ValueError: when the prompt is empty or a number is below 1.
    """

    prompt: Sequence[int]
    tokens: int
    steps: int
    sampling: Sampling = field(default_factory=partial(Sampling, 0.0))
    seed: int = 0
    rule: ExitRule | None = None
    warm: bool = False
    stop: Sequence[int] = ()

    def __post_init__(self) -> None:
        if not self.prompt:
            raise ValueError("prompt must have at least one token, got none")
        for name, value in (("tokens", self.tokens), ("steps", self.steps)):
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value}")

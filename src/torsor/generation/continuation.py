"""The continuation of a prompt, one token at a time."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.generation.sampling import Sampling


@runtime_checkable
class Stepwise(Protocol):
    """A model that reads one token of every sequence at a time."""

    def initial_state(self, batch: int, /) -> Any:
        """The state before the first token."""
        ...

    def step(self, tokens: Int[Tensor, "batch"], state: Any, /) -> tuple[Float[Tensor, "batch classes"], Any]:
        """The logits of the next token, and the state after this one."""
        ...


def generate(
    model: Stepwise,
    prompt: Int[Tensor, "batch length"],
    sampling: Sampling | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[Int[Tensor, "batch"]]:
    """Read a prompt, then draw tokens without end; whoever draws from the iterator stops when it is enough.

    Guarantees, each a test in ``tests/laws/test_generation_laws.py``:

    * each token is drawn from the logits that the parallel form gives for all before it;
    * the same seed draws the same tokens, and a longer continuation begins with a shorter one;
    * the memory of a recurrent model does not grow with the tokens.

    Args:
        model: in the mode it is in; a recurrent one carries its state, an attending one its cache.
        prompt: at least one token, on the model's device.
        sampling: how a token is drawn; from the whole distribution by default.
        generator: of the draws, on the CPU; seeded with 0 by default.

    Yields:
        The next token of every sequence.

    Raises:
        ValueError: when the prompt is empty.
        ArithmeticError: when a logit is not finite.
    """
    if prompt.ndim != 2 or prompt.numel() == 0:
        raise ValueError(f"prompt must have shape (batch, length) with at least one token, got {tuple(prompt.shape)}")
    return _drawn(model, prompt, sampling or Sampling(), generator or torch.Generator().manual_seed(0))


@torch.no_grad()
def _drawn(model: Stepwise, prompt: Tensor, sampling: Sampling, generator: torch.Generator) -> Iterator[Tensor]:
    state = model.initial_state(len(prompt))
    logits = None
    for tokens in prompt.unbind(1):
        logits, state = model.step(tokens, state)
    while logits is not None:
        tokens = sampling.draw(logits, generator)
        yield tokens
        logits, state = model.step(tokens.to(prompt.device), state)

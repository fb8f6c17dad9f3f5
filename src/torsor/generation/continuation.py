"""The continuation of prompts, one token at a time."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from torsor.generation.cohorts import InCohorts
from torsor.generation.prompt_reader import PromptReader
from torsor.generation.prompts import Prompts
from torsor.generation.sampling import Sampling
from torsor.generation.stepwise import Stepwise


def generate(
    model: Stepwise | PromptReader,
    prompt: Int[Tensor, "batch length"] | Prompts,
    sampling: Sampling | None = None,
    generator: torch.Generator | Sequence[torch.Generator] | None = None,
) -> Iterator[Int[Tensor, "batch"]]:
    """Read prompts, then draw tokens without end; whoever draws from the iterator stops when it is enough.

    Guarantees, each a test in ``tests/laws/test_generation_laws.py`` and ``tests/laws/test_prompt_laws.py``:

    * each token is drawn from the logits that the parallel form gives for all before it;
    * the same seed draws the same tokens, and a longer continuation begins with a shorter one;
    * with a generator for each row, a batch draws what its rows draw alone;
    * the memory of a recurrent model does not grow with the tokens.

    Args:
        model: in the mode it is in; a recurrent one carries its state, an attending one its cache. A looped
            transformer is read through a ``CachedLoop``.
        prompt: at least one token of every row, on the model's device; ``Prompts`` where rows differ in length.
        sampling: how a token is drawn; from the whole distribution by default.
        generator: of the draws, on the CPU: one for all rows, or one for each; seeded with 0 by default.

    Yields:
        The next token of every row.

    Raises:
        ValueError: when the prompt is empty, or the generators are not one for each row.
        ArithmeticError: when a logit is not finite.
    """
    if isinstance(prompt, Tensor):
        if prompt.ndim != 2 or prompt.numel() == 0:
            raise ValueError(
                f"prompt must have shape (batch, length) with at least one token, got {tuple(prompt.shape)}"
            )
        prompt = Prompts(prompt.flatten(), (prompt.shape[1],) * len(prompt))
    generators = torch.Generator().manual_seed(0) if generator is None else generator
    if not isinstance(generators, torch.Generator) and len(generators) != len(prompt):
        raise ValueError(f"generator must be one, or one for each of {len(prompt)} rows, got {len(generators)}")
    reader = model if isinstance(model, PromptReader) else InCohorts(model)
    return _drawn(reader, prompt, sampling or Sampling(), generators)


@torch.no_grad()
def _drawn(
    reader: PromptReader,
    prompts: Prompts,
    sampling: Sampling,
    generators: torch.Generator | Sequence[torch.Generator],
) -> Iterator[Tensor]:
    logits, state = reader.begin(prompts)
    while True:
        if isinstance(generators, torch.Generator):
            tokens = sampling.draw(logits, generators)
        else:
            rows = zip(logits.split(1), generators, strict=True)
            tokens = torch.cat([sampling.draw(row, generator) for row, generator in rows])
        yield tokens
        logits, state = reader.step(tokens.to(prompts.tokens.device), state)

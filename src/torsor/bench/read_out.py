"""Evaluation at several depths in one pass against a pass for each."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.bench.looped import matrices, useful_flops, word_model
from torsor.models import AlignedValues, LoopedTransformer, parcae_transformer
from torsor.training.memory import keep_freed_memory
from torsor.transitions import BlockConformal

DEPTHS = (1, 8, 16, 32, 48)


def language_model(width: int = 512, vocabulary: int = 32768) -> LoopedTransformer:
    """The layout of the 60M preset: one block in each part, 4 heads, value embeddings at every second layer."""
    return parcae_transformer(
        BlockConformal(width, groups=2), vocabulary=vocabulary, heads=4, value_embeddings=AlignedValues()
    )


def one_pass(model: LoopedTransformer, tokens: Tensor, depths: tuple[int, ...]) -> Tensor:
    """The logits at all depths from one pass to the largest."""
    with torch.no_grad():
        return model(tokens, steps=depths)


def passes(model: LoopedTransformer, tokens: Tensor, depths: tuple[int, ...]) -> Tensor:
    """The same, each depth from a pass of its own."""
    with torch.no_grad():
        return torch.stack([model(tokens, steps=depth) for depth in depths])


def measure(
    limits: Limits,
    rounds: int = 9,
    depths: tuple[int, ...] = DEPTHS,
    words: tuple[int, int, int] = (128, 64, 64),
    text: tuple[int, int, int] = (512, 2, 256),
    vocabulary: int = 32768,
) -> dict[str, Any]:
    """Time the evaluation of the word problem's model and of the 60M language model.

    Args:
        limits: of this machine.
        rounds: turns that each form takes.
        depths: numbers of loops that are read out.
        words: width, sequences and length of the word problem.
        text: width, sequences and length of the language model.
        vocabulary: of the language model.

    Returns:
        A row for both forms of both models, and the largest difference of their logits.

    Raises:
        ValueError: when a number is out of range.
    """
    keep_freed_memory()
    makers: dict[str, tuple[Callable[[int], LoopedTransformer], tuple[int, int, int], int]] = {
        "word problem": (word_model, words, 3),
        "60M preset": (lambda width: language_model(width, vocabulary), text, vocabulary),
    }
    rows, differences, settings = [], {}, {}
    for name, (make, (width, batch, length), entries) in makers.items():
        model = make(width).eval()
        tokens = torch.randint(entries, (batch, length), generator=torch.Generator().manual_seed(0))
        deepest = useful_flops(model, batch, length, max(depths), training=False)
        # every depth but the deepest adds its own coda and readout
        again = 2 * batch * length * (matrices(model.coda) + matrices(model.readout))
        reference = f"{name}, a pass each"
        cases = {
            reference: Case(lambda model=model, tokens=tokens: passes(model, tokens, depths)),
            f"{name}, one pass": Case(
                lambda model=model, tokens=tokens: one_pass(model, tokens, depths),
                deepest + (len(depths) - 1) * again,
                items=batch * length,
                unit="tokens",
                reference=reference,
            ),
        }
        rows += compare(cases, limits, rounds)
        apart = one_pass(model, tokens, depths) - passes(model, tokens, depths)
        differences[name] = float(apart.abs().max())
        parameters = sum(p.numel() for p in model.parameters())
        settings[name] = f"width {width}, batch {batch}, length {length}, {parameters:,} parameters"
    return {"settings": settings | {"depths": list(depths)}, "rows": rows, "differences": differences}

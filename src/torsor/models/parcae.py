"""The published Parcae layout, assembled for any transition."""

import torch
from torch import nn

from torsor.layers import Block, Stack
from torsor.models.looped_transformer import Coda, LoopedTransformer, Prelude
from torsor.transitions import Transition


def parcae_transformer(
    transition: Transition,
    *,
    vocabulary: int,
    classes: int,
    heads: int,
    layers: tuple[int, int, int] = (1, 1, 1),
    grad_steps: int | None = None,
    seed: int = 0,
) -> LoopedTransformer:
    """A looped transformer in the published layout, as wide as its transition, with the published initial values.

    Args:
        transition: what carries the state between loops; its ``dim`` is the width.
        vocabulary: number of input tokens.
        classes: number of logits.
        heads: of every attention; the width must be a multiple of ``2 * heads``.
        layers: blocks of the prelude, the core and the coda.
        grad_steps: loops that the gradient passes through, the last ones; None for all.
        seed: of the initial weights.

    Returns:
        The model; its readout is a matrix of its own, not tied to the embedding.

    Raises:
        ValueError: when a size is below 1 or the width is not a multiple of ``2 * heads``.
    """
    for name, value in (("vocabulary", vocabulary), ("classes", classes), ("layers of the core", layers[1])):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    width = transition.dim
    prelude, core, coda = (Stack([Block(width, heads) for _ in range(count)]) for count in layers)
    model = LoopedTransformer(
        prelude=Prelude(nn.Embedding(vocabulary, width), prelude),
        transition=transition,
        core=core,
        coda=Coda(width, coda),
        readout=nn.Linear(width, classes, bias=False),
        grad_steps=grad_steps,
    )
    model.reset_parameters(torch.Generator().manual_seed(seed))
    return model

"""A gate for each head that lets a token's own embedding into the values of an attention."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

# The published gate reads so many channels, whatever the width.
GATE_CHANNELS = 32


@final
class ValueGate(nn.Module):
    r"""Weigh a token's value embedding :math:`E`, head by head: :math:`2 \sigma(W_g x_{1 \dots 32}) \, E`.

    A gate lies between 0 and 2, and is 1 where its input is zero. It reads the first 32 channels of
    the normalised input of the attention, or all where there are fewer.

    Args:
        width: of the residual stream and of the value embedding, a positive multiple of ``heads``.
        heads: of the attention.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``heads``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or width < 1 or width % heads:
            raise ValueError(f"width must be a positive multiple of heads = {heads}, got {width}")
        self.heads = heads
        self.read: nn.Linear = nn.Linear(min(GATE_CHANNELS, width), heads, bias=False)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights as ``nn.Linear`` does by itself, as published: uniform up to one over the root of 32."""
        bound = 1 / math.sqrt(self.read.in_features)
        self.read.weight.uniform_(-bound, bound, generator=generator)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        values: Float[Tensor, "batch length width"],
        gain: Float[Tensor, "width"] | None = None,
    ) -> Float[Tensor, "batch length heads head_dim"]:
        """The weighed value embedding; with a gain the gate reads ``gain * x``."""
        channels = self.read.in_features
        weight = self.read.weight if gain is None else self.read.weight * gain[:channels]
        gate = 2 * linear(x[..., :channels], weight).sigmoid()
        return gate[..., None] * values.unflatten(-1, (self.heads, -1))

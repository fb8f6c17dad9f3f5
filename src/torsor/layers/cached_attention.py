"""Causal attention without positions that carries its keys and values as a state."""

import math
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from torsor.layers.sequence_layer import LayerState, SequenceLayer, require_part, require_parts


@final
class CachedAttention(SequenceLayer):
    r"""Softmax attention with scores :math:`q_i \cdot k_j / \sqrt{d}` of a head, no position and no bias.

    ``4 width^2`` parameters. The state is the keys and values of all elements so far, "batch past
    keys_values": it grows with the sequence, so that packed sequences, whose states would be of different lengths,
    are refused.

    Args:
        width: of the residual stream, a multiple of ``heads``.
        heads: number of heads.
        layers: of the model; the last matrix starts smaller by the root of twice their number.
        std: size of the elements of the matrices at the start, normal.
        generator: of the initial values.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``heads``.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        layers: int = 1,
        std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width < 1 or width % heads:
            raise ValueError(f"width must be a positive multiple of heads = {heads}, got {width}")
        self.width = width
        self.heads = heads
        self.joined: nn.Linear = nn.Linear(width, 3 * width, bias=False)
        self.out: nn.Linear = nn.Linear(width, width, bias=False)
        self.reset_parameters(std, layers, generator)

    @torch.no_grad()
    def reset_parameters(self, std: float, layers: int, generator: torch.Generator | None = None) -> None:
        """Draw the matrices normal of size ``std``, the last divided by the root of twice the number of layers."""
        self.joined.weight.normal_(std=std, generator=generator)
        self.out.weight.normal_(std=std / math.sqrt(2 * layers), generator=generator)

    def initial_state(self, batch: int) -> LayerState:
        """The keys and values of no element."""
        return (self.out.weight.new_zeros(batch, 0, 2 * self.width),)

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        if x.shape[1] == 0:
            raise ValueError(f"x must have at least one element, got shape {tuple(x.shape)}")
        query, now = self.joined(x).tensor_split((self.width,), dim=-1)
        if state is not None:
            require_parts(state, 1)
            (past,) = state
            require_part("state", past, (x.shape[0], past.shape[1], 2 * self.width), past.dtype)
            now = torch.cat([past.to(now.dtype), now], dim=1)
        key, value = (self._by_head(part) for part in now.chunk(2, dim=-1))
        length, seen = query.shape[1], now.shape[1]
        mask = None
        if 1 < length < seen:
            mask = torch.ones(length, seen, dtype=torch.bool, device=x.device).tril(seen - length)
        mixed = scaled_dot_product_attention(self._by_head(query), key, value, mask, is_causal=1 < length == seen)
        return self.out(mixed.transpose(1, 2).flatten(2)), (now,)

    def forward_packed(
        self, x: Float[Tensor, "1 length width"], cu_seqlens: Int[Tensor, "boundaries"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "1 length width"], LayerState]:
        raise ValueError("cu_seqlens must be None for attention, which has no mask between sequences, got boundaries")

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

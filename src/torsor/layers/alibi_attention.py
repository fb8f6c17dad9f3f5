"""Multi-head causal attention with biases, and a learned slope for each head instead of positions."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.layers.alibi import distance_bias, standard_slopes


@final
class AlibiAttention(nn.Module):
    r"""Attention with scores :math:`q_i \cdot k_j / \sqrt{d} - m_h (i - j)`, a slope :math:`m_h` learned for each head.

    Queries, keys and values by one matrix with bias, the heads joined by another. The slopes start as
    is usual, :math:`2^{-8 h / \text{heads}}`; nothing keeps them positive.

    Args:
        width: of the residual stream, a multiple of ``heads``.
        heads: number of heads.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``heads``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or width < 1 or width % heads:
            raise ValueError(f"width must be a positive multiple of heads = {heads}, got {width}")
        self.width = width
        self.heads = heads
        self.joined: nn.Linear = nn.Linear(width, 3 * width)
        self.out: nn.Linear = nn.Linear(width, width)
        self.slope: nn.Parameter = nn.Parameter(torch.tensor(standard_slopes(heads)))

    def forward(
        self, x: Float[Tensor, "batch length width"], past: Float[Tensor, "batch past keys_values"] | None = None
    ) -> tuple[Float[Tensor, "batch length width"], Float[Tensor, "batch now keys_values"]]:
        """The attention, and the keys and values of all positions so far: the next piece's ``past``."""
        query, key_value = self.joined(x).tensor_split((self.width,), dim=-1)
        if past is not None:
            key_value = torch.cat([past, key_value], dim=1)
        key, value = (self._by_head(part) for part in key_value.chunk(2, dim=-1))
        query = self._by_head(query) * (self.width // self.heads) ** -0.5
        bias = distance_bias(self.slope, query.shape[-2], key.shape[-2], query.dtype)
        mixed = (query @ key.mT + bias).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).flatten(2)), key_value

    def _by_head(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

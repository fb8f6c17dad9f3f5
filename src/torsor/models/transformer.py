"""The attention baseline: a small transformer of the standard layout, with a learned slope instead of positions."""

import math
from collections.abc import Callable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import embedding

from torsor.layers.alibi import standard_slopes
from torsor.layers.layer_norm_block import LayerNormBlock, PreNormBlock
from torsor.models.attending import Attending
from torsor.models.requirements import require_sizes


@final
class Transformer(Attending):
    r"""Tokens embedded with a bias, blocks of attention and a two-layer network, a matrix with bias to the logits.

    With a width :math:`d`, a vocabulary of :math:`V`, :math:`L` layers and :math:`H` heads there are
    :math:`(V + 1) d + L (8 d^2 + 11 d + H) + V (d + 1)` parameters; the norms have weights and biases, and
    there is none after the last block. Matrices and their biases start uniform as torch draws them;
    the matrix to queries, keys and values by Xavier's rule with bias zero.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * causal: a token changes no logits before it;
    * it runs at lengths it was never trained at;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one.

    Args:
        vocabulary: number of tokens, in and out.
        width: of the residual stream, a multiple of ``heads``.
        layers: number of blocks.
        heads: of every attention.
        block: ``PreNormBlock`` or ``PostNormBlock``.
        seed: of the initial values.

    Raises:
        ValueError: when a size is below 1 or ``width`` is not a multiple of ``heads``.

    Example:
        >>> Transformer(vocabulary=5, width=8)(torch.tensor([[0, 3, 1]])).shape
        torch.Size([1, 3, 5])
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int = 2,
        heads: int = 1,
        *,
        block: Callable[[int, int], LayerNormBlock] = PreNormBlock,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_sizes(vocabulary=vocabulary, width=width, layers=layers, heads=heads)
        self.vocabulary = vocabulary
        self.width = width
        self.embedding: nn.Linear = nn.Linear(vocabulary, width)
        self.blocks: nn.ModuleList = nn.ModuleList([block(width, heads) for _ in range(layers)])
        self.readout: nn.Linear = nn.Linear(width, vocabulary)
        self.reset_parameters(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Give every parameter its initial value."""
        for part in self.modules():
            if isinstance(part, nn.Linear):
                bound = 1 / math.sqrt(part.in_features)
                part.weight.uniform_(-bound, bound, generator=generator)
                part.bias.uniform_(-bound, bound, generator=generator)
            elif isinstance(part, nn.LayerNorm):
                part.reset_parameters()
        for part in self.blocks:
            if isinstance(part, LayerNormBlock):
                attention = part.attention
                nn.init.xavier_uniform_(attention.joined.weight, generator=generator)
                attention.joined.bias.zero_()
                attention.slope.copy_(torch.tensor(standard_slopes(attention.heads)))

    def initial_state(self, batch: int) -> tuple[Float[Tensor, "batch past keys_values"], ...]:
        """The state before the first token: for each block its keys and values, of which there are none."""
        return tuple(self.readout.weight.new_zeros(batch, 0, 2 * self.width) for _ in self.blocks)

    def _read(self, tokens: Tensor, state: Sequence[Tensor | None]) -> tuple[Tensor, tuple[Tensor, ...]]:
        # a one-hot vector times the matrix is one of its columns
        x, seen = embedding(tokens, self.embedding.weight.mT) + self.embedding.bias, []
        for block, past in zip(self.blocks, state, strict=True):
            x, so_far = block(x, past)
            seen.append(so_far)
        return self.readout(x), tuple(seen)

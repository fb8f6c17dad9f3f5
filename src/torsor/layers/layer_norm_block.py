"""Residual blocks of attention and a two-layer network, normalised before or after each of the two."""

from abc import ABC, abstractmethod
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from torsor.layers.alibi_attention import AlibiAttention


class LayerNormBlock(nn.Module, ABC):
    r"""Attention and :math:`W_2 \, \text{gelu}(W_1 x + b_1) + b_2`, each with a residual and a layer norm.

    ``8 width^2 + 11 width + heads`` parameters: the inner layer is twice as wide as the residual stream.

    Args:
        width: of the residual stream, a multiple of ``heads``.
        heads: of the attention.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``heads``.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention: AlibiAttention = AlibiAttention(width, heads)
        self.attention_norm: nn.LayerNorm = nn.LayerNorm(width)
        self.feedforward: nn.Sequential = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.feedforward_norm: nn.LayerNorm = nn.LayerNorm(width)

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch length width"], past: Float[Tensor, "batch past keys_values"] | None = None
    ) -> tuple[Float[Tensor, "batch length width"], Float[Tensor, "batch now keys_values"]]:
        """The block, and the keys and values of all positions so far: the next piece's ``past``."""


@final
class PreNormBlock(LayerNormBlock):
    r"""Normalised before: :math:`x \leftarrow x + f(\text{norm}(x))`, for the attention and then for the network.

    Arguments are those of ``LayerNormBlock``.
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], past: Float[Tensor, "batch past keys_values"] | None = None
    ) -> tuple[Float[Tensor, "batch length width"], Float[Tensor, "batch now keys_values"]]:
        mixed, now = self.attention(self.attention_norm(x), past)
        x = x + mixed
        return x + self.feedforward(self.feedforward_norm(x)), now


@final
class PostNormBlock(LayerNormBlock):
    r"""Normalised after: :math:`x \leftarrow \text{norm}(x + f(x))`, for the attention and then for the network.

    Arguments are those of ``LayerNormBlock``.
    """

    def forward(
        self, x: Float[Tensor, "batch length width"], past: Float[Tensor, "batch past keys_values"] | None = None
    ) -> tuple[Float[Tensor, "batch length width"], Float[Tensor, "batch now keys_values"]]:
        mixed, now = self.attention(x, past)
        x = self.attention_norm(x + mixed)
        return self.feedforward_norm(x + self.feedforward(x)), now

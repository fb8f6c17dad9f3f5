"""A pre-norm residual block of attention and a position-wise layer, and a stack of them."""

from collections.abc import Sequence
from typing import final

from jaxtyping import Complex, Float
from torch import Tensor, nn

from torsor.layers.attention import Attention
from torsor.layers.feedforward import FeedForward
from torsor.layers.norm import RMSNorm


@final
class Block(nn.Module):
    r"""One layer of the published stack: :math:`x \leftarrow x + A(\|x\|)`, then :math:`x \leftarrow x + F(\|x\|)`.

    Args:
        width: of the residual stream, a multiple of ``2 * heads``.
        heads: of the attention.
        hidden: of the position-wise layer; 0 stands for ``4 * width``.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``2 * heads``.
    """

    def __init__(self, width: int, heads: int, hidden: int = 0) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(width)
        self.attention = Attention(width, heads)
        self.feedforward_norm = RMSNorm(width)
        self.feedforward = FeedForward(width, hidden or 4 * width)

    def forward(
        self, x: Float[Tensor, "batch length width"], rotary: Complex[Tensor, "length half"]
    ) -> Float[Tensor, "batch length width"]:
        x = self.attention(self.attention_norm(x), x, rotary)
        return self.feedforward(self.feedforward_norm(x), x)


@final
class Stack(nn.Module):
    """Blocks one after the other.

    Args:
        blocks: in order; may be empty, which makes the stack the identity.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.heads = tuple(block.attention.heads for block in blocks)

    def forward(
        self, x: Float[Tensor, "batch length width"], rotary: Complex[Tensor, "length half"]
    ) -> Float[Tensor, "batch length width"]:
        for block in self.blocks:
            x = block(x, rotary)
        return x

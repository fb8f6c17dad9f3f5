"""A pre-norm residual block of attention and a position-wise layer, and a stack of them."""

from collections.abc import Mapping, Sequence
from typing import final

from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from torsor.layers.attention import Attention
from torsor.layers.feedforward import FeedForward
from torsor.layers.norm import RMSNorm
from torsor.layers.value_gate import ValueGate


@final
class Block(nn.Module):
    r"""One layer of the published stack: :math:`x \leftarrow x + A(\|x\|)`, then :math:`x \leftarrow x + F(\|x\|)`.

    Args:
        width: of the residual stream, a multiple of ``2 * heads``.
        heads: of the attention.
        hidden: of the position-wise layer; 0 stands for ``4 * width``.
        value_gate: of the attention; None for a block without value embeddings.

    Raises:
        ValueError: when ``width`` is not a positive multiple of ``2 * heads``, or the gate has another
            number of heads.
    """

    def __init__(self, width: int, heads: int, hidden: int = 0, *, value_gate: ValueGate | None = None) -> None:
        super().__init__()
        self.attention_norm: RMSNorm = RMSNorm(width)
        self.attention: Attention = Attention(width, heads, value_gate)
        self.feedforward_norm: RMSNorm = RMSNorm(width)
        self.feedforward: FeedForward = FeedForward(width, hidden or 4 * width)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        rotary: Complex[Tensor, "length half"],
        values: Float[Tensor, "batch length width"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        # the weights of the norms go into the matrices behind them: four passes over the tokens less
        x = self.attention(self.attention_norm.unit(x), x, rotary, values, gain=self.attention_norm.weight)
        return self.feedforward(self.feedforward_norm.unit(x), x, gain=self.feedforward_norm.weight)


@final
class Stack(nn.Module):
    """Blocks one after the other, and the value embeddings that they read.

    ``values(tokens)`` looks the embeddings up, and the stack reads them; a caller that applies the
    stack again and again looks them up once. A block reads its table if it also owns a gate; the
    published layout has tables without a gate and gates without a table, and both lie idle.

    Args:
        blocks: in order; may be empty, which makes the stack the identity.
        value_tables: the table of value embeddings, "vocabulary width", of some of the blocks by their number.

    Raises:
        ValueError: when a table belongs to none of the blocks, or ``values`` are not one for each block
            that reads them.
    """

    def __init__(self, blocks: Sequence[Block], value_tables: Mapping[int, nn.Embedding] | None = None) -> None:
        super().__init__()
        tables = sorted((value_tables or {}).items())
        for number, _ in tables:
            if not 0 <= number < len(blocks):
                raise ValueError(f"value_tables must belong to the blocks 0 .. {len(blocks) - 1}, got {number}")
        self.blocks: nn.ModuleList = nn.ModuleList(blocks)
        self.value_tables: nn.ModuleDict = nn.ModuleDict({str(number): table for number, table in tables})
        self.heads: tuple[int, ...] = tuple(block.attention.heads for block in blocks)
        self.readers: tuple[int, ...] = tuple(
            number for number, _ in tables if blocks[number].attention.value_gate is not None
        )

    def values(self, tokens: Int[Tensor, "batch length"]) -> tuple[Float[Tensor, "batch length width"], ...]:
        """The value embeddings of tokens: one tensor for each block that reads them, in order."""
        return tuple(self.value_tables[str(number)](tokens) for number in self.readers)

    def tables(self) -> tuple[nn.Embedding, ...]:
        """The tables of value embeddings, those that no block reads included."""
        return tuple(table for table in self.value_tables.values() if isinstance(table, nn.Embedding))

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        rotary: Complex[Tensor, "length half"],
        values: Sequence[Float[Tensor, "batch length width"]] = (),
    ) -> Float[Tensor, "batch length width"]:
        if len(values) != len(self.readers):
            raise ValueError(f"values must be one for each of {len(self.readers)} blocks that read, got {len(values)}")
        read = dict(zip(self.readers, values, strict=True))
        for number, block in enumerate(self.blocks):
            x = block(x, rotary, read.get(number))
        return x

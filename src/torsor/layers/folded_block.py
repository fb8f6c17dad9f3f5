"""A block at fixed weights, its norms folded into its matrices once: tokens in a row, any way to mix them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.nn.functional import linear

from torsor.layers.attention import QUERY_KEY_EPS
from torsor.layers.block import Block, Stack
from torsor.layers.feedforward import feedforward, residual_linear
from torsor.layers.norm import unit_rms
from torsor.layers.rotary import rotate

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""``attend(query, key, value)``, each "tokens heads head_dim", gives "tokens width": what is mixed, and with what."""


@final
@dataclass(frozen=True)
class FoldedBlock:
    """What ``Block`` computes, for many calls at the same weights: the norms' weights are folded in once.

    The tokens lie in one row, of whatever sequences; which of them see each other is the business of
    ``attend``. It holds copies of the query, key and value matrices and of the first matrix of the
    position-wise layer, ``3 width^2 + hidden width`` numbers; what is trained afterwards does not reach it.

    Guarantees, each a test in ``tests/laws/test_looped_reader_laws.py``:

    * with causal attention it equals the block.

    Args:
        block: whose weights are taken; it is not changed.
    """

    block: Block
    joined: Float[Tensor, "three_width width"] = field(init=False, repr=False)
    up: Float[Tensor, "hidden width"] = field(init=False, repr=False)
    gate: Float[Tensor, "heads channels"] | None = field(init=False, repr=False)

    @torch.no_grad()
    def __post_init__(self) -> None:
        attention, gain = self.block.attention, self.block.attention_norm.weight
        joined = torch.cat([attention.query.weight, attention.key.weight, attention.value.weight]) * gain
        object.__setattr__(self, "joined", joined)
        object.__setattr__(self, "up", self.block.feedforward.up.weight * self.block.feedforward_norm.weight)
        gate = attention.value_gate
        object.__setattr__(self, "gate", None if gate is None else gate.read.weight * gain[: gate.read.in_features])

    @property
    def bytes(self) -> int:
        """Of the copies."""
        return sum(each.nbytes for each in (self.joined, self.up, self.gate) if each is not None)

    def __call__(
        self,
        x: Float[Tensor, "tokens width"],
        rotary: Complex[Tensor, "tokens half"],
        attend: Attend,
        values: Float[Tensor, "tokens width"] | None = None,
    ) -> Float[Tensor, "tokens width"]:
        """The block at tokens, each turned by its own row of ``rotary``."""
        attention = self.block.attention
        unit = unit_rms(x, self.block.attention_norm.eps)
        joined = linear(unit, self.joined).unflatten(-1, (3, attention.heads, -1))
        if values is not None and self.gate is not None:
            gate = 2 * linear(unit[:, : self.gate.shape[1]], self.gate).sigmoid()
            joined[:, 2] += gate[..., None] * values.unflatten(-1, (attention.heads, -1))
        # queries and keys are turned and normalised alike: as twice as many heads, in one pass
        query, key = unit_rms(rotate(joined[:, :2].flatten(1, 2), rotary), QUERY_KEY_EPS).chunk(2, dim=1)
        x = residual_linear(x, attend(query, key, joined[:, 2]), attention.out.weight)
        unit = unit_rms(x, self.block.feedforward_norm.eps)
        return feedforward(unit, x, self.up, self.block.feedforward.down.weight)


@final
@dataclass(frozen=True)
class FoldedStack:
    """What ``Stack`` computes, at fixed weights: its folded blocks one after the other.

    Args:
        stack: whose weights are taken; it is not changed.
    """

    stack: Stack
    blocks: tuple[FoldedBlock, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        blocks = tuple(FoldedBlock(each) for each in self.stack.blocks if isinstance(each, Block))
        object.__setattr__(self, "blocks", blocks)

    @property
    def bytes(self) -> int:
        """Of the copies of all blocks."""
        return sum(block.bytes for block in self.blocks)

    def __call__(
        self,
        x: Float[Tensor, "tokens width"],
        rotary: Complex[Tensor, "tokens half"],
        attends: Sequence[Attend],
        values: Sequence[Float[Tensor, "tokens width"]] = (),
    ) -> Float[Tensor, "tokens width"]:
        """The stack at tokens; ``attends`` has one for each block, ``values`` one for each that reads them."""
        read = dict(zip(self.stack.readers, values, strict=True))
        for number, (block, attend) in enumerate(zip(self.blocks, attends, strict=True)):
            x = block(x, rotary, attend, read.get(number))
        return x

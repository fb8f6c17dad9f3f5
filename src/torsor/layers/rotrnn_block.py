"""A residual block around a RotRNN layer: norm, layer, a gated GELU, and back to the stream."""

import math
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu

from torsor.layers.full_precision import normal
from torsor.layers.head_rotation import RotationStart
from torsor.layers.rotrnn import BidirectionalRotRNNLayer, RotRNNLayer
from torsor.layers.sequence_layer import LayerState, SequenceLayer

OneWayLayer = Callable[..., SequenceLayer]
"""What makes a layer, from ``(width, dim, heads, start=..., generator=...)``: ``RotRNNLayer``, or ``DecayLayer`` as a
plain linear recurrence in its place."""


@final
class RotRNNBlock(nn.Module):
    r"""One block of the published kind: :math:`v = \text{GELU}(R(\|x\|))`, then :math:`x + v \odot \sigma(W v + b)`.

    With :math:`R` the layer and a width of :math:`w` there are :math:`w^2 + 3 w` parameters besides the layer's.
    The order is inferred, that of the S5 code base. The norm is a layer norm, which keeps the tokens and the
    sequences of a batch apart; the published settings take batch norm. :math:`W` starts normal of size
    :math:`1 / \sqrt{w}` and :math:`b` at zero.

    Guarantees, each a test in ``tests/claims/test_rotrnn.py``:

    * the block is the formula above;
    * a sequence in pieces or token by token equals the sequence in one;
    * the number of parameters is the one above.

    Args:
        width: of the residual stream.
        dim: of the state, a positive multiple of ``2 * heads``.
        heads: of the layer.
        layer: what carries the state, where the block reads one way.
        bidirectional: read the sequence both ways, with a ``BidirectionalRotRNNLayer``.
        dropout: probability that a number is left out of what is added to the stream.
        start: of rates and angles.
        generator: of the initial values; None takes torch's global one.

    Raises:
        ValueError: as the layer, when ``dropout`` is no probability, or when another layer than RotRNN's is to
            read both ways.
    """

    def __init__(
        self,
        width: int,
        dim: int,
        heads: int,
        *,
        layer: OneWayLayer = RotRNNLayer,
        bidirectional: bool = False,
        dropout: float = 0.0,
        start: RotationStart = RotationStart(),  # noqa: B008 - a frozen value
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability, got {dropout}")
        if bidirectional and layer is not RotRNNLayer:
            raise ValueError("layer must be RotRNNLayer where a block reads both ways, got another")
        made = BidirectionalRotRNNLayer if bidirectional else layer
        self.bidirectional = bidirectional
        self.recurrence: BidirectionalRotRNNLayer | SequenceLayer = made(
            width, dim, heads, start=start, generator=generator
        )
        self.norm: nn.LayerNorm = nn.LayerNorm(width)
        self.gate: nn.Linear = nn.Linear(width, width)
        self.dropout: nn.Dropout = nn.Dropout(dropout)
        with torch.no_grad():
            self.gate.weight.copy_(normal(1 / math.sqrt(width), width, width, generator=generator))
            self.gate.bias.zero_()

    def initial_state(self, batch: int) -> LayerState:
        """The layer's."""
        return self.recurrence.initial_state(batch)

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The stream after the block, and the layer's last state."""
        outputs, after = self.recurrence(self.norm(x), state)
        activated = gelu(outputs)
        return x + self.dropout(activated * torch.sigmoid(self.gate(activated))), after


RotRNNBlockKind = Callable[..., RotRNNBlock]
"""What makes a block, from ``(width, dim, heads, generator=...)``: ``RotRNNBlock``, or a ``partial`` of it."""

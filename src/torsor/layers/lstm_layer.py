"""torch's LSTM as a layer that carries a state."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.layers.full_precision import lstm_precision
from torsor.layers.sequence_layer import LayerState, SequenceLayer, require_part, require_parts


@final
class LSTMLayer(SequenceLayer):
    r"""One layer of torch's LSTM whose hidden size is the width: ``8 width (width + 1)`` parameters.

    All start uniform up to :math:`1 / \sqrt{\text{width}}`. The state is the hidden state and the cell.

    Args:
        width: of the residual stream.
        generator: of the initial values.

    Raises:
        ValueError: when ``width`` is below 1.
    """

    def __init__(self, width: int, *, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.width = width
        self.cell: nn.LSTM = nn.LSTM(width, width, batch_first=True)
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw every parameter uniformly up to one over the root of the width."""
        bound = 1 / math.sqrt(self.width)
        for parameter in self.cell.parameters():
            parameter.uniform_(-bound, bound, generator=generator)

    def initial_state(self, batch: int) -> LayerState:
        """Hidden state and cell, both zero."""
        zero = next(self.cell.parameters()).new_zeros(batch, self.width)
        return zero, zero

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        if x.shape[1] == 0:
            raise ValueError(f"x must have at least one element, got shape {tuple(x.shape)}")
        initial = self.initial_state(x.shape[0])
        state = initial if state is None else state
        require_parts(state, 2)
        for each, zero in zip(state, initial, strict=True):
            require_part("state", each, tuple(zero.shape), zero.dtype)
        with lstm_precision(x):
            outputs, (hidden, cell) = self.cell(x.to(initial[0].dtype), (state[0][None], state[1][None]))
        # under autocast on a GPU they come in half precision; between two pieces they have the type of the parameters
        return outputs.to(x.dtype), (hidden[0].to(initial[0].dtype), cell[0].to(initial[0].dtype))

"""The position-wise layer with a gate: three matrices and a SiLU."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu


@final
class SwiGLU(nn.Module):
    r"""Two views of an element, one gating the other: :math:`W_3 (\text{silu}(W_1 x) \odot W_2 x)`, without a bias.

    ``3 width hidden`` parameters; the first two matrices are one, the gate's rows first.

    Args:
        width: of the residual stream.
        hidden: of the inner layer.

    Raises:
        ValueError: when a size is below 1.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        if width < 1 or hidden < 1:
            raise ValueError(f"width and hidden must be at least 1, got {width} and {hidden}")
        self.up: nn.Linear = nn.Linear(width, 2 * hidden, bias=False)
        self.down: nn.Linear = nn.Linear(hidden, width, bias=False)

    @torch.no_grad()
    def reset_parameters(self, std: float, layers: int, generator: torch.Generator | None = None) -> None:
        """Draw the matrices normal of size ``std``, the last divided by the root of twice the number of layers."""
        self.up.weight.normal_(std=std, generator=generator)
        self.down.weight.normal_(std=std / math.sqrt(2 * layers), generator=generator)

    def forward(self, x: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(silu(gate) * value)

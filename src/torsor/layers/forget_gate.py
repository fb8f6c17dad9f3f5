"""A gate for each head that says how much of a state is kept, at a learned time scale."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from torsor.layers.full_precision import full_dtype, full_precision
from torsor.transitions.base import Float32Island


@final
class ForgetGate(Float32Island):
    r"""The fraction of a state that is kept: :math:`f = e^{-a \, \text{softplus}(x + b)} = (1 + e^{x + b})^{-a}`.

    One rate :math:`a` and one :math:`b` for each head; they stay in float32 or float64 when the model is
    cast to half precision, where a gate near 1 would round to it.

    Guarantees, each a test in ``tests/laws/test_sequence_layer_laws.py``:

    * a gate lies in [0, 1], and falls as its input grows;
    * at an input of zero it starts between :math:`e^{-1.6}` and 1, for the published ranges;
    * cast to half precision, the parameters and the gates stay in float32.

    Args:
        heads: number of gates.

    Raises:
        ValueError: when ``heads`` is below 1.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        if heads < 1:
            raise ValueError(f"heads must be at least 1, got {heads}")
        self.log_rate: nn.Parameter = nn.Parameter(torch.empty(heads, dtype=full_dtype()))
        self.raw_timestep: nn.Parameter = nn.Parameter(torch.empty(heads, dtype=full_dtype()))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(
        self,
        rate: float = 16.0,
        timestep: tuple[float, float] = (1e-3, 1e-1),
        generator: torch.Generator | None = None,
    ) -> None:
        r"""Draw :math:`a` evenly up to ``rate``, and softplus :math:`b` evenly in its logarithm between two bounds."""
        low, high = (math.log(each) for each in timestep)
        # the draw is from [0, 1), and a rate of zero would never be left
        drawn = 1 - torch.rand(self.log_rate.shape, dtype=self.log_rate.dtype, generator=generator)
        self.log_rate.copy_((rate * drawn).log())
        drawn = torch.rand(self.log_rate.shape, dtype=self.log_rate.dtype, generator=generator)
        step = (low + (high - low) * drawn).exp()
        self.raw_timestep.copy_(step + (-torch.expm1(-step)).log())

    def forward(self, x: Float[Tensor, "*batch heads"]) -> Float[Tensor, "*batch heads"]:
        """The gates, in the type of the parameters."""
        with full_precision(x):
            timestep = softplus(x.to(self.raw_timestep.dtype) + self.raw_timestep)
            return torch.exp(-self.log_rate.exp() * timestep)

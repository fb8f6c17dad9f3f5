"""The plain linear recurrence: every coordinate of a state fades at a rate of its own, and nothing turns."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.layers.full_precision import full_precision, normal_weight
from torsor.layers.head_rotation import RotationStart
from torsor.layers.rotrnn import require_inputs, times
from torsor.layers.sequence_layer import LayerState, SequenceLayer
from torsor.recurrence.linear_scan import linear_scan
from torsor.transitions import BlockDecay


@final
class DecayLayer(SequenceLayer):
    r"""A RotRNN layer without its rotations: real rates, one for each coordinate, in the same place.

    .. math::

        x_t = c \odot x_{t-1} + \sqrt{1 - c^2} \odot B u_t / \|B\|, \qquad y_t = C x_t + d \odot u_t,

    where each row of :math:`B` is divided by its length, anew in every call, as RotRNN does it for each head. With a
    width of :math:`w` and a state of :math:`X` there are :math:`2 X w + w + 2 X` parameters; RotRNN's layer
    with heads of four coordinates has :math:`X / 4` more.

    Guarantees, besides those of ``SequenceLayer``, each a test in ``tests/claims/test_recurrent_baselines.py``:

    * it is the recurrence above, written down step by step;
    * white inputs of unit covariance hold every coordinate at :math:`E |x_{t,i}|^2 = 1 - c_i^{2t}`;
    * an impulse fades without a change of sign in any coordinate of the state;
    * the number of parameters is the one above, and rates start where ``start`` says.

    Args:
        width: of inputs and outputs.
        dim: :math:`X`, of the state, at least 1.
        heads: divides nothing here; it is read so that the layer stands where RotRNN's stands.
        start: of the rates: ``scales``, evenly in :math:`\log(-\log c)`. There are no angles.
        generator: of the initial values; None takes torch's global one. Matrices start as RotRNN's do.

    Raises:
        ValueError: when ``width`` or ``dim`` is below 1.

    Example:
        >>> outputs, (state,) = DecayLayer(width=3, dim=8)(torch.ones(1, 5, 3))
        >>> outputs.shape, state.shape
        (torch.Size([1, 5, 3]), torch.Size([1, 8]))
    """

    def __init__(
        self,
        width: int,
        dim: int,
        heads: int = 1,
        *,
        start: RotationStart = RotationStart(),  # noqa: B008 - a frozen value
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if width < 1 or dim < 1:
            raise ValueError(f"width and dim must be at least 1, got {width} and {dim}")
        self.width = width
        low, high = (math.log(-math.log(scale)) for scale in reversed(start.scales))
        drawn = torch.empty(dim, dtype=torch.float64).uniform_(low, high, generator=generator)
        scales = tuple((-drawn.exp()).exp().tolist())
        self.decay: BlockDecay = BlockDecay(dim, groups=dim, initial_scale=scales, hold=unit_variance)
        size = 1 / math.sqrt(width + dim)
        self.write: nn.Parameter = nn.Parameter(normal_weight(size, dim, width, generator=generator))
        self.read: nn.Parameter = nn.Parameter(normal_weight(size, width, dim, generator=generator))
        self.skip: nn.Parameter = nn.Parameter(normal_weight(1.0, width, generator=generator))

    def initial_state(self, batch: int) -> LayerState:
        """Zeros, in one tensor."""
        return (self.decay.contraction.log_rate.new_zeros(batch, self.decay.dim),)

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        (first,) = require_inputs(self, x, state)
        with full_precision(x):
            carry, gain = self.decay(), self.decay.input_map().values
            write = self.write.to(gain.dtype)
            size = torch.linalg.vector_norm(write, dim=1).clamp(min=torch.finfo(gain.dtype).tiny)
            write = (gain / size)[:, None] * write
        states, last = linear_scan(carry, times(x, write), first)
        return self.skip * x + times(states.to(x.dtype), self.read), (last,)


def unit_variance(timestep: Tensor, generator: Tensor) -> Tensor:
    r"""The input gain :math:`\sqrt{1 - e^{2 \Delta s}}`, under which white inputs hold a variance of 1."""
    # expm1, without cancellation where a rate is near 1
    lost = -torch.expm1(2 * timestep * generator)
    return lost.clamp(min=torch.finfo(lost.dtype).tiny).sqrt()  # a rate that rounds to 1 leaves a finite gradient

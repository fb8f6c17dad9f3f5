"""The RotRNN layer: a state of several heads, each carried through time by a scaled rotation."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from torsor.layers.full_precision import full_precision, normal_weight
from torsor.layers.head_rotation import HeadRotation, RotationStart
from torsor.layers.sequence_layer import LayerState, SequenceLayer, require_parts
from torsor.recurrence.linear_scan import linear_scan
from torsor.recurrence.scan import scan


@final
class RotRNNLayer(SequenceLayer):
    r"""Read a sequence into a state that turns and fades, and give out a linear image of it at every token.

    .. math::

        x_t^h = \gamma_h P_h \Theta_h P_h^\top x_{t-1}^h + \xi_h B_h u_t, \qquad
        y_t = C x_t + d \odot u_t, \qquad \xi_h = \sqrt{(1 - \gamma_h^2) / \operatorname{tr} B_h^\top B_h}

    ``forward`` folds the bases :math:`P_h` into :math:`B` and :math:`C`, once, and scans planes; the state
    that it hands over is :math:`P_h^\top x^h`, "batch dim". With a width of :math:`w`, a state of :math:`X`
    and :math:`H` heads there are :math:`2 X w + w + H + X^2 / 2H` parameters.

    Guarantees, besides those of ``SequenceLayer``, each a test in ``tests/claims/test_rotrnn.py``:

    * the folded form equals the recurrence above, ``forward_reference``, in outputs, state and gradients;
    * white inputs of unit covariance hold every head at :math:`E |x_t^h|^2 = 1 - \gamma_h^{2t}`, for any
      parameters: the gain :math:`\xi` is computed anew in every call, and the size of :math:`B` is nothing;
    * the layer is a convolution: linear in its inputs, with the same weights at the same distance everywhere;
    * the number of parameters is the one above;
    * the state, rates, angles and bases are in float32 or float64 whatever the model is cast to.

    Args:
        width: of inputs and outputs.
        dim: :math:`X`, of the state, a positive multiple of ``2 * heads``.
        heads: :math:`H`, number of rates.
        start: of rates and angles.
        generator: of the initial values; None takes torch's global one. :math:`B` and :math:`C` start normal
            of size :math:`1 / \sqrt{w + X}`, and :math:`d` of size 1.

    Raises:
        ValueError: when ``width`` is below 1, or ``dim`` is not a positive multiple of ``2 * heads``.

    Reference:
        "RotRNN: Modelling Long Sequences with Rotations"; ``docs/papers.md`` says what is certain and inferred.

    Example:
        >>> outputs, (state,) = RotRNNLayer(width=3, dim=8, heads=2)(torch.ones(1, 5, 3))
        >>> outputs.shape, state.shape
        (torch.Size([1, 5, 3]), torch.Size([1, 8]))
    """

    def __init__(
        self,
        width: int,
        dim: int,
        heads: int,
        *,
        start: RotationStart = RotationStart(),  # noqa: B008 - a frozen value
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.width = width
        self.rotation: HeadRotation = HeadRotation(dim, heads, start=start, generator=generator)
        size = 1 / math.sqrt(width + dim)
        self.write: nn.Parameter = nn.Parameter(normal_weight(size, dim, width, generator=generator))
        self.read: nn.Parameter = nn.Parameter(normal_weight(size, width, dim, generator=generator))
        self.skip: nn.Parameter = nn.Parameter(normal_weight(1.0, width, generator=generator))

    def initial_state(self, batch: int) -> LayerState:
        """Zeros, in one tensor."""
        rotation = self.rotation
        return (rotation.log_rate.new_zeros(batch, rotation.dim),)

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        (first,) = require_inputs(self, x, state)
        with full_precision(x):
            carry, (write, read) = self.rotation(), folded(self.rotation, self.write, self.read)
        states, last = linear_scan(carry, times(x, write), first)
        return self.skip * x + times(states.to(x.dtype), read), (last,)

    def forward_reference(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The published recurrence as it stands: a matrix for each head, and one step after the other."""
        (first,) = require_inputs(self, x, state)
        rotation = self.rotation
        basis = torch.block_diag(*rotation.basis())
        matrix = basis @ rotation().dense() @ basis.mT
        gain = rotation.input_gain(self.write).repeat_interleave(rotation.dim // rotation.heads)
        states, last = scan(lambda z, new: z @ matrix.mT + new, first @ basis.mT, gain * (x @ self.write.mT))
        return states @ self.read.mT + self.skip * x, (last @ basis,)


@final
class BidirectionalRotRNNLayer(nn.Module):
    r"""Read a sequence both ways by one RotRNN recurrence: :math:`y = C x + C' x' + d \odot u`.

    The states :math:`x'` are those of the reversed sequence, in its places. There are :math:`X w` parameters more
    than in the layer that reads one way.

    Guarantees, each a test in ``tests/claims/test_rotrnn.py``:

    * with :math:`C' = 0` it is that layer, and with :math:`C` and :math:`C'` exchanged, the same of the
      reversed sequence;
    * every token changes the outputs on both of its sides.

    Args:
        width: of inputs and outputs.
        dim: of the state, a positive multiple of ``2 * heads``.
        heads: number of rates.
        start: of rates and angles.
        generator: of the initial values; None takes torch's global one.

    Raises:
        ValueError: as ``RotRNNLayer``.
    """

    def __init__(
        self,
        width: int,
        dim: int,
        heads: int,
        *,
        start: RotationStart = RotationStart(),  # noqa: B008 - a frozen value
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.one_way: RotRNNLayer = RotRNNLayer(width, dim, heads, start=start, generator=generator)
        self.read_back: nn.Parameter = nn.Parameter(
            normal_weight(1 / math.sqrt(width + dim), width, dim, generator=generator)
        )

    def initial_state(self, batch: int) -> LayerState:
        """Zeros, in one tensor."""
        return self.one_way.initial_state(batch)

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The outputs, and the last state of reading forwards, from which there is no reading on.

        Raises:
            ValueError: when there is no element, or a state is given.
        """
        layer = self.one_way
        if state is not None:
            raise ValueError("state must be None for a layer that reads both ways, got a state")
        require_inputs(layer, x, None)
        with full_precision(x):
            carry = layer.rotation()
            write, read, read_back = folded(layer.rotation, layer.write, layer.read, self.read_back)
        added = times(x, write)
        states, last = linear_scan(carry, added)
        outputs = layer.skip * x + times(states.to(x.dtype), read)
        states, _ = linear_scan(carry, added.flip(1))
        return outputs + times(states.flip(1).to(x.dtype), read_back), (last,)


def folded(
    rotation: HeadRotation, write: Float[Tensor, "dim width"], *reads: Float[Tensor, "width dim"]
) -> tuple[Tensor, ...]:
    r"""What writes into, and what reads from, the state in the bases, :math:`\xi P^\top B` and each :math:`C P`."""
    wide = rotation.log_rate.dtype
    columns = rotation.in_basis(torch.cat([write, *(each.mT for each in reads)], dim=1).to(wide))
    seen, *others = columns.split([write.shape[1], *(each.shape[0] for each in reads)], dim=1)
    gain = rotation.input_gain(write.to(wide)).repeat_interleave(rotation.dim // rotation.heads)
    return gain[:, None] * seen, *(each.mT for each in others)


def require_inputs(layer: SequenceLayer, x: Tensor, state: LayerState | None) -> LayerState:
    """Refuse what a layer cannot read, and give the state to start from.

    Raises:
        ValueError: when ``x`` has another shape than "batch length width" or no element, or the state is
            not one tensor.
    """
    if x.ndim != 3 or x.shape[-1] != layer.width or x.numel() == 0:
        raise ValueError(
            f"x must have shape (batch, length, width = {layer.width}) with at least one element, got {tuple(x.shape)}"
        )
    if state is None:
        return layer.initial_state(x.shape[0])
    require_parts(state, 1)
    return state


def times(x: Tensor, matrix: Tensor) -> Tensor:
    """The rows of ``x`` times the transposed matrix, in the type of ``x``."""
    return linear(x, matrix.to(x.dtype))

"""The M²RNN layer: a short convolution, a forget gate, the matrix recurrence, a skip, an output gate and a norm."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import silu

from torsor.layers.forget_gate import ForgetGate
from torsor.layers.matrix_heads import MatrixHeads
from torsor.layers.norm import RMSNorm
from torsor.layers.sequence_layer import LayerState, SequenceLayer, require_packed, require_parts
from torsor.layers.short_convolution import ShortConvolution
from torsor.recurrence import m2rnn
from torsor.recurrence.m2rnn import ClipMode


@final
@dataclass(frozen=True)
class M2RNNStart:
    """Where the parameters of an M²RNN layer start; the defaults are the published ones.

    Args:
        layers: number of layers of the model, which divides the last matrix's size by the root of twice itself.
        std: size of the elements of the matrices, normal.
        convolution_std: the same for the convolution.
        rate: the rates of the forget gates are drawn evenly up to it.
        timestep: bounds of their time steps, evenly drawn in the logarithm.

    Raises:
        ValueError: when a number is not positive, or the bounds do not rise.
    """

    layers: int = 1
    std: float = 0.02
    convolution_std: float = 0.02
    rate: float = 16.0
    timestep: tuple[float, float] = (1e-3, 1e-1)

    def __post_init__(self) -> None:
        numbers = {"layers": self.layers, "std": self.std, "convolution_std": self.convolution_std, "rate": self.rate}
        for name, number in numbers.items():
            if not 0 < number < math.inf:
                raise ValueError(f"{name} must be positive and finite, got {number}")
        low, high = self.timestep
        if not 0 < low <= high < math.inf:
            raise ValueError(f"timestep must be two rising positive numbers, got {low} and {high}")


@final
class M2RNNLayer(SequenceLayer):
    r"""A matrix state for each head, written and read by every element of the sequence.

    One matrix gives queries, keys and values, which pass a short convolution and a SiLU; the inputs of
    the forget gates; and an output gate :math:`g`. With :math:`y` as in ``m2rnn`` and a skip :math:`D`,

    .. math:: o_t = W_o \, \text{RMSNorm}\big((y_t + D \odot v_t) \odot \text{silu}(g_t)\big),

    the norm over all heads together. The state weights start at the identity.

    The state is the matrix of every head, "batch heads key_dim value_dim", in at least float32, and the
    window of the convolution, "batch kernel-1 channels". Neither grows.

    Guarantees, each a test in ``tests/laws/test_sequence_layer_laws.py`` or ``tests/claims/test_m2rnn.py``, besides
    those of ``SequenceLayer``:

    * it equals the published order of operations, written down;
    * packed sequences equal each sequence alone, in outputs, states and gradients;
    * the state weights start at the identity, the skip at one, the matrices at their published sizes;
    * the number of parameters is :math:`d (n_q K + n_k K + n_v V + n_f + N V) + c \, (n_q K + n_k K + n_v V) +
      2 n_f + n_w V^2 + 2 N V + N V d` for a width of :math:`d`, :math:`N` states of :math:`K \times V`, heads
      :math:`n` and a kernel of :math:`c`.

    No norm of a state is kept, and nothing is promised of it but entries in [-1, 1].

    Args:
        width: of the residual stream.
        heads: how many of what, and their size.
        kernel: elements that the convolution weighs.
        gradient_clip: bound on the gradient that reaches a state, 1 as published; None for none.
        clip_mode: which part of that gradient is bounded, as in ``m2rnn``.
        start: sizes of the initial values.
        generator: of the initial values.

    Raises:
        ValueError: when ``width`` is below 1, or an argument is refused by its part.

    Reference:
        "M²RNN: Non-Linear RNNs with Matrix-Valued States for Scalable Language Modeling"; symbols and what
        is certain in ``docs/papers.md``.

    Example:
        >>> layer = M2RNNLayer(8, MatrixHeads.multi_value(2, key_dim=4, value_dim=3))
        >>> outputs, (matrix, window) = layer(torch.ones(1, 5, 8))
        >>> outputs.shape, matrix.shape, window.shape
        (torch.Size([1, 5, 8]), torch.Size([1, 2, 4, 3]), torch.Size([1, 3, 14]))
    """

    def __init__(
        self,
        width: int,
        heads: MatrixHeads,
        kernel: int = 4,
        gradient_clip: float | None = 1.0,
        clip_mode: ClipMode = "total",
        *,
        start: M2RNNStart | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if width < 1:
            raise ValueError(f"width must be at least 1, got {width}")
        self.width = width
        self.heads = heads
        self.gradient_clip = gradient_clip
        self.clip_mode: ClipMode = clip_mode
        written = sum(heads.parts)
        self.split: tuple[int, int, int] = (written, heads.forget, heads.read)
        self.enter: nn.Linear = nn.Linear(width, sum(self.split), bias=False)
        self.convolution: ShortConvolution = ShortConvolution(written, kernel)
        self.forget: ForgetGate = ForgetGate(heads.forget)
        self.state_weight: nn.Parameter = nn.Parameter(torch.empty(heads.weight, heads.value_dim, heads.value_dim))
        self.skip: nn.Parameter = nn.Parameter(torch.empty(heads.states, heads.value_dim))
        self.norm: RMSNorm = RMSNorm(heads.read)
        self.leave: nn.Linear = nn.Linear(heads.read, width, bias=False)
        self.reset_parameters(start or M2RNNStart(), generator)

    @torch.no_grad()
    def reset_parameters(self, start: M2RNNStart, generator: torch.Generator | None = None) -> None:
        """Give every parameter its initial value."""
        self.enter.weight.normal_(std=start.std, generator=generator)
        self.convolution.reset_parameters(start.convolution_std, generator)
        self.forget.reset_parameters(start.rate, start.timestep, generator)
        self.state_weight.copy_(torch.eye(self.heads.value_dim))
        self.skip.fill_(1)
        self.norm.weight.fill_(1)
        self.leave.weight.normal_(std=start.std / math.sqrt(2 * start.layers), generator=generator)

    def initial_state(self, batch: int) -> LayerState:
        """Zero matrices, and a window of zeros."""
        heads, like = self.heads, self.state_weight
        shape = (batch, heads.states, heads.key_dim, heads.value_dim)
        matrix = like.new_zeros(shape, dtype=torch.promote_types(like.dtype, torch.float32))
        return matrix, self.convolution.initial_window(batch)

    def forward_packed(
        self, x: Float[Tensor, "1 length width"], cu_seqlens: Int[Tensor, "boundaries"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "1 length width"], LayerState]:
        return self.forward(x, state, cu_seqlens)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        state: LayerState | None = None,
        cu_seqlens: Int[Tensor, "boundaries"] | None = None,
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The outputs, and the state after the last element; of every sequence, where they are packed.

        Args:
            x: at least one element of each sequence; packed ones in a batch of one.
            state: the matrices and windows before the first element of every sequence; None for zeros.
            cu_seqlens: the boundaries of packed sequences, as in ``m2rnn``.

        Raises:
            ValueError: when there is no element, the boundaries are refused by ``m2rnn``, or the state
                is not one of this layer.
        """
        sequences = x.shape[0] if cu_seqlens is None else require_packed(x, cu_seqlens)
        state = self.initial_state(sequences) if state is None else state
        require_parts(state, 2)
        written, forget, gate = self.enter(x).split(self.split, dim=-1)
        written, window = self.convolution(written, state[1], cu_seqlens)
        counts = (self.heads.query, self.heads.key, self.heads.value)
        parts = zip(silu(written).split(self.heads.parts, dim=-1), counts, strict=True)
        query, key, value = (part.unflatten(-1, (count, -1)) for part, count in parts)
        gates = self.forget(forget).to(state[0].dtype)
        read, matrix = m2rnn(
            *(query, key, value, self.state_weight, gates, state[0]),
            gradient_clip=self.gradient_clip,
            clip_mode=self.clip_mode,
            cu_seqlens=cu_seqlens,
        )
        repeated = value.repeat_interleave(self.heads.states // self.heads.value, dim=2)
        read = (read + self.skip * repeated).flatten(2)
        return self.leave(self.norm(read * silu(gate))), (matrix, window)

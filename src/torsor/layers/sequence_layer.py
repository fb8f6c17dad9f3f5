"""The layer that carries a state: a sequence in, a sequence out, and the state to go on with."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.recurrence.m2rnn_packed import packed
from torsor.recurrence.m2rnn_requirements import require_boundaries

LayerState = tuple[Tensor, ...]
"""Tensors whose first axis is the sequence; what they are is the layer's business."""


class SequenceLayer(nn.Module, ABC):
    """A causal layer of a residual stream that can be read on from a state: recurrent, or attending to a cache.

    Guarantees, each a law over every registered layer in ``tests/laws/test_sequence_layer_laws.py``:

    * causal: an element changes no output before it;
    * a sequence in pieces equals the sequence in one, in outputs, state and gradients;
    * element by element, ``unrolled`` equals ``forward``;
    * a batch equals its sequences alone;
    * the gradient reaches every parameter, and the state given;
    * packed sequences equal each sequence alone, or are refused.

    To add one: a final class that sets ``width`` and implements ``initial_state`` and ``forward``, and
    one line in ``SEQUENCE_LAYERS`` in ``tests/cases.py``. A layer whose state grows refuses ``forward_packed``.
    """

    width: int

    @abstractmethod
    def initial_state(self, batch: int) -> LayerState:
        """The state before the first element of every sequence."""

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The outputs, and the state after the last element.

        Args:
            x: at least one element of each sequence.
            state: ``initial_state``, or what the piece before returned; None for the initial one.

        Raises:
            ValueError: when there is no element, or the state is not one of this layer.
        """

    def forward_packed(
        self, x: Float[Tensor, "1 length width"], cu_seqlens: Int[Tensor, "boundaries"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "1 length width"], LayerState]:
        """Sequences of different lengths laid end to end, each read as if it were alone, and the last state of each.

        Args:
            x: a batch of one.
            cu_seqlens: the boundaries between the sequences, rising from 0 to the length.
            state: before the first element of every sequence, which its first axis counts; None for the initial one.

        Raises:
            ValueError: when there is no batch of one, the boundaries do not start at 0, rise and end at the length,
                the layer cannot keep the sequences apart, or as in ``forward``.
        """
        sequences = require_packed(x, cu_seqlens)
        state = self.initial_state(sequences) if state is None else state
        for part in state:
            if part.shape[:1] != (sequences,):
                raise ValueError(f"state must hold that of {sequences} sequences, got shape {tuple(part.shape)}")
        return packed(lambda inputs, state: self.forward(inputs[0], state), [x], state, cu_seqlens.tolist())

    @final
    def step(
        self, x: Float[Tensor, "batch width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch width"], LayerState]:
        """Read one more element of every sequence.

        Raises:
            ValueError: as in ``forward``.
        """
        outputs, state = self.forward(x[:, None], state)
        return outputs[:, 0], state

    @final
    def unrolled(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        """The slow form of ``forward``: one step for each element."""
        outputs = []
        state = self.initial_state(x.shape[0]) if state is None else state
        for each in x.unbind(1):
            output, state = self.step(each, state)
            outputs.append(output)
        return torch.stack(outputs, dim=1), state


def require_packed(x: Tensor, cu_seqlens: Tensor) -> int:
    """Refuse what are no packed sequences, and count them.

    Args:
        x: "1 length ...".
        cu_seqlens: the boundaries between the sequences.

    Raises:
        ValueError: when the first axis is not one, or the boundaries do not start at 0, rise and end at the length.
    """
    if x.ndim < 2 or x.shape[0] != 1:
        raise ValueError(f"with cu_seqlens there must be a batch of 1, got shape {tuple(x.shape)}")
    return require_boundaries(cu_seqlens, x.shape[1])


def require_parts(state: LayerState, count: int) -> None:
    """Refuse a state of another number of tensors.

    Raises:
        ValueError: when there are more or fewer than ``count``.
    """
    if len(state) != count:
        raise ValueError(f"state must hold {count} tensors, got {len(state)}")


def require_part(name: str, part: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Refuse a tensor of a state that has another shape or type.

    Raises:
        ValueError: when it has; the message says what was expected.
    """
    if part.shape != shape or part.dtype != dtype:
        want, got = (str(each).removeprefix("torch.") for each in (dtype, part.dtype))
        raise ValueError(f"{name} must be {want} of shape {tuple(shape)}, got {got} of {tuple(part.shape)}")

"""The layer that carries a state: a sequence in, a sequence out, and the state to go on with."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

LayerState = tuple[Tensor, ...]
"""Tensors whose first axis is the sequence; what they are is the layer's business."""


class SequenceLayer(nn.Module, ABC):
    """A causal layer of a residual stream that can be read on from a state: recurrent, or attending to a cache.

    Guarantees, each a law over every registered layer in ``tests/laws/test_sequence_layer_laws.py``:

    * causal: an element changes no output before it;
    * a sequence in pieces equals the sequence in one, in outputs, state and gradients;
    * element by element, ``unrolled`` equals ``forward``;
    * a batch equals its sequences alone;
    * the gradient reaches every parameter, and the state given.

    To add one: a final class that sets ``width`` and implements ``initial_state`` and ``forward``, and
    one line in ``SEQUENCE_LAYERS`` in ``tests/cases.py``.
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

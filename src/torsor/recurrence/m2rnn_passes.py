"""The M²RNN recurrence as one operation of autograd, around any two passes that compute it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, final

import torch
from torch import Tensor

from torsor.derivatives import without_derivative


class Passes(ABC):
    """How the recurrence and its gradient are computed, for arguments of one wide type that fit together.

    Both passes are given ``q``, ``k``, ``v``, ``weight`` and ``forget`` as ``m2rnn`` is, each of its own heads.
    """

    @abstractmethod
    def forward(self, inputs: Sequence[Tensor], state: Tensor, keep: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs, the last state, and the states to keep for the gradient, none without ``keep``."""

    @abstractmethod
    def backward(
        self, grads: Sequence[Tensor], inputs: Sequence[Tensor], kept: Tensor, clip: float | None, carry_alone: bool
    ) -> tuple[Tensor, ...]:
        """The gradients of the five and of the first state, from those of the outputs and of the last state.

        Args:
            grads: of the outputs and of the last state.
            inputs: as ``forward`` was given them.
            kept: what ``forward`` kept.
            clip: the bound on the gradient that reaches a state, or None.
            carry_alone: whether only what comes from the step after is bounded.
        """


def through(
    passes: Passes, inputs: Sequence[Tensor], state: Tensor, gradient_clip: float | None, carry_alone: bool
) -> tuple[Tensor, Tensor]:
    """The outputs and the last state of ``m2rnn``; second derivatives are refused."""
    with torch.autocast(state.device.type, enabled=False):
        return _Through.apply(passes, gradient_clip, carry_alone, state, *inputs)


@final
class _Through(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, passes: Passes, gradient_clip: float | None, carry_alone: bool, state: Tensor, *inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        outputs, last, kept = passes.forward(inputs, state, keep=any(ctx.needs_input_grad))
        ctx.save_for_backward(*inputs, kept)
        ctx.options = passes, gradient_clip, carry_alone
        return outputs, last

    @staticmethod
    @without_derivative("m2rnn")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, kept = ctx.saved_tensors
        passes, gradient_clip, carry_alone = ctx.options
        with torch.autocast(grads[0].device.type, enabled=False):
            *of_inputs, of_state = passes.backward(grads, inputs, kept, gradient_clip, carry_alone)
        return None, None, None, of_state, *of_inputs

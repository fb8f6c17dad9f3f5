"""Carry a state through steps of time: a new input at every step."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def scan(
    step: Callable[[Tensor, Tensor], Tensor], state: Float[Tensor, "batch *rest"], inputs: Tensor
) -> tuple[Float[Tensor, "batch length *rest"], Float[Tensor, "batch *rest"]]:
    r"""Apply :math:`x_t = f(x_{t-1}, u_t)` along the second axis of ``inputs``.

    Any step, linear or not, one after the other: the definition that faster scans are compared with.

    Args:
        step: one step of time, ``step(state, input)``.
        state: the state before the first input.
        inputs: "batch length ...", at least one input.

    Returns:
        Every state, :math:`x_1, \dots, x_n`, along a new second axis, and the last one.

    Raises:
        ValueError: when there is no input.
    """
    if inputs.ndim < 2 or inputs.shape[1] == 0:
        raise ValueError(
            f"inputs must have shape (batch, length, ...) with length at least 1, got {tuple(inputs.shape)}"
        )
    states = []
    # unbind and stack: indexing inside the loop would make the backward pass quadratic in the length
    for each in inputs.unbind(1):
        state = step(state, each)
        states.append(state)
    return torch.stack(states, dim=1), state

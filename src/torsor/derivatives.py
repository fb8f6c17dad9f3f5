"""Backward passes of our own: asked for a derivative of a gradient they refuse, and leave no part of it out."""

from collections.abc import Callable
from functools import wraps
from typing import Any, final

import torch
from torch import Tensor


@final
class _Refused(torch.autograd.Function):
    """The same numbers, behind which no derivative goes."""

    @staticmethod
    def forward(ctx: Any, name: str, gradient: Tensor) -> Tensor:
        ctx.name = name
        return gradient.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> None:
        raise NotImplementedError(f"{ctx.name} has no second derivative: use {ctx.name}_reference")


Backward = Callable[..., tuple[Tensor | None, ...]]


def without_derivative(name: str) -> Callable[[Backward], Backward]:
    """Make of a ``backward`` one whose gradients cannot be differentiated again.

    PyTorch's ``once_differentiable`` refuses only where the gradient that comes in has a derivative of its own. That of
    a sum has none, and what the gradient owes to the inputs would be zero without a word.

    Args:
        name: of the function that a user calls, beside which ``NAME_reference`` stands.

    Raises:
        NotImplementedError: by the decorated function's gradients, once a derivative of them is asked for.
    """

    def around(backward: Backward) -> Backward:
        @wraps(backward)
        def refusing(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            with torch.no_grad():
                found = backward(ctx, *grads)
            if not torch.is_grad_enabled():  # no graph of the gradient is wanted
                return found
            return tuple(
                each if each is None else _Refused.apply(name, each.detach().requires_grad_()) for each in found
            )

        return refusing

    return around

"""The position-wise layer: two matrices with a squared rectifier between them."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear


@final
class FeedForward(nn.Module):
    r"""Add :math:`W_2 \, \tfrac12 \text{relu}(W_1 x)^2` to a residual stream.

    Args:
        width: of the residual stream.
        hidden: of the inner layer; 4 times the width as published.
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up: nn.Linear = nn.Linear(width, hidden, bias=False)
        self.down: nn.Linear = nn.Linear(hidden, width, bias=False)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        residual: Float[Tensor, "batch length width"],
        gain: Float[Tensor, "width"] | None = None,
    ) -> Float[Tensor, "batch length width"]:
        """The layer at ``gain * x``, added to ``residual``; the gain is folded into the first matrix."""
        up = self.up.weight if gain is None else self.up.weight * gain
        if torch.is_autocast_enabled(x.device.type):
            return feedforward_reference(x, residual, up, self.down.weight)
        return feedforward(x, residual, up, self.down.weight)


def feedforward(
    x: Float[Tensor, "*tokens width"],
    residual: Float[Tensor, "*tokens width"],
    up: Float[Tensor, "hidden width"],
    down: Float[Tensor, "width hidden"],
) -> Float[Tensor, "*tokens width"]:
    """Equal to ``feedforward_reference`` in outputs and first derivatives, in fewer passes over the memory."""
    return _FeedForward.apply(x.flatten(0, -2), residual.flatten(0, -2), up, down).view(residual.shape)


def feedforward_reference(x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The formula, written down."""
    return residual + 0.5 * (x @ up.mT).relu().square() @ down.mT


@final
class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> Tensor:
        positive = torch.mm(x, up.mT).relu_()
        ctx.save_for_backward(x, positive, up, down)
        return torch.addmm(residual, positive.square(), down.mT, alpha=0.5)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        x, positive, up, down = ctx.saved_tensors
        # squaring again is cheaper than to keep the largest tensor of the layer in memory until here
        grad_down = torch.mm(grad.mT, positive.square()).mul_(0.5)
        # the derivative of half the squared rectifier is the rectifier itself
        inner = torch.mm(grad, down).mul_(positive)
        return torch.mm(inner, up), grad, torch.mm(inner.mT, x), grad_down


def residual_linear(
    residual: Float[Tensor, "*tokens width"],
    x: Float[Tensor, "*tokens inner"],
    weight: Float[Tensor, "width inner"],
) -> Float[Tensor, "*tokens width"]:
    """A residual and a linear layer in one matrix product: the sum costs no pass of its own."""
    if torch.is_autocast_enabled(x.device.type):
        return residual + linear(x, weight)  # the joint product would round the residual to the narrow type
    return torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.mT).view(residual.shape)

"""The position-wise layer: two matrices with a squared rectifier between them."""

from collections.abc import Iterator
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.library import custom_op
from torch.nn.functional import linear

from torsor.derivatives import without_derivative

# A core alone takes so many tokens at a time: what lies between the two matrices then stays in its cache. Several
# threads would lose more by waiting for each other.
TOKENS_AT_A_TIME = 512


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
    tokens, before = x.flatten(0, -2), residual.flatten(0, -2)
    if torch.compiler.is_compiling():
        if x.device.type != "cpu":  # a compiler fuses by itself
            return feedforward_reference(x, residual, up, down)
        return _whole(tokens, before, up, down)[0].view(residual.shape)
    return _FeedForward.apply(tokens, before, up, down).view(residual.shape)


def feedforward_reference(x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """The formula, written down."""
    return residual + 0.5 * (x @ up.mT).relu().square() @ down.mT


def _forward(x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    """The result, and what its gradient needs beside the inputs."""
    positive, out = x.new_empty(len(x), len(up)), torch.empty_like(residual)
    square = _buffer(positive)
    for piece in _pieces(x):
        inner = torch.mm(x[piece], up.mT, out=positive[piece]).relu_()
        squared = torch.mul(inner, inner, out=square[: len(inner)])
        torch.addmm(residual[piece], squared, down.mT, alpha=0.5, out=out[piece])
    return out, positive


def _gradient(grad: Tensor, x: Tensor, positive: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the input and of both matrices."""
    grad_x, grad_up, grad_down = torch.empty_like(x), torch.zeros_like(up), torch.zeros_like(down)
    buffer = _buffer(positive)
    for piece in _pieces(x):
        # squaring again is cheaper than to keep the largest tensor of the layer in memory until here
        square = torch.mul(positive[piece], positive[piece], out=buffer[: len(x[piece])])
        grad_down.addmm_(grad[piece].mT, square, alpha=0.5)
        # the derivative of half the squared rectifier is the rectifier itself
        inner = torch.mm(grad[piece], down, out=square).mul_(positive[piece])
        torch.mm(inner, up, out=grad_x[piece])
        grad_up.addmm_(inner.mT, x[piece])
    return grad_x, grad_up, grad_down


@final
class _FeedForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> Tensor:
        out, positive = _forward(x, residual, up, down)
        ctx.save_for_backward(x, positive, up, down)
        return out

    @staticmethod
    @without_derivative("feedforward")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        grad_x, grad_up, grad_down = _gradient(grad, *ctx.saved_tensors)
        return grad_x, grad, grad_up, grad_down


# For a compiler on a CPU the layer is one operation that it cannot look into: it would unroll the pieces.


@custom_op("torsor::feedforward", mutates_args=())
def _whole(x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    return _forward(x, residual, up, down)


@_whole.register_fake
def _(x: Tensor, residual: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(residual), x.new_empty(x.shape[0], up.shape[0])


@custom_op("torsor::feedforward_gradient", mutates_args=())
def _whole_gradient(
    grad: Tensor, x: Tensor, positive: Tensor, up: Tensor, down: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _gradient(grad, x, positive, up, down)


@_whole_gradient.register_fake
def _(grad: Tensor, x: Tensor, positive: Tensor, up: Tensor, down: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(up), torch.empty_like(down)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    x, _, up, down = inputs
    ctx.save_for_backward(x, output[1], up, down)


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    grad_x, grad_up, grad_down = _whole_gradient(grad.contiguous(), *ctx.saved_tensors)
    return grad_x, grad, grad_up, grad_down


_whole.register_autograd(_backward, setup_context=_keep)


def _at_a_time(x: Tensor) -> int:
    alone = x.device.type == "cpu" and torch.get_num_threads() == 1
    return TOKENS_AT_A_TIME if alone else max(1, len(x))


def _pieces(x: Tensor) -> Iterator[slice]:
    """The rows of ``x`` that are computed one after the other."""
    size = _at_a_time(x)
    return (slice(first, first + size) for first in range(0, len(x), size))


def _buffer(x: Tensor) -> Tensor:
    """As large as the largest piece of ``x``."""
    return x.new_empty(min(_at_a_time(x), len(x)), x.shape[1])


def residual_linear(
    residual: Float[Tensor, "*tokens width"],
    x: Float[Tensor, "*tokens inner"],
    weight: Float[Tensor, "width inner"],
) -> Float[Tensor, "*tokens width"]:
    """A residual and a linear layer in one matrix product: the sum costs no pass of its own."""
    if torch.is_autocast_enabled(x.device.type):
        return residual + linear(x, weight)  # the joint product would round the residual to the narrow type
    return torch.addmm(residual.flatten(0, -2), x.flatten(0, -2), weight.mT).view(residual.shape)

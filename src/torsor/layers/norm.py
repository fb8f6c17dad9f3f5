"""Root-mean-square normalisation."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.derivatives import without_derivative


@final
class RMSNorm(nn.Module):
    r"""Divide a vector by its root mean square and scale: :math:`w_i x_i / \sqrt{\overline{x^2} + \epsilon}`.

    A scale common to all coordinates is removed, up to :math:`\epsilon`. Where a matrix follows, the
    weight can be folded into its columns: ``unit(x)`` is the vector before the weight.

    Args:
        width: number of coordinates.
        eps: :math:`\epsilon`, 1e-5 as published.
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight: nn.Parameter = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (self.unit(wide) * self.weight).to(x.dtype)

    def unit(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """The vector divided by its root mean square, without the weight."""
        return unit_rms(x, self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


def unit_rms(x: Float[Tensor, "*batch width"], eps: float) -> Float[Tensor, "*batch width"]:
    """Equal to ``unit_rms_reference`` in outputs and first derivatives, on a CPU in fewer passes over the memory."""
    if x.device.type == "cpu" and x.dtype in {torch.float32, torch.float64}:
        return _UnitRMS.apply(x, eps)
    return unit_rms_reference(x, eps)


def unit_rms_reference(x: Float[Tensor, "*batch width"], eps: float) -> Float[Tensor, "*batch width"]:
    """The formula, written down: computed in at least float32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt()).to(x.dtype)


@final
class _UnitRMS(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        inverse = inverse_rms(x, eps)
        unit = x * inverse
        ctx.save_for_backward(unit, inverse)
        return unit

    @staticmethod
    @without_derivative("unit_rms")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        unit, inverse = ctx.saved_tensors
        along = (grad * unit).mean(-1, keepdim=True)
        return torch.addcmul(grad, unit, along, value=-1).mul_(inverse), None


def inverse_rms(x: Float[Tensor, "*batch width"], eps: float) -> Float[Tensor, "*batch 1"]:
    """One over the root mean square of the last axis."""
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
    return square.div_(x.shape[-1]).add_(eps).rsqrt_()

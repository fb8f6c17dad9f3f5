"""Root-mean-square normalisation."""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


@final
class RMSNorm(nn.Module):
    r"""Divide a vector by its root mean square and scale: :math:`w_i x_i / \sqrt{\overline{x^2} + \epsilon}`.

    A scale common to all coordinates is removed, up to :math:`\epsilon`.

    Args:
        width: number of coordinates.
        eps: :math:`\epsilon`, 1e-5 as published.
    """

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        if x.dtype == self.weight.dtype and x.device.type == "cpu":
            return rms_norm(x, self.weight, self.eps)
        return rms_norm_reference(x, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Equal to ``rms_norm_reference`` in outputs and first derivatives, in fewer passes over the memory."""
    return _RMSNorm.apply(x, weight, eps)


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The formula, written down: computed in at least float32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight).to(x.dtype)


@final
class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        inverse = inverse_rms(x, eps)
        unit = x * inverse
        ctx.save_for_backward(unit, inverse, weight)
        return unit * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (grad,) = grads
        unit, inverse, weight = ctx.saved_tensors
        along = grad * unit
        grad_weight = along.flatten(0, -2).sum(0)
        grad_unit = grad * weight
        mean = along.mul_(weight).mean(-1, keepdim=True)
        return grad_unit.addcmul_(unit, mean, value=-1).mul_(inverse), grad_weight, None


def inverse_rms(x: Float[Tensor, "*batch width"], eps: float) -> Float[Tensor, "*batch 1"]:
    """One over the root mean square of the last axis."""
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
    return square.div_(x.shape[-1]).add_(eps).rsqrt_()

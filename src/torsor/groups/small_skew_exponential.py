"""The gradient of the exponential of small real skew matrices, by a complex step."""

# A product of tiny matrices costs what it costs to call it: one of complex 8 x 8 matrices takes little longer than one
# of real ones. So the gradient is had for as many products as the value, where the usual way takes twice as many.

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.groups.skew_scaling import POLYNOMIALS, polynomial_of

WIDEST = 8
STEP = 2.0**-40  # its square is far below a rounding error, in float64 too, and itself far above the smallest number


def is_small(matrices: Tensor) -> bool:
    """Whether a complex step is the faster way: for real matrices of a width up to 8."""
    return matrices.shape[-1] <= WIDEST and not matrices.is_complex()


def small_gradient(
    s: Float[Tensor, "batch d d"],
    cotangent: Float[Tensor, "batch d d"],
    halvings: int,
    into: Float[Tensor, "batch d d"],
) -> None:
    r"""Write the gradient of the inner product of the exponential with a cotangent :math:`G`.

    It is the derivative of the exponential at :math:`S^\top = -S` in the direction :math:`G`, and so the
    imaginary part of :math:`e^{-S + i h G} / h` up to :math:`h^2`, which is below rounding: nothing is subtracted.

    Args:
        s: the matrices.
        cotangent: one for each, of any size.
        halvings: how often the exponential halved the matrices.
        into: where the gradient goes.
    """
    # each cotangent is brought to the order of one by a power of two, which loses nothing
    exponents: Any = torch.frexp(cotangent.flatten(1).abs().amax(1)).exponent
    exponent = exponents.clamp(-120, 126)[:, None, None].to(s.dtype)
    scale = 2.0**-halvings
    x = torch.complex(s * -scale, (cotangent * torch.exp2(-exponent)).mul_(scale * STEP))
    a = torch.bmm(x, x)
    e, _, _ = polynomial_of(x, a, POLYNOMIALS[s.dtype])
    for _ in range(halvings):
        e, a = torch.baddbmm(e, e, e, beta=2, out=a), e
    torch.mul(e.imag, 1 / STEP, out=into).mul_(torch.exp2(exponent))

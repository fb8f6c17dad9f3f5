"""How far skew matrices are scaled down until the polynomial reaches them, and the polynomial of the scaled ones."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.groups.exponential_polynomial import ExponentialPolynomial, exponential_polynomial

SINGLE, DOUBLE = exponential_polynomial(0.8), exponential_polynomial(1 / 16)
POLYNOMIALS = {
    torch.float32: SINGLE,
    torch.complex64: SINGLE,
    torch.float64: DOUBLE,
    torch.complex128: DOUBLE,
}


class NotAnAngleError(ValueError, FloatingPointError):
    """A matrix is not finite, or so large that its numbers hold no digit of an angle.

    A wrong argument where a user makes the matrix, and a number that overflowed where a model has.
    """


def norms_of(square: Tensor) -> Float[Tensor, "batch"]:
    """The Frobenius norms of squares of skew matrices."""
    return torch.linalg.vector_norm(square, dim=(-2, -1))


def halvings_of(norms: Float[Tensor, "batch"], square: Tensor) -> int:
    """How often the largest matrix is halved until the polynomial reaches it.

    Args:
        norms: ``norms_of`` the squares.
        square: the squares themselves.

    Raises:
        NotAnAngleError: when a matrix is not finite or too large to hold a digit of an angle.
    """
    bound = math.sqrt(norms.amax().item() / multiplicity(square))
    limit = 1 / torch.finfo(square.dtype).eps
    if not bound < limit:
        raise NotAnAngleError(f"tangent must be finite and of a norm below {limit:.0f}, got a bound of {bound}")
    return max(0, math.ceil(math.log2(bound / POLYNOMIALS[square.dtype].reach))) if bound else 0


def multiplicity(square: Tensor) -> float:
    """What the norm of a square is divided by for a bound on the square of the largest singular value.

    The singular values of a real skew matrix come in pairs, which count once in the norm that is wanted.
    """
    return 1.0 if square.is_complex() else math.sqrt(2)


def polynomial_of(x: Tensor, a: Tensor, p: ExponentialPolynomial) -> tuple[Tensor, Tensor, Tensor]:
    """The polynomial without its identity, in the place of ``x``, from ``a``, the square of ``x``; and u and v."""
    w = torch.add(a, x, alpha=p.b)
    y = torch.bmm(a, w)
    u = torch.add(y, a, alpha=p.e, out=w)
    v = y.add_(a, alpha=p.f2).add_(x, alpha=p.f1)
    diagonal(v).add_(p.f0)
    return x.add_(a, alpha=p.g).baddbmm_(u, v, alpha=p.l), u, v


def diagonal(matrices: Tensor) -> Tensor:
    """The diagonals of a batch, to be written to."""
    return matrices.diagonal(dim1=-2, dim2=-1)

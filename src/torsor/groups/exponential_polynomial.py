"""A polynomial of degree 8 that takes three products and is the exponential near zero on the imaginary axis."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

NODES = 7


@final
@dataclass(frozen=True)
class ExponentialPolynomial:
    r"""A real polynomial :math:`p` near :math:`e^x` for :math:`x = i \omega`, :math:`|\omega| \le` ``reach``.

    .. math::

        p(x) = 1 + x + g x^2 + l \, u v, \qquad u = y + e x^2, \qquad
        v = y + f_2 x^2 + f_1 x + f_0, \qquad y = x^2 (x^2 + b x) .

    With a matrix for :math:`x` the products are :math:`x^2`, :math:`y` and :math:`u v`. Values and
    slope at 0 are those of the exponential. The derivative, which gradients are made of, is within about
    :math:`4 (\text{reach} / 2)^8 / 8!` of it everywhere in reach: half an :math:`\epsilon` of float32 at a
    reach of 0.8, and of float64 at 1 / 16. The polynomial itself is within a twentieth of
    :math:`\epsilon`, so that it carries a long product off the group less than roundings do
    (``tests/fast/test_skew_exponential.py``).

    Args:
        reach: where the polynomial was fitted, in radians.
        b: :math:`b`, and so on.
    """

    reach: float
    b: float
    e: float
    f0: float
    f1: float
    f2: float
    g: float
    l: float  # noqa: E741


def exponential_polynomial(reach: float) -> ExponentialPolynomial:
    r"""Interpolate the exponential and bring the polynomial into its form of three products.

    With :math:`p'(x) = 1 + x q(x)`, it is :math:`(e^x - 1) / x` that :math:`q` interpolates, at the
    Chebyshev points of :math:`i [-\text{reach}, \text{reach}]`, whose error is four times that of
    Taylor's polynomial in half the reach. Comparing coefficients from the eighth down then gives all
    numbers of the form in turn; that of :math:`x^3` leaves a quadratic equation for :math:`e`, whose
    larger root keeps the summands small.

    Args:
        reach: in radians, at most about 2.
    """
    points = np.cos(np.pi * (2 * np.arange(NODES) + 1) / (2 * NODES))
    x = 1j * reach * points
    powers = np.arange(NODES)
    quotient = sum(x**k / math.factorial(k + 1) for k in range(30))
    q = np.linalg.solve(points[:, None] ** powers, quotient) / (1j * reach) ** powers
    p2, p3, p4, p5, p6, p7, l = (float(each) for each in q.real / (powers + 2))  # noqa: E741
    b = p7 / (2 * l)
    s2 = p6 - l * b**2  # l (e + f2)
    s1 = p5 - b * s2  # l f1
    quadratic = (l * b, s1 - b * s2, b * (p4 - b * s1) - p3)
    e = float(np.roots(quadratic).real.max())
    s0 = p4 - b * s1 - e * (s2 - l * e)  # l f0
    return ExponentialPolynomial(reach=reach, b=b, e=e, f0=s0 / l, f1=s1 / l, f2=s2 / l - e, g=p2 - e * s0, l=l)

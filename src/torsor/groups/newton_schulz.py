"""Back onto a group after many products: one step of Newton and Schulz towards the nearest unitary matrix."""

import torch
from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.groups.matrix import MatrixGroup
from torsor.groups.precision import full_precision


def polish(group: MatrixGroup, element: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
    r"""The element with its roundings taken away: :math:`H (3 I - H^* H) / 2`.

    Where :math:`H^* H = I + \Delta`, the result misses by :math:`-\frac{3}{4} \Delta^2 + \frac{1}{4} \Delta^3`: a state
    that roundings have carried off the group by :math:`10^{-4}` is on it again up to :math:`10^{-8}`. Singular values
    come closer to 1 and singular vectors stay, so the component stays, and so does the phase of the
    determinant: on a ``SpecialUnitary`` group that phase is not put back to 0.

    Guarantees, each a test in ``tests/laws/test_drift_laws.py``:

    * what :math:`H^* H` misses is squared;
    * an element of the group does not move;
    * the nearest unitary matrix stays the nearest.

    Args:
        group: that the element lies on, or nearly so.
        element: :math:`H`, any batch of them, with singular values below :math:`\sqrt{3}`.
    """
    with full_precision(element):
        return 1.5 * element - 0.5 * group.compose(element, group.compose(group.inverse(element), element))


def kept_near(
    group: MatrixGroup, elements: Inexact[Tensor, "batch ..."], beyond: float
) -> Inexact[Tensor, "batch ..."]:
    """The elements, those polished whose ``departure`` is larger than ``beyond``; the others are left as they were."""
    far = departure(group, elements) > beyond
    if not far.any():
        return elements
    return torch.where(far[(..., *[None] * len(group.shape))], polish(group, elements), elements)


def departure(group: MatrixGroup, element: Inexact[Tensor, "..."]) -> Float[Tensor, "*batch"]:
    r"""The largest entry of :math:`|H^* H - I|`, in float64: how far products have carried an element off its group."""
    with full_precision(element):
        wide = element.detach().to(group.element_dtype(torch.float64))
        missed = group.compose(group.inverse(wide), wide) - group.identity_like(wide)
    return missed.abs().flatten(-len(group.shape)).amax(-1)

"""Mixing by the series of Baker, Campbell and Hausdorff up to its terms of third order."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.layers.full_precision import full_dtype, full_precision
from torsor.layers.mixing import Mixing


@final
class ThirdOrderMixing(Mixing):
    r"""One bracket more than ``BCHMixing``.

    .. math::

        U = r + b + \frac{\gamma}{2} [r, b] + \frac{\delta}{12} \big([r, [r, b]] + [b, [b, r]]\big)

    Two parameters, :math:`\gamma` and :math:`\delta`, for all places, both 0 at the start. Where both are 1,
    :math:`\exp(U)` is :math:`\exp(r) \exp(b)` up to fourth order, since the two nested brackets are
    :math:`[r - b, [r, b]]` in one. On a commutative group, a torus, no gradient reaches the parameters.

    Arguments are those of ``Mixing``.
    """

    def _make_parameters(self, generator: torch.Generator | None) -> None:
        self.bracket_weight: nn.Parameter = nn.Parameter(torch.zeros((), dtype=full_dtype()))
        self.nested_weight: nn.Parameter = nn.Parameter(torch.zeros((), dtype=full_dtype()))

    def transform(self, tangent: Float[Tensor, "*batch algebra"], place: int = 0) -> Float[Tensor, "*batch algebra"]:
        return tangent

    def join(
        self, left: Float[Tensor, "*#batch algebra"], right: Float[Tensor, "*#batch algebra"]
    ) -> Float[Tensor, "*out algebra"]:
        group = self.group
        with full_precision(left):
            if right.ndim == 1 and left.numel() >= group.algebra_dim**2:
                # the bracket with one drive for all is a matrix, cheaper than as many products as there are tangents
                bracket = left @ group.bracket(torch.eye(group.algebra_dim).to(right), right)
            else:
                bracket = group.bracket(left, right)
            nested = group.bracket(left - right, bracket)
            return left + right + self.bracket_weight / 2 * bracket + self.nested_weight / 12 * nested

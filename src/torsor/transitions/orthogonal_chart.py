"""One rate times one orthogonal matrix for each group: what the charts of the orthogonal group share."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.maps import Dense, Diagonal
from torsor.maps.base import require_wide
from torsor.transitions.base import Transition, require_whole
from torsor.transitions.contraction import Contraction


class OrthogonalChart(Transition, ABC):
    r"""Carry every group by one rate times an orthogonal matrix that a chart builds from free parameters.

    The state splits into ``groups`` contiguous groups of equal width, and one step of group
    :math:`g` is :math:`x_g \mapsto c_g Q_g x_g` with :math:`c_g = e^{-\Delta_g a_g}`. The matrices
    are built once in a forward pass, in float32 or float64 and without autocast, and are applied as
    a matrix product. Parameters have one axis, so that no optimizer for matrices takes them for weights.

    An input is written by Euler's rule, with gain :math:`\Delta_g`. There is no exact hold: it
    needs a real logarithm of :math:`Q_g`, which a matrix of determinant -1 does not have.

    Guarantees for every chart, each a test in ``tests/claims/test_charts.py``:

    * :math:`Q_g` is orthogonal, to some 1e-15 in float64 and 1e-6 in float32;
    * the map is readable and Toeplitz inside every group, and on the whole vector where there is
      one group or the rates are equal;
    * all eigenvalues of a group lie on the circle of radius :math:`c_g`;
    * under autocast and in a model cast to half precision the matrices are those without.

    To add a chart: a final class that builds the matrices in ``_orthogonal``, and one line in
    ``tests/cases.py``.
    """

    def __init__(self, dim: int, groups: int, initial_scale: float | Sequence[float]) -> None:
        super().__init__()
        require_whole(dim=dim, groups=groups)
        if groups < 1 or dim < 2 * groups or dim % groups:
            raise ValueError(f"dim, the width, must be groups = {groups} times a width of at least 2, got {dim}")
        self.dim = dim
        self.groups = groups
        self.width: int = dim // groups
        self.contraction: Contraction = Contraction(groups, initial_scale)

    @abstractmethod
    def _orthogonal(self) -> Tensor: ...

    @final
    def orthogonal(self) -> Float[Tensor, "groups width width"]:
        """The orthogonal matrices :math:`Q_g`, without the rates.

        Raises:
            ValueError: when the chart's numbers were put into half precision, which would leave the group.
        """
        for name, numbers in self.named_parameters(recurse=False):
            require_wide(name, numbers)
        with torch.autocast(self.contraction.log_rate.device.type, enabled=False):
            return self._orthogonal()

    @final
    def forward(self) -> Dense:
        scale = (-self.contraction.timestep() * self.contraction.rate()).exp()
        blocks = scale[:, None, None] * self.orthogonal()
        return Dense(torch.block_diag(*blocks), groups=self.groups)

    @final
    def input_map(self) -> Diagonal:
        return Diagonal(self.contraction.timestep().repeat_interleave(self.width), groups=self.groups)

    @final
    def extra_repr(self) -> str:
        return f"dim={self.dim}, groups={self.groups}"

"""The exponential chart: every rotation, from a skew-symmetric matrix."""

from collections.abc import Sequence
from typing import final

from torch import Tensor, nn

from torsor.groups.skew_exponential import skew_exponential
from torsor.transitions.contraction import PARCAE_SCALE
from torsor.transitions.orthogonal_chart import OrthogonalChart
from torsor.transitions.skew_symmetric import random_skew_coordinates, skew_matrices
from torsor.transitions.spread import INITIAL_SPREAD, require_spread


@final
class Exponential(OrthogonalChart):
    r"""Carry every group by one rate times :math:`Q = e^S` with :math:`S` skew-symmetric.

    The coordinates are the entries of :math:`S` above its diagonal, row by row, ``width * (width - 1) / 2``
    for each group: as many as the special orthogonal group has dimensions. An eigenvalue :math:`i s`
    of :math:`S` turns its plane by :math:`s` radians in a step; unlike the angles of
    ``BlockConformal`` it is not multiplied by the group's time step.

    Guarantees, besides those of ``OrthogonalChart``, each a test in ``tests/claims/test_charts.py``:

    * the determinant of :math:`Q` is 1;
    * every rotation is reached, half turns included, by more than one :math:`S`;
    * with :math:`S` made of blocks of two it is ``BlockConformal``;
    * in float32 the error of :math:`Q` grows with the turns, at width 64 from 1e-7 at 0.2 radians to
      1e-6 at 40.

    Args:
        dim: width of the state, a multiple of ``groups``.
        groups: number of rates and of orthogonal matrices; a group has a width of at least 2.
        initial_scale: :math:`c_g` at the start, in (0, 1), one number or one for each group.
        spread: how far :math:`Q` starts from the identity: up to 1 the root mean square of its turns, in
            radians; beyond, turns come round and their mean square falls behind.
        seed: of the initial coordinates.

    Raises:
        ValueError: when ``dim`` is not ``groups`` times a width of at least 2, an initial scale is
            outside (0, 1), or ``spread`` is negative or not finite.

    Example:
        >>> carry = Exponential(dim=8)()
        >>> carry(torch.ones(3, 8)).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        dim: int,
        groups: int = 1,
        *,
        initial_scale: float | Sequence[float] = PARCAE_SCALE,
        spread: float = INITIAL_SPREAD,
        seed: int = 0,
    ) -> None:
        super().__init__(dim, groups, initial_scale)
        require_spread(spread)
        self.coordinates: nn.Parameter = nn.Parameter(random_skew_coordinates(groups, self.width, spread, seed))

    def _orthogonal(self) -> Tensor:
        return skew_exponential(skew_matrices(self.coordinates, self.groups, self.width))

"""The Cayley chart: rotations without a half turn, from a skew-symmetric matrix."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from torsor.transitions.contraction import PARCAE_SCALE
from torsor.transitions.orthogonal_chart import OrthogonalChart
from torsor.transitions.skew_symmetric import random_skew_coordinates, skew_matrices
from torsor.transitions.spread import INITIAL_SPREAD, require_spread


@final
class Cayley(OrthogonalChart):
    r"""Carry every group by one rate times :math:`Q = (I - S)(I + S)^{-1}` with :math:`S` skew-symmetric.

    The coordinates are the entries of :math:`S` above its diagonal, row by row, ``width * (width - 1) / 2``
    for each group: as many as the special orthogonal group has dimensions. An eigenvalue :math:`i s`
    of :math:`S` turns its plane by :math:`-2 \arctan s`.

    Guarantees, besides those of ``OrthogonalChart``, each a test in ``tests/claims/test_charts.py``:

    * the determinant of :math:`Q` is 1;
    * no eigenvalue of :math:`Q` is -1: a half turn is the limit of large coordinates;
    * every other rotation has exactly one :math:`S`.

    Args:
        dim: width of the state, a multiple of ``groups``.
        groups: number of rates and of orthogonal matrices; a group has a width of at least 2.
        initial_scale: :math:`c_g` at the start, in (0, 1), one number or one for each group.
        spread: how far :math:`Q` starts from the identity: root mean square of the angles
            :math:`2 s` in radians, which the turns fall short of as an arc tangent does.
        seed: of the initial coordinates.

    Raises:
        ValueError: when ``dim`` is not ``groups`` times a width of at least 2, an initial scale is
            outside (0, 1), or ``spread`` is negative or not finite.

    Reference:
        "Rotate the Loop", the ablation over charts. Symbols: ``docs/papers.md``.

    Example:
        >>> carry = Cayley(dim=8)()
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
        self.coordinates: nn.Parameter = nn.Parameter(random_skew_coordinates(groups, self.width, spread / 2, seed))

    def _orthogonal(self) -> Tensor:
        skew = skew_matrices(self.coordinates, self.groups, self.width)
        identity = torch.eye(self.width, dtype=skew.dtype, device=skew.device)
        return torch.linalg.solve(identity + skew, identity - skew)  # the two factors commute

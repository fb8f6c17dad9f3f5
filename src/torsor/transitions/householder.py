"""The chart of reflections: orthogonal maps of one determinant, as a product of as many reflections as coordinates."""

import math
from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn

from torsor.maps import Householder as Reflections
from torsor.maps.base import wide_dtype
from torsor.transitions.contraction import PARCAE_SCALE
from torsor.transitions.orthogonal_chart import OrthogonalChart
from torsor.transitions.spread import INITIAL_SPREAD, require_spread


@final
class Householder(OrthogonalChart):
    r"""Carry every group by one rate times :math:`Q = H_1 \cdots H_w`, a product of ``width`` reflections.

    :math:`H_i = I - 2 v_i v_i^\top / |v_i|^2`. The parameters are the vectors :math:`v_i`, all of
    them one after the other, ``width`` squared numbers for each group; their lengths do not matter.

    Guarantees, besides those of ``OrthogonalChart``, each a test in ``tests/claims/test_charts.py``:

    * the determinant of :math:`Q` is :math:`(-1)^w`: one of the two halves of the orthogonal group,
      the rotations where the width is even;
    * with zeros in :math:`v_i` before coordinate :math:`i` it is the orthogonal factor of a QR
      decomposition, up to the sign of the last column;
    * only the directions of the vectors count.

    The product is built as a matrix, since at as many reflections as coordinates one matrix product
    is the fastest way to apply it (``docs/charts.md``).

    Args:
        dim: width of the state, a multiple of ``groups``.
        groups: number of rates and of orthogonal matrices; a group has a width of at least 2.
        initial_scale: :math:`c_g` at the start, in (0, 1), one number or one for each group.
        spread: how far :math:`Q` starts from the identity: up to 1 the root mean square of its turns, in
            radians, from 0 to pi; beyond, turns come round and their mean square falls behind. The vectors
            start in pairs with half this angle between them, so that their reflections nearly cancel; pi draws
            them all independently. At an odd width the last vector has no partner, and :math:`Q` starts near its
            reflection.
        seed: of the initial vectors, which have a length of about 1.

    Raises:
        ValueError: when ``dim`` is not ``groups`` times a width of at least 2, an initial scale is
            outside (0, 1), or ``spread`` is outside [0, pi].

    Reference:
        "Rotate the Loop", the ablation over charts. Symbols: ``docs/papers.md``.

    Example:
        >>> carry = Householder(dim=8)()
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
        require_spread(spread, largest=math.pi)
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(groups, self.width, self.width, generator=generator, dtype=torch.float64)
        first, second = drawn[:, : self.width // 2 * 2 : 2], drawn[:, 1::2]
        second.copy_(math.cos(spread / 2) * first + math.sin(spread / 2) * second)
        # At length 1 an update of AdamW, equal in every entry, turns Q about as far as in the other charts.
        self.vectors: nn.Parameter = nn.Parameter((drawn / math.sqrt(self.width)).flatten().to(wide_dtype()))

    def _orthogonal(self) -> Tensor:
        vectors = self.vectors.view(self.groups, self.width, self.width)
        return Reflections(vectors, vectors.new_ones(self.groups)).dense()

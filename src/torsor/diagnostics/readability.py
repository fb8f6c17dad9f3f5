"""How far a map is from preserving inner products up to one scale."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.diagnostics.scopes import block_name, exact_arithmetic, in_float64, own_blocks
from torsor.maps import LinearMap


@final
@dataclass(frozen=True)
class ReadabilityDefect:
    """The readability defect of a map, over its blocks and over the whole vector.

    Args:
        own: the largest over the blocks.
        whole: of the whole vector.
        by_block: of each block.
    """

    own: float
    whole: float
    by_block: tuple[float, ...]

    formula: ClassVar[str] = "|M'M - c^2 I|_F / |M'M|_F with c^2 = tr(M'M) / width; the largest over blocks"

    def __str__(self) -> str:
        return f"readability defect: own blocks {self.own:.3g}, whole vector {self.whole:.3g} [{self.formula}]"

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {"formula": self.formula, **asdict(self), "by_block": list(self.by_block)}


@exact_arithmetic()
def readability_defect(map: LinearMap, blocks: Sequence[slice] | None = None) -> ReadabilityDefect:
    r"""Relative distance of :math:`M^\top M` from the multiples of the identity.

    .. math:: \frac{\lVert M^\top M - c^2 I \rVert_F}{\lVert M^\top M \rVert_F}, \qquad
              c^2 = \operatorname{tr}(M^\top M) / w .

    It is 0 exactly when :math:`\langle Mx, My \rangle = c^2 \langle x, y \rangle` for all states,
    that is when :math:`M = cQ` with :math:`Q` orthogonal: the map is *readable*. In floating point
    a readable map reads some 1e-16. The value stays below 1.

    Computed in float64 from the map's own numbers, cast before their sines are taken. ``own`` is
    taken inside each block, of the part :math:`P_b M P_b` of the map that stays in it; ``whole``
    of the full map. A map with two groups of unequal scale is readable in each group and not as a
    whole. A block of one coordinate, and a block that is one plane of a scaled rotation, reads 0
    whatever its numbers are: it says nothing.

    Args:
        map: one map, without batch axes.
        blocks: an explicit partition of the coordinates, as slices; the map's own blocks by default.

    Raises:
        ValueError: on a map with batch axes or without finite numbers, on blocks that are not a
            partition, or when the map is zero on a block.

    Example:
        >>> from torsor.maps import Diagonal
        >>> round(readability_defect(Diagonal(torch.tensor([2.0, 1.0]))).whole, 4)  # 3 / sqrt(2 * 17)
        0.5145
    """
    partition = own_blocks(map, blocks)
    _, matrix = in_float64(map)
    by_block = tuple(_defect(matrix[block, block], block_name(block, map.dim)) for block in partition)
    return ReadabilityDefect(max(by_block), _defect(matrix, block_name(slice(None), map.dim)), by_block)


def _defect(matrix: Float[Tensor, "width width"], name: str) -> float:
    largest = matrix.abs().max()
    if largest == 0:
        raise ValueError(f"map must not be zero on a block, got zero on the coordinates {name}")
    scaled = matrix / largest  # the number has no unit, and squares of small numbers underflow
    metric = scaled.T @ scaled
    identity = torch.eye(metric.shape[0], dtype=metric.dtype, device=metric.device)
    distance = torch.linalg.matrix_norm(metric - metric.diagonal().mean() * identity)
    return (distance / torch.linalg.matrix_norm(metric)).item()

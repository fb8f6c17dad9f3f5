"""How fast a map forgets: its spectral radius and the moduli of its eigenvalues."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch

from torsor.diagnostics.scopes import exact_arithmetic, in_float64, own_blocks
from torsor.maps import LinearMap


@final
@dataclass(frozen=True)
class SpectralSummary:
    """Moduli of a map's eigenvalues, over its blocks and over the whole vector.

    Args:
        radius: the largest modulus; below 1 the map forgets.
        own: the spread of the moduli inside a block, the largest over the blocks.
        whole: the spread of all moduli.
        by_block: for each block its moduli, ascending.
    """

    radius: float
    own: float
    whole: float
    by_block: tuple[tuple[float, ...], ...]

    formula: ClassVar[str] = "radius = max |lambda|; spread = (max |lambda| - min |lambda|) / max |lambda|"

    def __str__(self) -> str:
        return (
            f"spectral radius {self.radius:.6g}; spread of the moduli: own blocks {self.own:.3g}, "
            f"whole vector {self.whole:.3g} [{self.formula}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {
            "formula": self.formula,
            "radius": self.radius,
            "own": self.own,
            "whole": self.whole,
            "by_block": [list(block) for block in self.by_block],
        }


@exact_arithmetic()
def spectral_summary(map: LinearMap, blocks: Sequence[slice] | None = None) -> SpectralSummary:
    r"""The spectral radius, and how unequal the moduli :math:`|\lambda|` of the eigenvalues are.

    The spread of a set of moduli is :math:`(\max - \min) / \max`, between 0 and 1; it is 0 for the
    zero map. A conformal map has spread 0, but so may a map that is not normal: the converse is
    ``readability_defect``'s to say.

    Args:
        map: one map, without batch axes.
        blocks: an explicit partition of the coordinates; the map's own blocks by default. The
            eigenvalues of a block are those of the part of the map that stays in it.

    Raises:
        ValueError: on a map with batch axes or without finite numbers, or on blocks that are not
            a partition.
    """
    partition = own_blocks(map, blocks)
    wide, matrix = in_float64(map)
    everything = wide.spectrum().abs()
    if len(partition) == 1:
        moduli = [everything]
    else:
        moduli = [torch.linalg.eigvals(matrix[block, block]).abs() for block in partition]
    return SpectralSummary(
        radius=everything.max().item(),
        own=max(_spread(block) for block in moduli),
        whole=_spread(everything),
        by_block=tuple(tuple(block.sort().values.tolist()) for block in moduli),
    )


def _spread(moduli: torch.Tensor) -> float:
    largest = moduli.max()
    return ((largest - moduli.min()) / largest).item() if largest > 0 else 0.0

"""How far the Gram matrix of a carried direction is from depending on the difference of steps alone."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.diagnostics.gram import gram_of, over_scopes
from torsor.diagnostics.scopes import exact_arithmetic
from torsor.maps import LinearMap


@final
@dataclass(frozen=True)
class OverProbes:
    """Mean and standard deviation of a number over random probes.

    Args:
        mean: the mean.
        std: the sample standard deviation, 0 for a single probe: a spread over probes, which is
            not an interval over seeds.
    """

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} +- {self.std:.2g}"


@final
@dataclass(frozen=True)
class ToeplitzDefect:
    """The Toeplitz defect of a map, over its blocks and over the whole vector.

    Args:
        own: mean and standard deviation over the probes, each averaged over the blocks.
        whole: mean and standard deviation over the probes, on the whole vector.
        by_block: mean and standard deviation over the probes, for each block.
        steps: number of directions.
        probes: number of probes.
    """

    own: OverProbes
    whole: OverProbes
    by_block: tuple[OverProbes, ...]
    steps: int
    probes: int

    formula: ClassVar[str] = (
        "|G - P(G)|_F / |G|_F with G_ts = <p_t, p_s>, p_t = M^t v / |M^t v|, P(G) the mean along every diagonal; "
        "mean +- std over probes, then the mean over blocks"
    )

    def __str__(self) -> str:
        return (
            f"Toeplitz defect of {self.steps} steps, {self.probes} probes: "
            f"own blocks {self.own}, whole vector {self.whole} [{self.formula}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {"formula": self.formula, **asdict(self), "by_block": [asdict(block) for block in self.by_block]}


@exact_arithmetic()
def toeplitz_defect(
    map: LinearMap,
    steps: int = 32,
    probes: int = 256,
    blocks: Sequence[slice] | None = None,
    generator: torch.Generator | None = None,
) -> ToeplitzDefect:
    r"""Relative distance of the normalised Gram matrix over the steps from the Toeplitz matrices.

    For a unit probe :math:`v`, with :math:`t, s` below ``steps``,

    .. math::

        p_t = \frac{M^t v}{\lVert M^t v \rVert}, \quad G_{ts} = \langle p_t, p_s \rangle, \quad
        D(v) = \frac{\lVert G - P(G) \rVert_F}{\lVert G \rVert_F},

    where :math:`P` replaces every entry by the mean of its diagonal: the orthogonal projection on
    the Toeplitz matrices. A conformal map, :math:`M = cQ`, has :math:`D = 0` in exact arithmetic
    and some 1e-15 here. The converse does not hold: :math:`cI` reads 0 too, though it makes all
    steps look alike, so read ``lag_cosine`` beside this number.

    Everything is in float64, from the map's own numbers alone, cast before their sines are taken,
    and renormalised at every step. Both scopes are always reported:

    * ``own``: inside each block, with probes that are zero outside it, by the part
      :math:`P_b M P_b` of the map that stays in the block. Mean and standard deviation are those
      over the probes, averaged over the blocks; ``by_block`` holds them for each block.
    * ``whole``: on the whole vector. A map with two groups of unequal scale does not read 0 here.

    A block of one coordinate, and a block that is one plane of a scaled rotation, reads 0
    whatever its numbers are: it says nothing.

    The formula behind the "Toeplitz defect" of "Rotate the Loop" is not known to us; this one fits
    its values, as others would: see ``docs/papers.md``.

    Args:
        map: one map, without batch axes.
        steps: number of directions, at least 2; memory grows with its square.
        probes: number of random probes, at least 1: rows of a standard normal
            ``torch.randn(probes, dim, dtype=torch.float64)``, normalised inside the scope.
        blocks: an explicit partition of the coordinates, as slices; the map's own blocks by default.
        generator: of the probes; by default a fresh one of fixed seed, so that two calls agree.

    Raises:
        ValueError: on a map with batch axes or without finite numbers, on ``steps`` or ``probes``
            below their least, on blocks that are not a partition, or when the map sends a probe
            to zero, with the step at which it does.

    Example:
        >>> from torsor.maps import ScaledRotation
        >>> toeplitz_defect(ScaledRotation(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 2.0]))).whole.mean < 1e-14
        True
    """
    own, whole = over_scopes(map, steps, probes, blocks, generator, _defect)
    by_block = tuple(_over_probes(block) for block in own)
    mean = sum(block.mean for block in by_block) / len(by_block)
    std = sum(block.std for block in by_block) / len(by_block)
    return ToeplitzDefect(OverProbes(mean, std), _over_probes(whole), by_block, steps, probes)


def _defect(directions: Float[Tensor, "steps probes width"]) -> Float[Tensor, "probes"]:
    """The formula, for every probe: the one place that holds it."""
    gram = gram_of(directions)
    steps = gram.shape[-1]
    squares = gram.new_zeros(gram.shape[0])
    for lag in range(1 - steps, steps):
        diagonal = gram.diagonal(lag, dim1=-2, dim2=-1)
        squares += (diagonal - diagonal.mean(-1, keepdim=True)).square().sum(-1)
    return squares.sqrt() / torch.linalg.matrix_norm(gram)


def _over_probes(values: Float[Tensor, "probes"]) -> OverProbes:
    return OverProbes(values.mean().item(), values.std().item() if values.numel() > 1 else 0.0)

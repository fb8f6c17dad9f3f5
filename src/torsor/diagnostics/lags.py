"""How alike the states of two steps look: the mean cosine of a carried direction with its start."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.diagnostics.gram import over_scopes
from torsor.diagnostics.scopes import exact_arithmetic
from torsor.maps import LinearMap


@final
@dataclass(frozen=True)
class LagCosine:
    """Mean cosine at every lag, over a map's blocks and over the whole vector.

    Args:
        own: for each lag from 0, the mean over the probes and over the blocks.
        whole: for each lag from 0, the mean over the probes, on the whole vector.
        by_block: for each block and lag, the mean over the probes.
        probes: number of probes.
    """

    own: tuple[float, ...]
    whole: tuple[float, ...]
    by_block: tuple[tuple[float, ...], ...]
    probes: int

    formula: ClassVar[str] = "kappa(k) = mean over probes, then blocks, of <p_0, p_k>, p_t = M^t v / |M^t v|"

    def __str__(self) -> str:
        lags = [2**power for power in range(len(self.own).bit_length()) if 2**power < len(self.own)]
        own, whole = (", ".join(f"{values[lag]:.3f}" for lag in lags) for values in (self.own, self.whole))
        return (
            f"lag cosine at lags {', '.join(str(lag) for lag in lags)}, {self.probes} probes: "
            f"own blocks {own}; whole vector {whole} [{self.formula}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        plain = {"own": list(self.own), "whole": list(self.whole), "by_block": [list(block) for block in self.by_block]}
        return {"formula": self.formula, **asdict(self), **plain}


@exact_arithmetic()
def lag_cosine(
    map: LinearMap,
    steps: int = 32,
    probes: int = 256,
    blocks: Sequence[slice] | None = None,
    generator: torch.Generator | None = None,
) -> LagCosine:
    r"""The mean cosine :math:`\kappa(k) = \mathbb{E}_v \langle p_0, p_k \rangle` between a state and itself later.

    With :math:`p_t = M^t v / \lVert M^t v \rVert` for random unit probes :math:`v`. Where
    :math:`\kappa` is 1, writes of different steps are indistinguishable to whoever compares
    directions; ``toeplitz_defect`` does not see this, and reads 0 on :math:`cI`. For planes that
    turn by :math:`\theta_i` under one scale, the mean over all directions is the mean of
    :math:`\cos k\theta_i`.

    Precision, scopes and probes are those of ``toeplitz_defect``.

    Args:
        map: one map, without batch axes.
        steps: number of lags, at least 2: ``own[k]`` and ``whole[k]`` are of the lags ``k = 0 .. steps - 1``, of which
            powers of two are printed; with 4 those at 1 and 2.
        probes: number of random probes, at least 1.
        blocks: an explicit partition of the coordinates; the map's own blocks by default.
        generator: of the probes; by default a fresh one of fixed seed, so that two calls agree.

    Raises:
        ValueError: on inadmissible arguments, or when the map sends a probe to zero.
    """
    own, whole = over_scopes(map, steps, probes, blocks, generator, _cosines)
    by_block = own.mean(1)
    return LagCosine(
        own=tuple(by_block.mean(0).tolist()),
        whole=tuple(whole.mean(0).tolist()),
        by_block=tuple(tuple(block) for block in by_block.tolist()),
        probes=probes,
    )


def _cosines(directions: Float[Tensor, "steps probes width"]) -> Float[Tensor, "probes steps"]:
    return (directions * directions[0]).sum(-1).T

"""The geometry of a transition, as numbers that a report can draw."""

from copy import deepcopy
from functools import partial
from typing import Any

import torch

from torsor.diagnostics import gram_matrix, lag_cosine, readability_defect, spectral_summary, toeplitz_defect
from torsor.experiments.listening import tell
from torsor.maps import LinearMap
from torsor.transitions import Transition

DRAWN_BLOCKS = 4  # a map with more blocks than this shows their mean alone


@torch.no_grad()
def geometry(transition: Transition, steps: int = 32, probes: int = 256) -> dict[str, Any]:
    """Defects over own blocks and whole vector, Gram matrix, lag cosine and spectrum of a transition's map.

    Args:
        transition: trained or not.
        steps: of the iterates that are compared.
        probes: random directions.

    Returns:
        A plain dictionary; every defect stands beside its formula.
    """
    # from the parameters in float64: a chart built in float32 is orthogonal to 1e-7 only
    carry = deepcopy(transition).to("cpu", torch.float64)()
    told = partial(tell, "measuring the map", of=100)  # shares as they were at a width of 3,072
    told(0)
    gram = gram_matrix(carry, steps=steps, probes=probes)
    drawn = gram.by_block if len(carry.blocks) <= DRAWN_BLOCKS else gram.own[None]
    told(10)
    lags = lag_cosine(carry, steps=steps, probes=probes)
    told(20)
    readability = readability_defect(carry)
    told(46)
    toeplitz = toeplitz_defect(carry, steps=steps, probes=probes)
    told(56)
    spectral = spectral_summary(carry)
    told(82)
    spectrum = _spectrum(carry)
    told(100)
    return {
        "blocks": [[block.start, block.stop] for block in carry.blocks],
        "steps": steps,
        "probes": probes,
        "readability": readability.to_json(),
        "toeplitz": toeplitz.to_json(),
        "spectral": spectral.to_json(),
        "lag_cosine": {"own": list(lags.own), "whole": list(lags.whole), "formula": lags.formula},
        "gram": gram.whole.tolist(),
        "gram_own": drawn.tolist(),
        "gram_formula": gram.formula,
        "spectrum": spectrum,
    }


def _spectrum(carry: LinearMap) -> list[tuple[float, float, int]]:
    """Real part, imaginary part and block of every eigenvalue."""
    matrix = carry.to(torch.float64).dense()
    rows = []
    for number, block in enumerate(carry.blocks):
        values = torch.linalg.eigvals(matrix[block, block])
        rows += [(value.real, value.imag, number) for value in values.tolist()]
    return rows

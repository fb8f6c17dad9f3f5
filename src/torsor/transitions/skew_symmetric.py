"""Skew-symmetric matrices and their coordinates: the entries above the diagonal, row by row."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.maps.base import wide_dtype


def skew_matrices(
    coordinates: Float[Tensor, "coordinates"], groups: int, width: int
) -> Float[Tensor, "groups width width"]:
    r"""The matrices :math:`S_g = U_g - U_g^\top`, with the coordinates of one group after the other above the diagonal.

    Args:
        coordinates: ``width * (width - 1) / 2`` numbers for each group.
        groups: number of matrices.
        width: of each of them.
    """
    rows, columns = torch.triu_indices(width, width, offset=1, device=coordinates.device)
    upper = coordinates.new_zeros(groups, width, width)
    upper[:, rows, columns] = coordinates.view(groups, -1)
    return upper - upper.mT


def random_skew_coordinates(groups: int, width: int, turn: float, seed: int) -> Float[Tensor, "coordinates"]:
    """Gaussian coordinates whose matrix has eigenvalues of root mean square ``turn``, by a generator of their own.

    Args:
        groups: number of matrices.
        width: of each of them, at least 2.
        turn: root mean square of the eigenvalues, in expectation.
        seed: of the draw.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(groups * width * (width - 1) // 2, generator=generator, dtype=torch.float64)
    return (turn / math.sqrt(width - 1) * drawn).to(wide_dtype())

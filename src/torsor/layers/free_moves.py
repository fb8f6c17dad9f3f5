"""Codes that are unit vectors, moved by a free matrix for each letter."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from torsor.layers.code_moves import CodeMoves
from torsor.layers.full_precision import normal


@final
class FreeMoves(CodeMoves):
    r"""Unit vectors :math:`c_i` in ``dim`` dimensions; the letter :math:`x` moves :math:`c_i` to :math:`A_x c_i`.

    The score of :math:`c_j` is :math:`\beta \langle c_j, A_x c_i \rangle`, a matrix of rank ``dim`` over codes for
    each letter. There are :math:`(N + 1) d + |X| d^2 + 1` parameters; all start normal with variance :math:`1 / d`.

    Args:
        codes: :math:`N`, at least 2.
        letters: how many letters there are, at least 1.
        dim: of the vectors, at least 1.
        sharpness: :math:`\beta` at the start, positive.
        generator: of the initial values.

    Raises:
        ValueError: when a number is out of its range.
    """

    def __init__(
        self, codes: int, letters: int, dim: int, *, sharpness: float = 8.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(codes, letters, sharpness)
        if dim < 1:
            raise ValueError(f"dim must be at least 1, got {dim}")
        std = 1 / math.sqrt(dim)
        self.raw: nn.Parameter = nn.Parameter(normal(std, codes + 1, dim, generator=generator))
        self.matrices: nn.Parameter = nn.Parameter(normal(std, letters, dim, dim, generator=generator))

    def codes(self) -> Float[Tensor, "codes_and_start numbers"]:
        return normalize(self.raw, dim=-1)

    def moved(
        self, codes: Float[Tensor, "codes_and_start numbers"]
    ) -> Float[Tensor, "codes_and_start letters numbers"]:
        return torch.einsum("xij,nj->nxi", self.matrices, codes)

"""An unconstrained matrix: what the structured transitions are compared with."""

import math
from typing import final

import torch
from torch import nn
from torch.nn.functional import softplus

from torsor.maps import Dense, Diagonal
from torsor.maps.base import wide_dtype
from torsor.transitions.base import Transition, require_whole
from torsor.transitions.contraction import PARCAE_SCALE, Contraction
from torsor.transitions.spread import INITIAL_SPREAD, require_spread


@final
class Free(Transition):
    r"""Carry the state by a matrix of free entries that starts near a multiple of the identity.

    No guarantee: the map is not readable, its norm and its spectral radius have no bound, and a
    loop of it may grow beyond any number. ``tests/claims/test_charts.py`` shows each of these. The
    matrix is the only parameter of a transition that has two axes: an optimizer that treats
    matrices apart will take it for a weight.

    An input is written by Euler's rule, with a gain :math:`\Delta` of its own that starts where
    that of the other transitions does.

    Args:
        dim: width of the state, at least 1.
        initial_scale: the multiple of the identity at the start, in (0, 1).
        spread: root mean square distance of the start from that multiple, relative to it.
        seed: of the initial matrix.

    Raises:
        ValueError: when ``dim`` is below 1, the initial scale is outside (0, 1), or ``spread`` is
            negative or not finite.

    Example:
        >>> Free(dim=8).matrix.shape
        torch.Size([8, 8])
    """

    def __init__(
        self, dim: int, *, initial_scale: float = PARCAE_SCALE, spread: float = INITIAL_SPREAD, seed: int = 0
    ) -> None:
        super().__init__()
        require_whole(dim=dim)
        if dim < 1:
            raise ValueError(f"dim, the width, must be at least 1, got {dim}")
        require_spread(spread)
        self.dim = dim
        self.raw_timestep: nn.Parameter = Contraction(1, initial_scale).raw_timestep
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(dim, dim, generator=generator, dtype=torch.float64) * spread / math.sqrt(dim)
        matrix = initial_scale * (torch.eye(dim, dtype=torch.float64) + noise)
        self.matrix: nn.Parameter = nn.Parameter(matrix.to(wide_dtype()))

    def forward(self) -> Dense:
        return Dense(self.matrix.clone())  # a map is a value: it must not move with the parameter

    def input_map(self) -> Diagonal:
        return Diagonal(softplus(self.raw_timestep).repeat_interleave(self.dim))

    def extra_repr(self) -> str:
        return f"dim={self.dim}"

"""How fast a group forgets: one rate and one time step for each group."""

import math
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import softplus

from torsor.maps.base import wide_dtype
from torsor.transitions.base import require_whole

PARCAE_SCALE = math.sqrt(1 / 5)  # every channel of the published model starts at this decay per step


@final
class Contraction(nn.Module):
    r"""The scale :math:`c_g = e^{-\Delta_g a_g}` with :math:`\Delta_g = \text{softplus}(b_g)`, :math:`a_g = e^{l_g}`.

    In exact arithmetic :math:`0 < c_g < 1` for any parameters. In float32 it rounds to 1 once
    :math:`\Delta_g a_g < 3 \cdot 10^{-8}`, and to 0 once that product exceeds 104.

    Args:
        groups: number of rates, at least 1.
        initial_scale: :math:`c_g` at the start, in (0, 1): one number for all groups, or one for
            each. The published value is :math:`\sqrt{1/5}`, with :math:`a_g = 1`.

    Raises:
        ValueError: when ``groups`` is below 1, or an initial scale is outside (0, 1) or their
            number is not ``groups``.
    """

    def __init__(self, groups: int, initial_scale: float | Sequence[float] = PARCAE_SCALE) -> None:
        super().__init__()
        require_whole(groups=groups)
        if groups < 1:
            raise ValueError(f"groups must be at least 1, got {groups}")
        scales = tuple(initial_scale) if isinstance(initial_scale, Sequence) else (initial_scale,) * groups
        if len(scales) != groups:
            raise ValueError(f"initial_scale must hold one number for each of {groups} groups, got {len(scales)}")
        if not all(0 < scale < 1 for scale in scales):
            raise ValueError(f"initial_scale must lie strictly between 0 and 1, got {initial_scale}")
        self.groups = groups
        self.log_rate: nn.Parameter = nn.Parameter(torch.zeros(groups, dtype=wide_dtype()))
        timestep = torch.tensor([-math.log(scale) for scale in scales], dtype=torch.float64)
        # softplus is undone in float64, so that the float32 parameter is the nearest one
        self.raw_timestep: nn.Parameter = nn.Parameter((timestep + (-torch.expm1(-timestep)).log()).to(wide_dtype()))

    def timestep(self) -> Float[Tensor, "groups"]:
        r""":math:`\Delta_g`, positive, without unit."""
        # beyond torch's own threshold of 20 a softplus is cut to its argument, off by 2e-9: too much for float64
        return softplus(self.raw_timestep, threshold=40.0)

    def rate(self) -> Float[Tensor, "groups"]:
        r""":math:`a_g`, positive, per unit of :math:`\Delta`."""
        return self.log_rate.exp()

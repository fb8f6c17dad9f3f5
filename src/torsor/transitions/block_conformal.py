"""Blockwise conformal transition: one contraction rate per group, one frequency per plane."""

from collections.abc import Sequence
from typing import final

import torch
from torch import nn

from torsor.maps import LinearMap, ScaledRotation
from torsor.maps.diagonal import Diagonal
from torsor.maps.scaled_rotation import Pairing, require_pairing
from torsor.transitions.base import Transition, require_whole
from torsor.transitions.contraction import PARCAE_SCALE, Contraction
from torsor.transitions.frequency import Frequencies, Geometric
from torsor.transitions.hold import Hold, euler


@final
class BlockConformal(Transition):
    r"""Rotate inside each group of coordinates and shrink the whole group by one rate.

    The state splits into ``groups`` contiguous groups of equal width. Group :math:`g` contracts by
    :math:`c_g = e^{-\Delta_g a_g}`, and plane :math:`i` of that group turns by
    :math:`\theta_i = \Delta_g \omega_i`, so that one step of group :math:`g` is

    .. math:: x_g \mapsto c_g Q_g x_g, \qquad Q_g^\top Q_g = I .

    Guarantees, each a test in ``tests/claims/test_rotate_the_loop*.py``:

    * inside a group, :math:`\langle Mx, My \rangle = c_g^2 \langle x, y \rangle`: readable;
    * inside a group, the normalised Gram matrix of the :math:`M^t x` depends on the difference of
      the steps alone: Toeplitz;
    * the map of a group is the exponential of :math:`\Delta_g (-a_g I + \Omega_g)`;
    * its spectrum is :math:`c_g e^{\pm i\theta_i}`: one modulus inside a group;
    * :math:`0 < c_g < 1` for any parameters, in exact arithmetic (see ``Contraction`` for floats).

    Across groups nothing is promised, since norms drift apart as :math:`(c_g / c_h)^t`; nor is
    anything promised of a state that a nonlinear block rewrites between two steps.

    Args:
        dim: width of the state, a positive multiple of ``2 * groups``.
        groups: number of groups :math:`G`. With one group all rates are tied; with ``dim // 2``
            groups every plane has its own.
        frequencies: where :math:`\omega` starts, in radians per unit of :math:`\Delta`.
        pairing: which two coordinates of a group make a plane, "adjacent" or "half-split".
        initial_scale: :math:`c_g` at the start, in (0, 1), one number or one for each group.
        frozen: keep the frequencies where they start instead of learning them.
        hold: the input gain as a function of :math:`\Delta` and of the generator :math:`-a + i\omega`.

    Raises:
        ValueError: when ``dim`` is not a positive multiple of ``2 * groups``, an initial scale is
            outside (0, 1), the pairing is neither of the two, or ``frequencies`` is none.

    Reference:
        "Rotate the Loop: Blockwise Conformality for Looped Transformers". Symbols: ``docs/papers.md``.

    Example:
        >>> carry = BlockConformal(dim=8, groups=2)()
        >>> carry(torch.ones(3, 8)).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        dim: int,
        groups: int,
        *,
        frequencies: Frequencies = Geometric(),  # noqa: B008 - a frozen value
        pairing: Pairing = "adjacent",
        initial_scale: float | Sequence[float] = PARCAE_SCALE,
        frozen: bool = False,
        hold: Hold = euler,
    ) -> None:
        super().__init__()
        require_whole(dim=dim, groups=groups)
        if groups < 1 or dim < 1 or dim % (2 * groups):
            raise ValueError(f"dim, the width, must be a positive multiple of 2 * groups = {2 * groups}, got {dim}")
        require_pairing(pairing)
        if not isinstance(frequencies, Frequencies):
            raise ValueError(f"frequencies must be a Frequencies such as Geometric() or Still(), got {frequencies!r}")
        self.dim = dim
        self.groups = groups
        self.pairing: Pairing = pairing
        self.contraction: Contraction = Contraction(groups, initial_scale)
        self.frequency: nn.Parameter = nn.Parameter(frequencies(dim // 2, groups), requires_grad=not frozen)
        self.hold = hold

    def forward(self) -> ScaledRotation:
        timestep = self.contraction.timestep()[:, None]
        scale = (-timestep * self.contraction.rate()[:, None]).exp()
        angle = timestep * self.frequency.unflatten(0, (self.groups, -1))
        return self._rotation(scale.expand_as(angle), angle)

    def input_map(self) -> LinearMap:
        rate = self.contraction.rate()[:, None]
        frequency = self.frequency.unflatten(0, (self.groups, -1))
        generator = torch.complex(-rate.expand_as(frequency), frequency)
        gain = self.hold(self.contraction.timestep()[:, None], generator)
        if gain.is_complex():
            return self._rotation(gain.abs(), gain.angle())
        # a real gain is the group's alone, and a diagonal costs no rotation
        return Diagonal(gain.repeat_interleave(2, dim=-1).flatten(), groups=self.groups)

    def _rotation(self, scale: torch.Tensor, angle: torch.Tensor) -> ScaledRotation:
        return ScaledRotation(scale.flatten(), angle.flatten(), groups=self.groups, pairing=self.pairing)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, groups={self.groups}, pairing={self.pairing!r}"

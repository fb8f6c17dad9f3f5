"""The published diagonal operator, and its rates tied inside groups: decay without rotation."""

from collections.abc import Sequence
from typing import final

from torch import Tensor

from torsor.maps import Diagonal
from torsor.transitions.base import Transition, require_whole
from torsor.transitions.contraction import PARCAE_SCALE, Contraction
from torsor.transitions.hold import Hold, euler


@final
class BlockDecay(Transition):
    r"""Shrink every group of coordinates by one rate of its own, and turn nothing.

    The state splits into ``groups`` contiguous groups of equal width;
    :math:`x_i \mapsto c_{g(i)} x_i` with :math:`c_g = e^{-\Delta_g a_g}`. With ``groups = dim``
    this is Parcae's diagonal operator; with two groups it is the tied-rates ablation.

    Guarantees, each a test in ``tests/claims/test_rotate_the_loop*.py``:

    * at the initial values the map is :math:`c I`: conformal until the rates spread;
    * two different rates on the whole vector are not readable;
    * the directions collapse onto the slowest group.

    Args:
        dim: width of the state, at least 1.
        groups: number of rates, a divisor of ``dim``.
        initial_scale: :math:`c_g` at the start, in (0, 1), one number or one for each group.
        hold: the input gain as a function of :math:`\Delta` and of the generator :math:`-a`.

    Raises:
        ValueError: when ``groups`` does not divide ``dim`` or an initial scale is outside (0, 1).

    Reference:
        "Parcae", the diagonal injection; "Rotate the Loop", the ablation. Symbols: ``docs/papers.md``.

    Example:
        >>> BlockDecay(dim=8, groups=8)().values.shape
        torch.Size([8])
    """

    def __init__(
        self,
        dim: int,
        groups: int,
        *,
        initial_scale: float | Sequence[float] = PARCAE_SCALE,
        hold: Hold = euler,
    ) -> None:
        super().__init__()
        require_whole(dim=dim, groups=groups)
        if groups < 1 or dim < 1 or dim % groups:
            raise ValueError(f"dim, the width, must be a positive multiple of groups = {groups}, got {dim}")
        self.dim = dim
        self.groups = groups
        self.contraction: Contraction = Contraction(groups, initial_scale)
        self.hold = hold

    def forward(self) -> Diagonal:
        decay = self.contraction.timestep() * self.contraction.rate()
        return self._spread((-decay).exp())

    def input_map(self) -> Diagonal:
        return self._spread(self.hold(self.contraction.timestep(), -self.contraction.rate()))

    def _spread(self, values: Tensor) -> Diagonal:
        # one rate for each coordinate leaves no block to be conformal on, so that the block is the whole vector
        blocks = 1 if self.groups == self.dim else self.groups
        return Diagonal(values.repeat_interleave(self.dim // self.groups), groups=blocks)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, groups={self.groups}"

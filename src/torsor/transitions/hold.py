"""How an input acts during one step: Euler's rule, as published, or the exact zero-order hold."""

from collections.abc import Callable

import torch
from torch import Tensor

Hold = Callable[[Tensor, Tensor], Tensor]


def euler(timestep: Tensor, generator: Tensor) -> Tensor:
    r"""The input gain :math:`\Delta`, whatever the generator :math:`s` is: the published rule."""
    return timestep.expand_as(generator)


def exact_hold(timestep: Tensor, generator: Tensor) -> Tensor:
    r"""The input gain :math:`(e^{\Delta s} - 1) / s` of :math:`\dot x = s x + e` under a constant input.

    With a complex generator :math:`s = -a + i\omega` the gain also turns the input. At :math:`s = 0`,
    which no rate reaches in exact arithmetic, its limit :math:`\Delta` is not taken: there it is not a number.
    """
    return torch.expm1(timestep * generator) / generator

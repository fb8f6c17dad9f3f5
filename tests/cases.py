"""THE register: one line for each implementation, and the laws in ``tests/laws`` run over all of them.

A case is a name and a constructor without arguments; a test receives the constructor, so that it
draws nothing before its seed is set.
"""

from collections.abc import Callable

import torch

from torsor.maps import Dense, Diagonal, LinearMap, Permutation, ScaledRotation
from torsor.transitions import BlockConformal, BlockDecay, Geometric, Still, Transition, Uniform
from torsor.transitions.hold import exact_hold


def _uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    return low + (high - low) * torch.rand(*shape)


MAPS: dict[str, Callable[[], LinearMap]] = {
    "dense": lambda: Dense(torch.randn(8, 8) / 3),
    "dense, a batch of three": lambda: Dense(torch.randn(3, 8, 8) / 3),
    "diagonal": lambda: Diagonal(_uniform(0.2, 0.95, 8)),
    "diagonal, two groups": lambda: Diagonal(_uniform(0.2, 0.95, 2).repeat_interleave(4), groups=2),
    "diagonal, a batch of three": lambda: Diagonal(_uniform(-0.9, 0.9, 3, 8)),
    "scaled rotation": lambda: ScaledRotation(_uniform(0.3, 0.9, 4), _uniform(-3, 3, 4)),
    "scaled rotation, two groups": lambda: ScaledRotation(
        _uniform(0.3, 0.9, 2).repeat_interleave(2), _uniform(-3, 3, 4), groups=2
    ),
    "scaled rotation, half-split": lambda: ScaledRotation(
        _uniform(0.3, 0.9, 2).repeat_interleave(2), _uniform(-3, 3, 4), groups=2, pairing="half-split"
    ),
    "scaled rotation, half-split, one group": lambda: ScaledRotation(
        _uniform(0.3, 0.9, 4), _uniform(-3, 3, 4), pairing="half-split"
    ),
    "scaled rotation, a batch of three": lambda: ScaledRotation(_uniform(0.3, 0.9, 3, 4), _uniform(-3, 3, 3, 4)),
    "permutation": lambda: Permutation(torch.randperm(8)),
    "permutation, a batch of three": lambda: Permutation(torch.stack([torch.randperm(8) for _ in range(3)])),
}

TRANSITIONS: dict[str, Callable[[], Transition]] = {
    "decay, one rate": lambda: BlockDecay(8, groups=1),
    "decay, two tied groups": lambda: BlockDecay(8, groups=2, initial_scale=(0.3, 0.9)),
    "decay, every coordinate (Parcae)": lambda: BlockDecay(8, groups=8),
    "decay, exact hold": lambda: BlockDecay(8, groups=2, hold=exact_hold),
    "conformal, one group": lambda: BlockConformal(8, groups=1),
    "conformal, two groups": lambda: BlockConformal(8, groups=2, initial_scale=(0.3, 0.9)),
    "conformal, every plane": lambda: BlockConformal(8, groups=4, frequencies=Uniform(seed=1)),
    "conformal, base 100": lambda: BlockConformal(8, groups=2, frequencies=Geometric(100)),
    "conformal, still": lambda: BlockConformal(8, groups=2, frequencies=Still()),
    "conformal, half-split": lambda: BlockConformal(8, groups=2, pairing="half-split"),
    "conformal, exact hold": lambda: BlockConformal(8, groups=2, hold=exact_hold),
}

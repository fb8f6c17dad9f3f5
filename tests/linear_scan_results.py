"""Arguments of the linear scan, and what comes of them with a gradient."""

import torch

from torsor.maps import Diagonal, ScaledRotation

KINDS = ("rotations", "rotations of each token", "diagonal", "diagonal of each token")


def build(kind, scale, angle):
    return ScaledRotation(scale, angle) if "rotations" in kind else Diagonal(torch.cat([scale, -scale], dim=-1))


def drawn(kind, batch, length, planes, dtype=torch.float64):
    leading = (batch, length) if "token" in kind else ()
    scale = 0.8 + 0.2 * torch.rand(*leading, planes)
    given = (
        scale,
        6 * torch.rand(*leading, planes),
        torch.randn(batch, length, 2 * planes),
        torch.randn(batch, 2 * planes),
    )
    return [each.to(dtype).requires_grad_() for each in given]


def results_of(function, kind, given, weights):
    scale, angle, inputs, state = given
    states, last = function(build(kind, scale, angle), inputs, state)
    wanted = given if "rotations" in kind else [scale, inputs, state]
    return states, last, *torch.autograd.grad((states, last), wanted, weights)

"""The published initial values: orthogonal matrices, zero output projections, scaled embeddings."""

import math

import torch
from torch import Tensor, nn

from torsor.layers.attention import Attention
from torsor.layers.block import Stack
from torsor.layers.feedforward import FeedForward
from torsor.layers.value_gate import ValueGate


def published_std(width: int) -> float:
    r"""The published element size :math:`\sqrt{2 / 5d}` of embeddings, matrices and the initial state."""
    return math.sqrt(2 / (5 * width))


@torch.no_grad()
def orthogonal_(weight: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Fill a matrix with an orthogonal one (rows or columns, whichever are fewer), scaled to elements of size ``std``.

    The QR factors of a truncated normal matrix, their sign fixed by a positive diagonal of R; computed
    in at least float32 and then cast.
    """
    rows, columns = weight.shape
    wide = torch.promote_types(weight.dtype, torch.float32)
    draw = torch.empty(max(rows, columns), min(rows, columns), dtype=wide)
    nn.init.trunc_normal_(draw, a=-3, b=3, generator=generator)
    unit, triangle = torch.linalg.qr(draw)
    unit = unit * triangle.diagonal().sign()
    # columns of unit length have elements of size 1 / sqrt(rows)
    unit = unit * (std * math.sqrt(max(rows, columns)))
    return weight.copy_(unit if rows >= columns else unit.mT)


@torch.no_grad()
def initialise_(module: nn.Module, width: int, generator: torch.Generator | None = None) -> None:
    r"""Give every matrix and embedding inside ``module`` its published initial value.

    Matrices are orthogonal with elements of size :math:`\sqrt{2/5d}`; the last matrix of every
    attention and position-wise layer is zero, so that a block starts as the identity; embeddings
    are truncated normal (three standard deviations) of the same size, and so is a matrix tied to one.
    Value embeddings are normal of size 1, and their gates as ``nn.Linear`` draws its own weight.
    """
    std = published_std(width)
    parts = list(module.modules())
    tables = [table for part in parts if isinstance(part, Stack) for table in part.tables()]
    embedded = {id(part.weight) for part in parts if isinstance(part, nn.Embedding)}
    for part in parts:
        if isinstance(part, nn.Linear) and id(part.weight) not in embedded:
            orthogonal_(part.weight, std, generator)
        elif isinstance(part, nn.Embedding) and part not in tables:
            nn.init.trunc_normal_(part.weight, std=std, a=-3 * std, b=3 * std, generator=generator)
    for part in parts:
        if isinstance(part, Attention):
            part.out.weight.zero_()
        elif isinstance(part, FeedForward):
            part.down.weight.zero_()
        elif isinstance(part, ValueGate):
            part.reset_parameters(generator)
    for table in tables:
        nn.init.normal_(table.weight, generator=generator)

"""Rotary positions: planes of a head that turn with the position of its token."""

import torch
from jaxtyping import Complex, Float
from torch import Tensor


def rotary_table(
    length: int, head_dim: int, *, base: float = 50_000.0, device: torch.device, dtype: torch.dtype
) -> Complex[Tensor, "length half"]:
    r"""The multipliers :math:`e^{i p \, \text{base}^{-2j/d}}` of position :math:`p` and plane :math:`j`.

    Plane ``j`` of a head is its coordinates ``2j, 2j + 1``. The angles are formed in float64 and
    rounded once, to complex64 for float32 and below.
    """
    frequency = base ** -(torch.arange(0, head_dim, 2, device=device, dtype=torch.float64) / head_dim)
    angle = torch.outer(torch.arange(length, device=device, dtype=torch.float64), frequency)
    table = torch.polar(torch.ones_like(angle), angle)
    return table if dtype == torch.float64 else table.to(torch.complex64)


def rotate(x: Float[Tensor, "*batch length heads head_dim"], table: Complex[Tensor, "length half"]) -> Tensor:
    """Turn every plane of every head by its position's angle, in at least float32."""
    pairs = x.to(torch.promote_types(x.dtype, torch.float32)).unflatten(-1, (-1, 2)).contiguous()
    return torch.view_as_real(torch.view_as_complex(pairs) * table[:, None]).flatten(-2).to(x.dtype)

"""Causal attention in which a score falls with the distance, by a slope that is learned."""

import torch
from jaxtyping import Float
from torch import Tensor


def standard_slopes(heads: int) -> tuple[float, ...]:
    r"""The slopes that are usual for a number of heads, :math:`2^{-8 h / \text{heads}}` for :math:`h = 1, 2, \dots`."""
    return tuple(2.0 ** (-8 * head / heads) for head in range(1, heads + 1))


def distance_bias(
    slope: Float[Tensor, "*heads"], queries: int, keys: int, dtype: torch.dtype
) -> Float[Tensor, "*heads queries keys"]:
    r"""What is added to the scores: :math:`-m \, (i - j)`, and minus infinity where the key is in the future.

    The queries are the last of the keys. A slope may take either sign; below zero, far keys count more.
    """
    at = torch.arange(keys, device=slope.device)
    distance = at[keys - queries :, None] - at
    bias = -slope[..., None, None] * distance
    return bias.masked_fill(distance < 0, float("-inf")).to(dtype)

"""A model of a word problem that needs no training: one permutation for each letter."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.recurrence.scan import scan
from torsor.transitions.base import InputTransition


@final
class Oracle(nn.Module):
    r"""Carry the basis vector of the identity by the map of each letter and read it out.

    After the letters :math:`x_1 \dots x_t` the state is the basis vector of :math:`x_1 \cdots x_t`,
    exactly, so that it scores 1.0 on every finite group at every length. The logits are the state.

    Args:
        transition: the map of each token, on as many coordinates as the group has elements.
    """

    def __init__(self, transition: InputTransition) -> None:
        super().__init__()
        self.transition = transition

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length classes"]:
        start = torch.zeros(tokens.shape[0], self.transition.dim, device=tokens.device)
        start[:, 0] = 1  # the identity is element 0
        outputs, _ = scan(lambda state, token: self.transition(token)(state), start, tokens)
        return outputs

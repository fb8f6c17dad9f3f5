"""One permutation for each letter of a word: the transition of the oracle."""

from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.groups.requirements import require_finite_group
from torsor.maps import Permutation
from torsor.transitions.base import InputTransition


@final
class TokenPermutation(InputTransition):
    r"""Right multiplication by a letter, as a permutation of the group's elements.

    Token ``t`` of ``len(letters)`` carries the basis vector of state :math:`q` to that of
    :math:`q\,x_t`; the token ``len(letters)``, the begin token, carries every state to itself.
    It has no parameters and is exact at any length.

    Args:
        group: the finite group.
        letters: the elements that the tokens ``0, 1, ...`` stand for.

    Raises:
        ValueError: when ``group`` is no finite group, or a letter is not one of its elements.
    """

    def __init__(self, group: FiniteGroup, letters: tuple[int, ...]) -> None:
        super().__init__()
        require_finite_group(group)
        wrong = [letter for letter in letters if letter not in range(group.order)]
        if wrong:
            raise ValueError(f"letters must be elements of {group.name}, in 0 .. {group.order - 1}, got {wrong[0]}")
        self.dim: int = group.order
        columns = [torch.from_numpy(group.table[:, letter].copy()).long() for letter in letters]
        self.register_buffer("images", torch.stack([*columns, torch.arange(group.order)]), persistent=False)
        self.images: Tensor

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Permutation:
        return Permutation(self.images[tokens])

"""Codes that are elements of a group, moved by an element for each letter."""

import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.groups import MatrixGroup
from torsor.layers.code_moves import CodeMoves
from torsor.layers.group_table import GroupTable


@final
class GroupMoves(CodeMoves):
    r"""Elements :math:`C_i` of a matrix group; the letter :math:`x` moves :math:`C_i` to :math:`C_i M_x`.

    As codes they are divided by :math:`\sqrt{d}`, so that they have norm 1: the score of :math:`C_j` is
    :math:`\beta \operatorname{Re} \operatorname{tr}(C_j^* C_i M_x) / d`. With :math:`r` real numbers for an element
    there are :math:`(N + 1 + |X|) r + 1` parameters, far fewer than those of ``FreeMoves``.

    Args:
        group: that codes and letters lie on.
        codes: :math:`N`, at least 2.
        letters: how many letters there are, at least 1.
        sharpness: :math:`\beta` at the start, positive.
        reflected: probability of the second component of a group that has two, for codes and letters.
        generator: of the signs and the initial values.

    Raises:
        ValueError: when a number is out of its range.
    """

    def __init__(
        self,
        group: MatrixGroup,
        codes: int,
        letters: int,
        *,
        sharpness: float = 16.0,
        reflected: float = 0.5,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(codes, letters, sharpness)
        self.group = group
        self.elements: GroupTable = GroupTable(group, codes + 1, reflected=reflected, generator=generator)
        self.moves: GroupTable = GroupTable(group, letters, reflected=reflected, generator=generator)

    def codes(self) -> Float[Tensor, "codes_and_start numbers"]:
        return self.group.flatten(self.elements.elements()) / math.sqrt(self.group.dim)

    def moved(
        self, codes: Float[Tensor, "codes_and_start numbers"]
    ) -> Float[Tensor, "codes_and_start letters numbers"]:
        elements = self.group.unflatten(codes)[:, None]
        return self.group.flatten(self.group.compose(elements, self.moves.elements()))

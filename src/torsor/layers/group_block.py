"""The abstract layer of a group transformer: elements of a group in, elements out."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.groups import MatrixGroup
from torsor.layers.mixing import MixingKind
from torsor.transitions.base import Float32Island


class GroupBlock(Float32Island, ABC):
    """Move every state on a group by what it attends to and by what it is itself.

    Guarantees, each a law over every registered block in ``tests/laws/test_group_model_laws.py``:

    * the states stay on the group, in the component where they were;
    * causal: a token changes no state before it;
    * a sequence in pieces, each handed the states ``seen`` before it, equals the sequence in one;
    * without mixing, ``LinearMixing`` at :math:`W = I` and ``BCHMixing`` at 0 are all one.

    To add a block: one file with a final class and one line in ``tests/cases.py``.
    """

    group: MatrixGroup

    @abstractmethod
    def forward(
        self,
        states: Inexact[Tensor, "batch length ..."],
        tokens: Inexact[Tensor, "batch length ..."],
        past: Float[Tensor, "batch past ambient"] | None = None,
    ) -> tuple[Inexact[Tensor, "batch length ..."], Float[Tensor, "batch seen ambient"]]:
        """One layer.

        Args:
            states: one element for each position.
            tokens: the element of each position's token, for blocks that read it again.
            past: what the block returned for the positions before; None where there are none.

        Returns:
            The moved states, and the states that this block has seen so far: the next piece's ``past``.
        """


BlockKind = Callable[[MatrixGroup, MixingKind, torch.Generator | None], GroupBlock]
"""What makes a layer, such as the class ``SerialBlock``: from its group, mixing and generator."""

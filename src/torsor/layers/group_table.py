"""A table of group elements, one for each token, in unconstrained parameters."""

from typing import final

import torch
from jaxtyping import Inexact, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import normal
from torsor.transitions.base import Float32Island


@final
class GroupTable(Float32Island):
    r"""Elements :math:`M_v = F^{\eta_v} \exp(\Pi(B_v))` with free real numbers :math:`B_v`.

    The signs :math:`\eta_v` choose the component of groups that have two; they are drawn once and not
    learned. The numbers start normal with variance ``dim`` over how many there are for one element, so
    :math:`1/d` on a real matrix: the phases of an element then are of the order of 1.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * all elements lie on the group, in the component of their sign;
    * looking tokens up takes one exponential for each element of the table, however many tokens there are.

    Args:
        group: that the elements lie on.
        count: number of elements.
        reflected: probability of the second component; 0 for none there. Groups of one component ignore it.
        generator: of the signs and the initial values; None takes torch's global one.

    Raises:
        ValueError: when ``count`` is below 1 or ``reflected`` is no probability.
    """

    def __init__(
        self, group: MatrixGroup, count: int, *, reflected: float = 0.5, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        if not 0 <= reflected <= 1:
            raise ValueError(f"reflected must be a probability from 0 to 1, got {reflected}")
        self.group = group
        self.count = count
        std = (group.dim / torch.Size(group.raw_shape).numel()) ** 0.5
        self.raw: nn.Parameter = nn.Parameter(normal(std, count, *group.raw_shape, generator=generator))
        signs = torch.rand(count, generator=generator) < reflected if group.components > 1 else None
        self.register_buffer("component", signs)
        self.component: Tensor | None

    def elements(self) -> Inexact[Tensor, "count ..."]:
        """The elements of the table, in order."""
        return self.group.element(self.raw, self.component)

    def forward(self, tokens: Int[Tensor, "*batch"]) -> Inexact[Tensor, "..."]:
        """The element of every token, ``0 .. count - 1``."""
        # exponentials of the table, then rows of it; a lookup of flat rows has a fast gradient
        return self.group.unflatten(embedding(tokens, self.group.flatten(self.elements())))

    def extra_repr(self) -> str:
        return f"{self.group}, count={self.count}"

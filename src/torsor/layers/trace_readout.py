"""Logits from a state on a group: its similarity to one prototype for each class."""

from typing import final

import torch
from jaxtyping import Float, Inexact
from torch import Tensor, nn
from torch.nn.functional import linear

from torsor.groups import MatrixGroup
from torsor.layers.full_precision import full_precision
from torsor.layers.group_table import GroupTable
from torsor.transitions.base import Float32Island


@final
class TraceReadout(Float32Island):
    r"""The logit of a class is :math:`\operatorname{Re} \operatorname{tr}(P_v^* H) + b_v`, :math:`P_v` on the group.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * a logit differs from its bias by ``dim`` at most, and by ``dim`` where the state is the prototype;
    * moving the state and all prototypes by one element from the left changes nothing.

    Args:
        group: that the states lie on.
        classes: number of logits.
        reflected: probability of a prototype in the second component; groups of one component ignore it.
        generator: of the initial prototypes; the biases start at 0.

    Raises:
        ValueError: when ``classes`` is below 1 or ``reflected`` is no probability.
    """

    def __init__(
        self, group: MatrixGroup, classes: int, *, reflected: float = 0.5, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.prototypes: GroupTable = GroupTable(group, classes, reflected=reflected, generator=generator)
        self.bias: nn.Parameter = nn.Parameter(torch.zeros(classes, dtype=self.prototypes.raw.dtype))

    def forward(self, states: Inexact[Tensor, "..."]) -> Float[Tensor, "*batch classes"]:
        group = self.prototypes.group
        with full_precision(states):
            return linear(group.flatten(states), group.flatten(self.prototypes.elements()), self.bias)

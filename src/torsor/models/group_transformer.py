"""A transformer whose states are elements of a group."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.groups import MatrixGroup
from torsor.layers.group_attention import trace_attention_reference
from torsor.layers.group_block import BlockKind
from torsor.layers.group_table import GroupTable
from torsor.layers.mixing import LinearMixing, MixingKind
from torsor.layers.serial_block import SerialBlock
from torsor.layers.tangent import own_tangent
from torsor.layers.trace_readout import TraceReadout
from torsor.models.attending import Attending
from torsor.models.requirements import require_sizes
from torsor.transitions.base import Float32Island


@final
class GroupTransformer(Attending, Float32Island):
    r"""States :math:`H_i` on a group: the element of the token, moved by every layer, read out by similarity.

    There is no norm, no query, key, value or output matrix and no position: the group keeps states
    bounded, its inner product compares them, and the scores fall with the distance by a learned slope.
    A layer moves states along tangents, :math:`H_i \leftarrow H_i \exp(U_i)`; see ``SerialBlock``.

    With :math:`r` numbers of ``raw_shape`` and :math:`k` dimensions of the algebra, a vocabulary of
    :math:`V` and :math:`L` layers there are :math:`V (2 r + 1) + L (2 k + 2)` parameters, and
    :math:`2 L k^2` more with ``LinearMixing`` or :math:`L` more with ``BCHMixing``:

    ============================  =============  =================
    group                         :math:`r`      :math:`k`
    ============================  =============  =================
    ``Orthogonal(d)``             :math:`d^2`    :math:`d (d-1)/2`
    ``SpecialOrthogonal(d)``      :math:`d^2`    :math:`d (d-1)/2`
    ``Unitary(d)``                :math:`2 d^2`  :math:`d^2`
    ``SpecialUnitary(d)``         :math:`2 d^2`  :math:`d^2 - 1`
    ``Torus(k)``                  :math:`k`      :math:`k`
    ============================  =============  =================

    Parameters stay in float32 or float64 when the model is cast to half precision, and autocast is off
    inside, since half precision would leave the group.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * causal: a token changes no logits before it;
    * it runs at lengths it was never trained at;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one;
    * a logit differs from its bias by ``group.dim`` at most;
    * the number of parameters is the one above, for every group, mixing and block.

    Args:
        group: that the states lie on.
        vocabulary: number of tokens, in and out.
        layers: number of blocks.
        mixing: what tangents go through: ``IdentityMixing``, ``BCHMixing`` or ``LinearMixing``.
        block: the kind of layer: ``SerialBlock``, or another with as many parameters.
        reflected: probability that a token's element, or its prototype, lies in the second component
            of a group that has two. The signs are drawn once; at 0 an orthogonal group is left to rotations.
        seed: of the signs and the initial values.

    Raises:
        ValueError: when a size is below 1 or ``reflected`` is no probability.

    Reference:
        "Subgroups of U(d) Induce Natural RNN and Transformer Architectures"; ``docs/papers.md`` says
        what is certain and what is inferred.

    Example:
        >>> from torsor.groups import Orthogonal
        >>> model = GroupTransformer(Orthogonal(8), vocabulary=5)
        >>> model(torch.tensor([[0, 3, 1]])).shape
        torch.Size([1, 3, 5])
    """

    def __init__(
        self,
        group: MatrixGroup,
        vocabulary: int,
        layers: int = 2,
        mixing: MixingKind = LinearMixing,
        *,
        block: BlockKind = SerialBlock,
        reflected: float = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__()
        require_sizes(vocabulary=vocabulary, layers=layers)
        generator = torch.Generator().manual_seed(seed)
        self.group = group
        self.vocabulary = vocabulary
        self.embedding: GroupTable = GroupTable(group, vocabulary, reflected=reflected, generator=generator)
        self.blocks: nn.ModuleList = nn.ModuleList([block(group, mixing, generator) for _ in range(layers)])
        self.readout: TraceReadout = TraceReadout(group, vocabulary, reflected=reflected, generator=generator)

    def initial_state(self, batch: int) -> tuple[Float[Tensor, "batch past ambient"], ...]:
        """The state before the first token: for each block the states it has seen, of which there are none."""
        raw = self.embedding.raw
        return tuple(raw.new_zeros(batch, 0, self.group.ambient_dim) for _ in self.blocks)

    def _read(self, tokens: Tensor, state: Sequence[Tensor | None]) -> tuple[Tensor, tuple[Tensor, ...]]:
        inputs = self.embedding(tokens)
        states, seen = inputs, []
        for block, past in zip(self.blocks, state, strict=True):
            states, so_far = block(states, inputs, past)
            seen.append(so_far)
        return self.readout(states), tuple(seen)


def group_transformer_reference(
    model: GroupTransformer, tokens: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length vocabulary"]:
    """The logits of a model of ``SerialBlock`` by plain formulae: what speed and gradients are compared with."""
    group = model.group

    def elements(table: GroupTable) -> Tensor:
        return group.element(table.raw, table.component)

    def moved(states: Tensor, tangent: Tensor) -> Tensor:
        tangent = group.from_coordinates(tangent)
        square = len(group.shape) == 2
        return states @ torch.linalg.matrix_exp(tangent) if square else states * torch.exp(tangent)

    states = elements(model.embedding)[tokens]
    for block in model.blocks:
        if not isinstance(block, SerialBlock) or block.position_tangent is not own_tangent:
            raise ValueError(f"the reference is written for SerialBlock at its own tangent, got {type(block).__name__}")
        flat, attention = group.flatten(states), block.attention
        mean = group.unflatten(trace_attention_reference(flat, flat, attention.inverse_temperature, attention.slope))
        tangent = block.mixing(group.relative(states, mean), block.attention_drive, 0)
        states = moved(states, tangent)
        states = moved(states, block.mixing(group.to_coordinates(states), block.position_drive, 1))
    prototypes = group.flatten(elements(model.readout.prototypes))
    return group.flatten(states) @ prototypes.mT + model.readout.bias

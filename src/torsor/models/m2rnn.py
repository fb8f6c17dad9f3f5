"""A recurrent network whose states are matrices, mixed by a free matrix inside a tanh."""

from dataclasses import replace
from typing import final

import torch

from torsor.layers.m2rnn import M2RNNLayer, M2RNNStart
from torsor.layers.matrix_heads import MatrixHeads
from torsor.models.layered import LayeredModel
from torsor.models.requirements import require_sizes


@final
class M2RNN(LayeredModel):
    r"""Tokens through M²RNN layers: a state of ``layers * heads * key_dim * value_dim`` numbers, and small windows.

    The blocks around the layers, the number of parameters and the methods are those of ``LayeredModel``;
    the layers are ``M2RNNLayer``. The memory of a step does not grow.

    Guarantees, each a law over every registered model in ``tests/laws/test_sequence_layer_laws.py``:

    * causal: a token changes no logits before it;
    * it runs at lengths it was never trained at;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one;
    * packed sequences equal each sequence alone;
    * the number of parameters is the documented one, and the state is as large as documented.

    Args:
        vocabulary: number of tokens.
        width: of the residual stream.
        layers: number of blocks.
        heads: of every layer; a number stands for the published grouping, one query and one key for so
            many heads of 64 x 16.
        classes: number of logits; None for the vocabulary's.
        hidden: of the position-wise layers; 0 for 8/3 of the width, up to a multiple of 64.
        start: sizes of the initial values; the published ones by default. Its ``layers`` is set to those here.
        seed: of the initial values.

    Raises:
        ValueError: when a size is below 1 or the heads are refused by ``MatrixHeads``.

    Reference:
        "M²RNN: Non-Linear RNNs with Matrix-Valued States for Scalable Language Modeling"; ``docs/papers.md``
        says what is certain.

    Example:
        >>> logits, state = M2RNN(vocabulary=5, width=8, layers=1, heads=2)(torch.tensor([[0, 3, 1]]))
        >>> logits.shape, [tuple(part.shape) for part in state[0]]
        (torch.Size([1, 3, 5]), [(1, 2, 64, 16), (1, 3, 160)])
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        layers: int = 2,
        heads: MatrixHeads | int = 8,
        *,
        classes: int | None = None,
        hidden: int = 0,
        start: M2RNNStart | None = None,
        seed: int = 0,
    ) -> None:
        require_sizes(vocabulary=vocabulary, width=width, layers=layers)
        heads = MatrixHeads.multi_value(heads) if isinstance(heads, int) else heads
        start = replace(start or M2RNNStart(), layers=layers)
        generator = torch.Generator().manual_seed(seed)
        mixers = [M2RNNLayer(width, heads, start=start, generator=generator) for _ in range(layers)]
        super().__init__(vocabulary, mixers, classes, hidden, start.std, generator)

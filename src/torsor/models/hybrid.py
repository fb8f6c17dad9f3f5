"""A model given as a list of layers of any kinds."""

from collections.abc import Sequence
from typing import final

import torch

from torsor.layers.sequence_layer import SequenceLayer
from torsor.models.layered import LayeredModel


@final
class Hybrid(LayeredModel):
    r"""Layers of different kinds in one model: recurrent ones, and attention at some places.

    The blocks around the layers, the number of parameters and the methods are those of ``LayeredModel``.

    Guarantees, each a law over every registered model in ``tests/laws/test_sequence_layer_laws.py``:

    * causal: a token changes no logits before it;
    * it runs at lengths it was never trained at;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one;
    * packed sequences equal each sequence alone, or are refused where a layer attends;
    * the number of parameters is the documented one.

    Args:
        vocabulary: number of tokens.
        mixers: the layers in order, all of one width, with their own initial values.
        classes: number of logits; None for the vocabulary's.
        hidden: of the position-wise layers; 0 for 8/3 of the width, up to a multiple of 64.
        std: size of the initial values of what is not in the layers; 0.02 as published.
        seed: of those.

    Raises:
        ValueError: when there is no layer, their widths differ, one stands twice, or a size is below 1.

    Example:
        >>> from torsor.layers import CachedAttention, LSTMLayer
        >>> model = Hybrid(vocabulary=5, mixers=[LSTMLayer(8), CachedAttention(8, heads=2)])
        >>> logits, state = model(torch.tensor([[0, 3, 1]]))
        >>> logits.shape, [[tuple(part.shape) for part in each] for each in state]
        (torch.Size([1, 3, 5]), [[(1, 8), (1, 8)], [(1, 3, 16)]])
    """

    def __init__(
        self,
        vocabulary: int,
        mixers: Sequence[SequenceLayer],
        *,
        classes: int | None = None,
        hidden: int = 0,
        std: float = 0.02,
        seed: int = 0,
    ) -> None:
        super().__init__(vocabulary, mixers, classes, hidden, std, torch.Generator().manual_seed(seed))

"""The published layout of 410 million parameters: M²RNN layers, attention among them, or one layer replaced."""

from collections.abc import Callable, Sequence

import torch

from torsor.layers.cached_attention import CachedAttention
from torsor.layers.m2rnn import M2RNNLayer, M2RNNStart
from torsor.layers.matrix_heads import MatrixHeads
from torsor.layers.sequence_layer import SequenceLayer
from torsor.models.hybrid import Hybrid

WIDTH, LAYERS, HIDDEN, VOCABULARY = 1024, 24, 2752, 100_352
STATES, ATTENTION_HEADS = 84, 16
ATTENTION = (4, 12, 20)
ONE_LAYER = (0,)
THREE_LAYERS = (3, 11, 19)


def m2rnn_410m(
    other: Callable[[int], SequenceLayer] | None = None,
    m2rnn_at: Sequence[int] = ONE_LAYER,
    attention_at: Sequence[int] = ATTENTION,
    *,
    vocabulary: int = VOCABULARY,
    seed: int = 0,
) -> Hybrid:
    """The published model of 24 layers and width 1024 with an inner width of 2752, in one of its variants.

    By default 21 M²RNN layers of 84 states of 64 x 16, and attention with 16 heads and no positions as
    layers 4, 12 and 20, counted from 0. With another kind of recurrent layer, M²RNN takes the
    places ``m2rnn_at`` alone: ``ONE_LAYER`` or ``THREE_LAYERS``, as published for Gated DeltaNet and Mamba-2.

    Guarantees, each a test in ``tests/claims/test_m2rnn.py``:

    * 410,191,176 parameters besides the readout, which is not tied, 512,951,624 with it;
    * a matrix state of 86,016 numbers in every M²RNN layer;
    * no memory is touched under ``torch.device("meta")``.

    Args:
        other: builds the recurrent layers at the other places, given the width; None for M²RNN everywhere.
        m2rnn_at: places of the M²RNN layers beside another kind.
        attention_at: places of the attention; none for the purely recurrent model.
        vocabulary: number of tokens.
        seed: of the initial values of all but the other kind.

    Raises:
        ValueError: when a place is not one of 24 or is given to two kinds.
    """
    places, attending = set(() if other is None else m2rnn_at), set(attention_at)
    for place in sorted(places | attending):
        if not 0 <= place < LAYERS:
            raise ValueError(f"places must lie in 0 .. {LAYERS - 1}, got {place}")
    if places & attending:
        raise ValueError(f"m2rnn_at and attention_at must be apart, both hold {sorted(places & attending)}")
    generator = torch.Generator().manual_seed(seed)

    def layer(place: int) -> SequenceLayer:
        if place in attending:
            return CachedAttention(WIDTH, ATTENTION_HEADS, layers=LAYERS, generator=generator)
        if other is None or place in places:
            heads = MatrixHeads.multi_value(STATES)
            return M2RNNLayer(WIDTH, heads, start=M2RNNStart(layers=LAYERS), generator=generator)
        return other(WIDTH)

    return Hybrid(vocabulary, [layer(place) for place in range(LAYERS)], hidden=HIDDEN, seed=seed)

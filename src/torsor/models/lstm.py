"""The recurrent baseline: an LSTM over one-hot tokens."""

from typing import final

from torch import Tensor, nn

from torsor.layers.full_precision import lstm_precision
from torsor.models.one_hot_recurrent import OneHotRecurrent


@final
class LSTM(OneHotRecurrent):
    r"""One layer of torch's LSTM over one-hot tokens, and a matrix with bias to the logits.

    With a hidden size :math:`h`, a vocabulary of :math:`V` and :math:`C` classes there are
    :math:`4 h (V + h + 2) + C (h + 1)` parameters. All start uniform up to :math:`1 / \sqrt{h}`, as torch
    draws them. The state is the hidden state and the cell, both zero at first.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * causal: a token changes no logits before it;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one.

    Args:
        vocabulary: number of tokens.
        hidden: size of the state.
        classes: number of logits; None for the vocabulary's.
        seed: of the initial values.

    Raises:
        ValueError: when a size is below 1.

    Example:
        >>> logits, state = LSTM(vocabulary=5, hidden=8)(torch.tensor([[0, 3, 1]]))
        >>> logits.shape, len(state)
        (torch.Size([1, 3, 5]), 2)
    """

    def __init__(self, vocabulary: int, hidden: int, *, classes: int | None = None, seed: int = 0) -> None:
        super().__init__(nn.LSTM, 2, vocabulary, hidden, classes, seed)

    def _read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        with lstm_precision(inputs):
            return self.cell(inputs, state)

"""The recurrent baseline: an LSTM over one-hot tokens."""

import math
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from torsor.models.requirements import require_sizes, require_state, require_tokens

State = tuple[Float[Tensor, "batch hidden"], Float[Tensor, "batch hidden"]]


@final
class LSTM(nn.Module):
    r"""One layer of torch's LSTM over one-hot tokens, and a matrix with bias to the logits.

    With a hidden size :math:`h` and a vocabulary of :math:`V` there are :math:`4 h (V + h + 2) + V (h + 1)`
    parameters. All start uniform up to :math:`1 / \sqrt{h}`, as torch draws them.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * causal: a token changes no logits before it;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one.

    Args:
        vocabulary: number of tokens, in and out.
        hidden: size of the state.
        seed: of the initial values.

    Raises:
        ValueError: when a size is below 1.

    Example:
        >>> logits, state = LSTM(vocabulary=5, hidden=8)(torch.tensor([[0, 3, 1]]))
        >>> logits.shape
        torch.Size([1, 3, 5])
    """

    def __init__(self, vocabulary: int, hidden: int, *, seed: int = 0) -> None:
        super().__init__()
        require_sizes(vocabulary=vocabulary, hidden=hidden)
        self.vocabulary = vocabulary
        self.hidden = hidden
        self.cell = nn.LSTM(vocabulary, hidden, batch_first=True)
        self.readout = nn.Linear(hidden, vocabulary)
        self.reset_parameters(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw every parameter uniformly up to one over the root of the hidden size."""
        bound = 1 / math.sqrt(self.hidden)
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound, generator=generator)

    def initial_state(self, batch: int) -> State:
        """Hidden state and cell, both zero."""
        zero = self.readout.weight.new_zeros(batch, self.hidden)
        return zero, zero

    def forward(
        self, tokens: Int[Tensor, "batch length"], state: Sequence[Float[Tensor, "batch hidden"]] | None = None
    ) -> tuple[Float[Tensor, "batch length vocabulary"], State]:
        """Logits of the next token at every position, and the last state.

        Args:
            tokens: integers below the vocabulary.
            state: hidden state and cell before the first token; None for zeros.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty, or the state is not
                two tensors "batch hidden".
        """
        require_tokens(tokens, self.vocabulary)
        weight = self.readout.weight
        if state is None:
            state = self.initial_state(tokens.shape[0])
        require_state(state, [(tokens.shape[0], self.hidden)] * 2, weight.dtype)
        inputs = one_hot(tokens.long(), self.vocabulary).to(weight.dtype)
        outputs, (hidden, cell) = self.cell(inputs, (state[0][None], state[1][None]))
        return self.readout(outputs), (hidden[0], cell[0])

    def step(
        self, tokens: Int[Tensor, "batch"], state: Sequence[Float[Tensor, "batch hidden"]] | None = None
    ) -> tuple[Float[Tensor, "batch vocabulary"], State]:
        """Read one more token of every sequence.

        Raises:
            ValueError: as in ``forward``.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        logits, state = self.forward(tokens[:, None], state)
        return logits[:, 0], state

"""torch's recurrent layers over one-hot tokens, and a matrix to the logits: what the recurrent baselines share."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import one_hot

from torsor.models.requirements import require_sizes, require_state, require_tokens

State = tuple[Float[Tensor, "batch hidden"], ...]


class OneHotRecurrent(nn.Module, ABC):
    r"""One recurrent layer of torch over one-hot tokens, and a matrix with bias to the logits.

    All parameters start uniform up to :math:`1 / \sqrt{h}` with a hidden size :math:`h`, as torch draws them.

    Args:
        cell: what makes the layer: ``nn.LSTM`` or ``nn.GRU``.
        parts: tensors of its state.
        vocabulary: number of tokens.
        hidden: size of the state.
        classes: number of logits; None for the vocabulary's.
        seed: of the initial values.

    Raises:
        ValueError: when a size is below 1.
    """

    def __init__(
        self, cell: Callable[..., nn.RNNBase], parts: int, vocabulary: int, hidden: int, classes: int | None, seed: int
    ) -> None:
        super().__init__()
        classes = vocabulary if classes is None else classes
        require_sizes(vocabulary=vocabulary, hidden=hidden, classes=classes)
        self.vocabulary = vocabulary
        self.hidden = hidden
        self.parts = parts
        self.cell: nn.RNNBase = cell(vocabulary, hidden, batch_first=True)
        self.readout: nn.Linear = nn.Linear(hidden, classes)
        self.reset_parameters(torch.Generator().manual_seed(seed))

    @final
    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw every parameter uniformly up to one over the root of the hidden size."""
        bound = 1 / math.sqrt(self.hidden)
        for parameter in self.parameters():
            parameter.uniform_(-bound, bound, generator=generator)

    @final
    def initial_state(self, batch: int) -> State:
        """Zeros."""
        zero = self.readout.weight.new_zeros(batch, self.hidden)
        return (zero,) * self.parts

    @final
    def forward(
        self, tokens: Int[Tensor, "batch length"], state: Sequence[Float[Tensor, "batch hidden"]] | None = None
    ) -> tuple[Float[Tensor, "batch length classes"], State]:
        """Logits at every position, and the last state.

        Args:
            tokens: integers below the vocabulary.
            state: what was returned before the first token; None for zeros.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty, or the state is not
                of as many tensors "batch hidden" as the layer has.
        """
        require_tokens(tokens, self.vocabulary)
        weight = self.readout.weight
        if state is None:
            state = self.initial_state(tokens.shape[0])
        require_state(state, [(tokens.shape[0], self.hidden)] * self.parts, weight.dtype)
        inputs = one_hot(tokens.long(), self.vocabulary).to(weight.dtype)
        outputs, after = self._read(inputs, tuple(each[None] for each in state))
        # under autocast they come in half precision; between two pieces they have the type of the parameters
        return self.readout(outputs), tuple(each[0].to(weight.dtype) for each in after)

    @final
    def step(
        self, tokens: Int[Tensor, "batch"], state: Sequence[Float[Tensor, "batch hidden"]] | None = None
    ) -> tuple[Float[Tensor, "batch classes"], State]:
        """Read one more token of every sequence.

        Raises:
            ValueError: as in ``forward``.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        logits, state = self.forward(tokens[:, None], state)
        return logits[:, 0], state

    @abstractmethod
    def _read(self, inputs: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The layer's outputs and last state, which has torch's leading axis of layers."""

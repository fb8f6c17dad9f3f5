"""What models share whose state is all that they have read: the whole sequence, a piece of it, one token."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.models.requirements import require_state, require_tokens


class Attending(nn.Module, ABC):
    """A causal model that reads on from what its blocks have seen, one tensor "batch past numbers" for each.

    Guarantees, each a law over every registered model in ``tests/laws/test_group_model_laws.py``:

    * a sequence in pieces or token by token equals the sequence in one.

    To add one: a final class with ``vocabulary`` and the two abstract members.
    """

    vocabulary: int

    @abstractmethod
    def initial_state(self, batch: int) -> tuple[Float[Tensor, "batch past numbers"], ...]:
        """The state before the first token: for each block what it has seen, of which there is nothing."""

    @abstractmethod
    def _read(
        self, tokens: Int[Tensor, "batch length"], state: Sequence[Float[Tensor, "batch past numbers"] | None]
    ) -> tuple[Float[Tensor, "batch length vocabulary"], tuple[Float[Tensor, "batch seen numbers"], ...]]:
        """Logits at the positions of a piece, and what each block has seen after it.

        Args:
            tokens: of the piece; they have been checked.
            state: for each block what it has seen, which has been checked, or None for nothing.
        """

    @final
    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length vocabulary"]:
        """Logits of the next token at every position.

        Args:
            tokens: integers below the vocabulary.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty.
        """
        require_tokens(tokens, self.vocabulary)
        # None and not the empty state: a block that has nothing to join its own states to is faster
        return self._read(tokens, [None] * len(self.initial_state(tokens.shape[0])))[0]

    @final
    def extend(
        self, tokens: Int[Tensor, "batch length"], state: Sequence[Float[Tensor, "batch past numbers"]]
    ) -> tuple[Float[Tensor, "batch length vocabulary"], tuple[Float[Tensor, "batch seen numbers"], ...]]:
        """Read the next piece of a sequence: ``forward`` over all pieces joined, at the positions of this one.

        Args:
            tokens: of the piece.
            state: ``initial_state``, or what the piece before returned; it grows with the positions.

        Raises:
            ValueError: as in ``forward``, and when the state is not one tensor for each block as in ``initial_state``.
        """
        require_tokens(tokens, self.vocabulary)
        initial = self.initial_state(tokens.shape[0])
        require_state(state, [(len(each), "past", each.shape[-1]) for each in initial], initial[0].dtype)
        return self._read(tokens, state)

    @final
    def step(
        self, tokens: Int[Tensor, "batch"], state: Sequence[Float[Tensor, "batch past numbers"]]
    ) -> tuple[Float[Tensor, "batch vocabulary"], tuple[Float[Tensor, "batch seen numbers"], ...]]:
        """Read one more token of every sequence; ``extend`` by a piece of one position.

        Raises:
            ValueError: as in ``extend``.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        logits, state = self.extend(tokens[:, None], state)
        return logits[:, 0], state

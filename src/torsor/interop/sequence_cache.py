"""What a batch of sequences has read, as transformers' generation moves it about."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Bool, Float, Int
from torch import Tensor


class SequenceCache(ABC):
    """What every sequence of a batch has read, so that what follows it can be read alone.

    Sequences that have read different numbers of tokens stand side by side: padding is never read. The
    methods without an argument's description are those that ``generate`` calls on its caches.

    Attributes:
        seen: how many positions have been seen, padding included.
    """

    is_compileable = False
    to_legacy_cache = None
    seen: int = 0

    @abstractmethod
    def __len__(self) -> int:
        """How many sequences there are."""

    @abstractmethod
    def read(
        self, tokens: Int[Tensor, "batch length"], kept: Bool[Tensor, "batch length"], steps: int | None
    ) -> Float[Tensor, "batch length classes"]:
        """Read the next piece of every sequence.

        Args:
            tokens: of the sequences.
            kept: where a token is read; it may leave some sequences nothing, and not all of them.
            steps: loops, of a model that has any; None for any other.

        Returns:
            The logits of the tokens that were read, those of each sequence from its first place on.
        """

    @abstractmethod
    def take(self, rows: Sequence[int]) -> None:
        """Let sequence ``i`` go on from what sequence ``rows[i]`` has read."""

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many positions have been seen, padding included."""
        return self.seen

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let sequence ``i`` go on from what sequence ``beam_idx[i]`` has read."""
        self.take(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Let every sequence be followed by its copies."""
        self.take([row for row in range(len(self)) for _ in range(repeats)])

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these sequences alone."""
        self.take(indices.tolist())

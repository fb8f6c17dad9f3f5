"""What a looped transformer has read of a batch of sequences: the keys and values of every loop."""

from collections.abc import Sequence
from typing import final

from jaxtyping import Bool, Float, Int
from torch import Tensor

from torsor.generation.cache_policy import Full
from torsor.generation.depths import depths_of
from torsor.generation.looped_reader import LoopedReader
from torsor.generation.wave import Goal
from torsor.interop.sequence_cache import SequenceCache
from torsor.models.looped_transformer import LoopedTransformer

_ROOM = 64  # tokens of a sequence that there is room for at the start


@final
class LoopCache(SequenceCache):
    """A ``LoopedCache`` under the policy ``Full``, which grows with the text to twice its room at a time.

    The weights are those of the time when it is made, and no gradient passes.

    Args:
        model: that is read.
        batch: sequences.
        steps: the most loops of a token.

    Raises:
        ValueError: when there are no loops.
    """

    def __init__(self, model: LoopedTransformer, batch: int, steps: int) -> None:
        self._reader = LoopedReader(model)
        self._cache = self._reader.cache(batch, _ROOM, Full(steps))

    def __len__(self) -> int:
        return self._cache.batch

    def take(self, rows: Sequence[int]) -> None:
        self._cache.take(rows)

    def read(
        self, tokens: Int[Tensor, "batch length"], kept: Bool[Tensor, "batch length"], steps: int | None
    ) -> Float[Tensor, "batch length classes"]:
        goal = Goal(depths_of(require_loops(steps), 1)[0])
        counts = kept.sum(dim=1).tolist()
        rows = [(row, tokens[row][kept[row]]) for row, count in enumerate(counts) if count]
        needed = max(length + count for length, count in zip(self._cache.lengths, counts, strict=True))
        if needed > self._cache.capacity:
            self._cache.grow(max(needed, 2 * self._cache.capacity))
        found = self._reader.read_rows(rows, self._cache, [goal] * len(rows), every=True)
        some = found[rows[0][0]]
        logits = some.new_zeros(*tokens.shape, some.shape[-1])
        for row, of_row in found.items():
            logits[row, : len(of_row)] = of_row
        return logits


def require_loops(steps: int | None) -> int:
    """The number of loops, which there must be.

    Raises:
        ValueError: when there is none.
    """
    if steps is None:
        raise ValueError("steps must be a number of loops for a looped model, got None")
    return steps

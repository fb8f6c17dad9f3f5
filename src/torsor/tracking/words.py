"""Words of a word problem piece by piece, so that a million letters take the memory of one piece."""

from collections.abc import Iterator
from typing import final

import numpy as np
import torch
from jaxtyping import Int, UInt64

from torsor.groups import FiniteGroup
from torsor.tasks import IGNORED, Batch, WordProblem
from torsor.tracking.requirements import require_at_least

# The counters of WordProblem, so that words here are the words there; a test compares them.
TRAINING, EVALUATION, PLACES = 0, 1, 2  # the random streams of a seed; the third is this room's own
_TOGETHER = 64  # words that share a counter
_INNER = 16  # products taken one after the other inside a block, over all blocks at once: the fastest when measured


def word_pieces(task: WordProblem, words: int, length: int | None = None, piece: int = 256) -> Iterator[Batch]:
    """The evaluation words of a task, a few positions of all words at a time.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py``:

    * the pieces joined are ``task.evaluation(words, length)``, whatever the size of a piece;
    * a piece is all that is held at once: the length costs no memory.

    Args:
        task: the word problem; position 0 is its begin token, which is not scored.
        words: how many words, at least 1.
        length: letters in each word; the task's own by default.
        piece: positions in one batch, at least 1; the last batch may have fewer.

    Raises:
        ValueError: when a number is below 1.
    """
    length = task.length if length is None else length
    require_at_least(1, words=words, length=length, piece=piece)
    numbers = RandomNumbers(task.seed, EVALUATION, 0, words)
    letters = np.array(task.letters, dtype=np.int32)
    state = np.full(words, task.group.identity, dtype=np.int32)
    for start in range(0, length + 1, piece):
        stop = min(start + piece, length + 1)
        first = start == 0  # where the begin token stands
        drawn = (numbers.next(stop - start - first) % np.uint64(len(letters))).astype(np.int32)
        states = prefix_products(task.group, letters[drawn], state)
        if len(states):
            state = states[-1]
        if first:
            drawn = np.concatenate([np.full((1, words), task.begin, np.int32), drawn])
            states = np.concatenate([np.full((1, words), IGNORED, np.int32), states])
        yield Batch(_batch_first(drawn), _batch_first(states))


def prefix_products(
    group: FiniteGroup, elements: Int[np.ndarray, "length batch"], start: Int[np.ndarray, "batch"]
) -> Int[np.ndarray, "length batch"]:
    r"""The states :math:`q_t = q_0 x_1 \cdots x_t` of words of elements, one look-up for many positions.

    The length is cut into blocks. Products inside the blocks are taken for all blocks at once, then
    the totals of the blocks one after the other, then each position is multiplied by what came
    before its block: two look-ups a position, in few calls.

    Args:
        group: the group.
        elements: the letters as elements, positions first.
        start: the state before the first letter, of each word.
    """
    length, words = elements.shape
    if length == 0:
        return np.empty((0, words), np.int32)
    order, table = group.order, group.table.ravel()
    blocks = -(-length // _INNER)
    inside = np.zeros((blocks * _INNER, words), np.int32)  # the identity, element 0, fills the last block
    inside[:length] = elements
    inside = inside.reshape(blocks, _INNER, words)
    for place in range(1, _INNER):
        inside[:, place] = table.take(inside[:, place - 1] * order + inside[:, place])
    before = np.empty((blocks, words), np.int32)
    state = start.astype(np.int32)
    for block in range(blocks):
        before[block] = state
        state = table.take(state * order + inside[block, -1])
    return table.take(before[:, None] * order + inside).reshape(-1, words)[:length]


def prefix_products_reference(
    group: FiniteGroup, elements: Int[np.ndarray, "length batch"], start: Int[np.ndarray, "batch"]
) -> Int[np.ndarray, "length batch"]:
    """The same, one position after the other."""
    states, state = np.empty(elements.shape, np.int32), start
    for position, letters in enumerate(elements):
        state = states[position] = group.table[state, letters]
    return states


@final
class RandomNumbers:
    """Numbers of 64 bits for each position of some words, position by position.

    Number ``t`` of word ``i`` depends on ``(seed, stream, update, i, t)`` alone.

    Args:
        seed: 0 to 2⁶⁴ - 1, the key of Philox.
        stream: which of the seed's streams.
        update: 0 to 2⁶⁴ - 1.
        words: how many words.
    """

    def __init__(self, seed: int, stream: int, update: int, words: int) -> None:
        self.words = words
        blocks = range(-(-words // _TOGETHER))
        # an array, since a list of counters would pass through floats
        counters = [np.array([0, block, update, stream], dtype=np.uint64) for block in blocks]
        self.generators: list[np.random.Philox] = [np.random.Philox(key=seed, counter=counter) for counter in counters]

    def next(self, positions: int) -> UInt64[np.ndarray, "positions words"]:
        """The numbers of the next positions."""
        drawn = [generator.random_raw(positions * _TOGETHER) for generator in self.generators]
        return np.concatenate([each.reshape(positions, _TOGETHER) for each in drawn], axis=1)[:, : self.words]


def _batch_first(values: Int[np.ndarray, "length batch"]) -> Int[torch.Tensor, "batch length"]:
    return torch.from_numpy(np.ascontiguousarray(values.T, dtype=np.int64))

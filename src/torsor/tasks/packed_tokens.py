"""Language modelling on documents packed into one stream of tokens: name the token that comes next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from torsor.tasks.base import Batch, Task
from torsor.tasks.requirements import require_64_bits, require_at_least_one
from torsor.tasks.row_order import shuffled
from torsor.tasks.token_stream import TokenStream, require_stream, rows_of, without

MOST_TOKENS = 2**31  # in one batch: 16 GiB


@final
@dataclass(frozen=True, eq=False)
class PackedTokens(Task):
    r"""Rows of a packed stream; at each position the target is the next token.

    The stream is *begin, document, begin, document, ...* without padding. Row ``r`` is its tokens
    :math:`rc, \dots, rc + c` for a context of :math:`c`: the first :math:`c` are read, the last
    :math:`c` are the targets, so neighbouring rows share one token, which is a target in one and read
    in the other. Only a tail shorter than a row is left out. A row may hold several documents, and
    begin in the middle of one; nothing hides the document before.

    Training follows ``shuffled``: update ``u`` with ``size`` rows takes positions ``u * size`` to
    ``u * size + size - 1`` of an endless list of epochs, each the rows in an order of its own. A
    process that computes a part of the batch sees the same batch.

    In training the begin token is a target like any other: it is the only thing that tells a model
    where a document ends, which it must know to stop. Evaluation scores text alone: there a special
    token is no target, and a loss of training is therefore not quite the logarithm of a perplexity.

    Guarantees, each a test in ``tests/laws/test_packing_laws.py``:

    * in an epoch every row is seen exactly once, and with it every token of the stream but the
      first and the tail is a target exactly once;
    * in training every position carries a label;
    * shards on the disk and a tensor in memory give the same batches.

    Args:
        training: the stream to train on.
        validation: the stream of held-out documents.
        context: tokens that a model reads at once, at least 1 and less than either stream is long.
        entries: number of different tokens.
        special: tokens that stand for no text and are not scored in evaluation.
        seed: 0 to 2⁶⁴ - 1.

    Raises:
        ValueError: when an argument is not admissible; in ``batch`` and ``evaluation``, when a token is not
            below ``entries``.

    Example:
        >>> stream = torch.tensor([0, 5, 6, 0, 7, 8, 9, 0, 5])
        >>> task = PackedTokens(stream, stream, context=4, entries=10, special=(0,))
        >>> task.rows, task.evaluation(2).targets.tolist()
        (2, [[5, 6, -100, 7], [8, 9, -100, 5]])
    """

    training: TokenStream
    validation: TokenStream
    context: int
    entries: int
    special: Sequence[int] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        require_at_least_one(context=self.context, entries=self.entries)
        require_64_bits(seed=self.seed)
        object.__setattr__(self, "special", tuple(self.special))
        for token in self.special:
            if not 0 <= token < self.entries:
                raise ValueError(f"special tokens must be in 0 .. {self.entries - 1}, got {token}")
        for name, stream in (("training", self.training), ("validation", self.validation)):
            require_stream(name, stream)
            if len(stream) <= self.context:
                raise ValueError(
                    f"context must be less than the {len(stream)} tokens of the {name} stream, got {self.context}"
                )

    @property
    def vocabulary(self) -> int:
        """``entries``."""
        return self.entries

    @property
    def classes(self) -> int:
        """The same tokens, as what comes next."""
        return self.entries

    @property
    def rows(self) -> int:
        """Rows of an epoch."""
        return (len(self.training) - 1) // self.context

    def batch(self, update: int, size: int) -> Batch:
        """The training batch of an optimizer update.

        Args:
            update: the number of the update, 0 to 2⁶⁴ - 1.
            size: number of rows, at least 1; positions in the order of training move with it.
        """
        require_64_bits(update=update)
        self._require_size(size)
        epoch, first = divmod(update * size, self.rows)
        epochs, positions = np.divmod(first + np.arange(size), self.rows)
        order = np.empty(size, dtype=np.int64)
        for each in np.unique(epochs).tolist():
            here = epochs == each
            order[here] = shuffled(positions[here], self.rows, self.seed, epoch + each)
        return self._batch(self.training, order)

    def evaluation(self, size: int) -> Batch:
        """The first ``size`` rows of the validation stream; special tokens are no targets.

        Args:
            size: number of rows, at least 1 and at most as many as lie whole in the stream.

        Raises:
            ValueError: when ``size`` is not admissible.
        """
        self._require_size(size)
        rows = (len(self.validation) - 1) // self.context
        if size > rows:
            raise ValueError(f"size must be at most the {rows} rows of the validation stream, got {size}")
        batch = self._batch(self.validation, np.arange(size))
        return Batch(batch.tokens, without(batch.targets, self.special))

    def _batch(self, stream: TokenStream, order: np.ndarray) -> Batch:
        rows = rows_of(stream, order * self.context, self.context + 1)
        low, high = int(rows.min()), int(rows.max())
        if low < 0 or high >= self.entries:
            raise ValueError(f"tokens must be in 0 .. {self.entries - 1}, got {low if low < 0 else high}")
        return Batch(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())

    def _require_size(self, size: int) -> None:
        require_at_least_one(size=size)
        if size * (self.context + 1) > MOST_TOKENS:
            raise ValueError(
                f"size rows of context + 1 tokens must be at most {MOST_TOKENS} in all, "
                f"got {size} of {self.context + 1}"
            )

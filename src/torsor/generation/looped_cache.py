"""The keys and values of a looped transformer, allocated once and indexed by virtual layer."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor
from torch.nn.functional import pad

from torsor.generation.cache_policy import CachePolicy
from torsor.layers.rotary import rotary_table
from torsor.models import LoopedTransformer
from torsor.models.requirements import require_sizes


@final
class LoopedCache:
    r"""What a looped transformer has read of every row of a batch: keys and values of ``capacity`` tokens each.

    Virtual layers are numbered through the prelude, then slot by slot through the core, then the coda:
    core layer :math:`l` of slot :math:`s` is number :math:`P + s R + l`. All memory is taken at the start, and
    it is this, with :math:`P, R, K` layers, :math:`S` slots of the policy, a batch :math:`B`, a capacity :math:`n`, a
    width :math:`d`, heads of :math:`h` coordinates, :math:`w` bytes of a weight and :math:`w' = \max(w, 4)`:

    .. math:: 2 w B n d (P + S R + K) + w' B d + w' n h

    The second term is the last state of every row, the third the table of rotary positions.

    Guarantees, each a test in ``tests/laws/test_looped_cache_laws.py``:

    * the memory is the formula, before and after reading;
    * a row that is reset is as if it had never been read;
    * a row that is copied goes on as the one it was copied from, and a larger capacity changes nothing else.

    Args:
        model: whose sizes, type and device it has.
        batch: rows.
        capacity: the most tokens of a row.
        policy: which loops of earlier tokens it keeps.

    Raises:
        ValueError: when a size is below 1.

    Attributes:
        lengths: how many tokens of each row have been read.
        steps: how many loops the last token of each row made; 0 for none.
    """

    def __init__(self, model: LoopedTransformer, batch: int, capacity: int, policy: CachePolicy) -> None:
        require_sizes(batch=batch, capacity=capacity)
        weight = model.inject.weight
        self.policy = policy
        self.batch: int = batch
        self.capacity: int = capacity
        self.layers: tuple[int, ...] = tuple(
            len(stack.blocks) for stack in (model.prelude.blocks, model.core, model.coda.blocks)
        )
        prelude, core, coda = self.layers
        virtual = prelude + policy.slots * core + coda
        heads, head_dim = model.width // model.head_dim, model.head_dim
        # zeros and not whatever lay there: a place that is masked must still hold a number
        self.keys_values: Tensor = weight.new_zeros(virtual, 2, batch, heads, capacity, head_dim)
        wide = torch.promote_types(weight.dtype, torch.float32)
        self.last: Tensor = weight.new_zeros(batch, model.width, dtype=wide)
        self.rotary: Tensor = rotary_table(capacity, head_dim, device=weight.device, dtype=weight.dtype)
        self.lengths: list[int] = [0] * batch
        self.steps: list[int] = [0] * batch

    @property
    def bytes(self) -> int:
        """The memory of all its tensors: the formula above."""
        return self.keys_values.nbytes + self.last.nbytes + self.rotary.nbytes

    def prelude_layers(self) -> range:
        """The virtual layers of the prelude."""
        return range(self.layers[0])

    def coda_layers(self) -> range:
        """The virtual layers of the coda."""
        return range(len(self.keys_values) - self.layers[2], len(self.keys_values))

    def first_core_layer(self, step: int) -> int:
        """The virtual layer of the core's first block at a loop."""
        return self.layers[0] + self.policy.slot(step) * self.layers[1]

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Forget what rows have read, all of them by default.

        Raises:
            ValueError: when there is no such row.
        """
        rows = range(self.batch) if rows is None else rows
        self.require_rows(rows)
        for row in rows:
            # A number that is not finite would be felt even where it is masked. The whole row: a span that is on
            # its way has written beyond what counts as read.
            self.keys_values[:, :, row] = 0
            self.lengths[row] = self.steps[row] = 0
            self.last[row] = 0

    def take(self, rows: Sequence[int]) -> None:
        """Let row ``i`` be a copy of what row ``rows[i]`` was: the batch is as large as there are rows named.

        Raises:
            ValueError: when no row is named, or one that is not there.
        """
        require_sizes(batch=len(rows))
        self.require_rows(sorted(set(rows)))
        index = torch.tensor(list(rows), device=self.last.device)
        self.keys_values, self.last = self.keys_values.index_select(2, index), self.last.index_select(0, index)
        self.lengths = [self.lengths[row] for row in rows]
        self.steps = [self.steps[row] for row in rows]
        self.batch = len(rows)

    def grow(self, capacity: int) -> None:
        """Make room for more tokens of each row; while it is done, old and new memory are there at once.

        Raises:
            ValueError: when the capacity would be smaller.
        """
        if capacity < self.capacity:
            raise ValueError(f"capacity must be at least what it is, {self.capacity}, got {capacity}")
        more = capacity - self.capacity
        self.keys_values = pad(self.keys_values, (0, 0, 0, more))
        head_dim = self.keys_values.shape[-1]
        self.rotary = rotary_table(capacity, head_dim, device=self.last.device, dtype=self.keys_values.dtype)
        self.capacity = capacity

    def require_rows(self, rows: Sequence[int]) -> None:
        """Refuse what are not different rows of this cache.

        Raises:
            ValueError: when a row is not there or stands twice.
        """
        if len(set(rows)) < len(rows):
            raise ValueError(f"rows must be different, got {list(rows)}")
        for row in rows:
            if not 0 <= row < self.batch:
                raise ValueError(f"rows must be those of the cache, 0 .. {self.batch - 1}, got {row}")

    def require_room(self, row: int, count: int) -> None:
        """Refuse more tokens than a row has room for.

        Raises:
            ValueError: when they do not fit.
        """
        if self.lengths[row] + count > self.capacity:
            raise ValueError(
                f"the context must have room for every token: it holds {self.capacity}, "
                f"row {row} has {self.lengths[row]} and {count} more were given"
            )

    def end(self, row: int, start: int, count: int, steps: int, state: Float[Tensor, "width"]) -> None:
        """Take note that tokens of a row have been read to the end, with so many loops.

        The slots beyond them get the keys and values of their last loop.

        Args:
            row: of the batch.
            start: position of the first of the tokens.
            count: of tokens.
            steps: loops that they made.
            state: of the last of them after its last loop.
        """
        prelude, core, _ = self.layers
        if steps < self.policy.slots:
            of_core = self.keys_values[prelude : prelude + self.policy.slots * core]
            own = of_core.unflatten(0, (self.policy.slots, core))[:, :, :, row, :, start : start + count]
            own[steps:] = own[self.policy.slot(steps - 1)].unsqueeze(0)
        self.last[row] = state
        self.lengths[row] = start + count
        self.steps[row] = steps

    def positions(self, start: int, count: int) -> Complex[Tensor, "count half"]:
        """The rotary multipliers of consecutive positions."""
        return self.rotary[start : start + count]

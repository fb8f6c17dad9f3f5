"""Attention of new tokens to what their rows have in a cache."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

import torch
from jaxtyping import Bool, Complex, Float, Int
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from torsor.generation.looped_cache import LoopedCache


@final
@dataclass(frozen=True)
class Span:
    """New tokens of one row, at consecutive positions.

    Args:
        row: of the cache.
        start: the position of the first.
        count: how many, at least 1.
    """

    row: int
    start: int
    count: int


@final
class Window:
    """The places of new tokens, which lie in one row, span after span.

    Args:
        spans: in the order of their count, of different rows.
        cache: that they read from and write to.
    """

    def __init__(self, spans: Sequence[Span], cache: LoopedCache) -> None:
        self.spans: tuple[Span, ...] = tuple(spans)
        self.cache = cache
        pieces = [cache.positions(span.start, span.count) for span in spans]
        self.rotary: Complex[Tensor, "tokens half"] = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        self._rectangles = [_Rectangle(list(each), cache) for _, each in groupby(spans, lambda span: span.count)]

    def attend(
        self,
        virtual: int | Int[Tensor, "spans"],
        query: Float[Tensor, "tokens heads head_dim"],
        key: Float[Tensor, "tokens heads head_dim"],
        value: Float[Tensor, "tokens heads head_dim"],
    ) -> Float[Tensor, "tokens width"]:
        """Keep keys and values of the tokens, and let each attend to its row up to itself.

        Args:
            virtual: the layer of the cache, one for all or one for each span.
            query: of the tokens, turned and normalised.
            key: likewise.
            value: of the tokens.
        """
        mixed, first, token = [], 0, 0
        for each in self._rectangles:
            tokens = slice(token, token + len(each.rows) * each.count)
            layer = virtual if isinstance(virtual, int) else virtual[first : first + len(each.rows)]
            mixed.append(each.attend(layer, query[tokens], key[tokens], value[tokens]))
            first, token = first + len(each.rows), tokens.stop
        return mixed[0] if len(mixed) == 1 else torch.cat(mixed)


@final
class _Rectangle:
    """Spans of one count: what attends together."""

    def __init__(self, spans: list[Span], cache: LoopedCache) -> None:
        self.rows = [span.row for span in spans]
        self.starts = [span.start for span in spans]
        self.count = spans[0].count
        self._memory = cache.keys_values
        device = self._memory.device
        self._seen = max(self.starts) + self.count
        self._row_index = torch.tensor(self.rows, device=device)
        # neighbours are read as they lie, without a copy, and written so where they also are at one place
        first, last = self.rows[0], self.rows[-1] + 1
        self._rows = slice(first, last) if self.rows == list(range(first, last)) else self._row_index
        self._aligned = len(set(self.starts)) == 1 and isinstance(self._rows, slice)
        start = torch.tensor(self.starts, device=device)
        self._position = start[:, None] + torch.arange(self.count, device=device)
        self._mask = self._masked(device)
        self._causal = self._mask is None and self.count > 1

    def _masked(self, device: torch.device) -> Bool[Tensor, "spans 1 count seen"] | None:
        if len(set(self.starts)) == 1 and (self.count == 1 or self.starts[0] == 0):
            return None
        return (torch.arange(self._seen, device=device) <= self._position[..., None]).unsqueeze(1)

    def attend(self, layer: int | Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        query, key, value = (part.unflatten(0, (len(self.rows), self.count)) for part in (query, key, value))
        if isinstance(layer, int):
            keys, values = self._of_one_layer(self._memory[layer], key, value)
        else:
            keys, values = self._of_a_layer_each(layer, key, value)
        mixed = scaled_dot_product_attention(
            query.transpose(1, 2), keys, values, attn_mask=self._mask, is_causal=self._causal
        )
        return mixed.transpose(1, 2).flatten(0, 1).flatten(1)

    def _of_one_layer(self, memory: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        if self._aligned:
            memory[0, self._rows, :, self.starts[0] : self._seen] = key.transpose(1, 2)
            memory[1, self._rows, :, self.starts[0] : self._seen] = value.transpose(1, 2)
        else:
            memory[0, self._row_index[:, None], :, self._position] = key
            memory[1, self._row_index[:, None], :, self._position] = value
        memory = memory[:, :, :, : self._seen]
        return memory[0, self._rows], memory[1, self._rows]

    def _of_a_layer_each(self, layer: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        rows, places = self._row_index[:, None], self._position
        self._memory[layer[:, None], 0, rows, :, places] = key
        self._memory[layer[:, None], 1, rows, :, places] = value
        keys_values = self._memory[..., : self._seen, :]
        return keys_values[layer, 0, self._row_index], keys_values[layer, 1, self._row_index]

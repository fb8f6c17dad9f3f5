"""Tokens on their way through the loops, each row at a loop of its own."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TypeVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.generation.exits import ExitRule
from torsor.generation.looped_cache import LoopedCache
from torsor.generation.window import Span, Window

Each = TypeVar("Each")


@final
@dataclass(frozen=True)
class Goal:
    """How far the tokens of a row go.

    Args:
        steps: the most loops.
        rule: ends a token before that; None for none. It goes with one token at a time.
        warm: start from the last state of the row's token before, not from zeros; likewise.
    """

    steps: int
    rule: ExitRule | None = None
    warm: bool = False


@final
@dataclass(frozen=True)
class Wave:
    """Tokens of several rows between two loops; they lie end to end, row after row.

    Args:
        window: where they are; its spans are in the order of their count.
        tokens: that are read.
        write: what every loop injects.
        values: value embeddings that the core reads, one tensor for each block that does.
        state: after the loops so far.
        goals: of the rows.
        done: loops of each row so far.
        logits: of rows whose rule reads them, after their last loop.
        ended: rows that make no further loop.
    """

    window: Window
    tokens: Int[Tensor, "tokens"]
    write: Float[Tensor, "tokens width"]
    values: tuple[Float[Tensor, "tokens width"], ...]
    state: Float[Tensor, "tokens width"]
    goals: tuple[Goal, ...]
    done: tuple[int, ...]
    logits: tuple[Float[Tensor, "classes"] | None, ...]
    ended: tuple[bool, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        """The places of each row's tokens."""
        return self.window.spans

    def select(self, chosen: Sequence[int]) -> "Wave | None":
        """Some of the rows by their place in the wave, in increasing order of their count; None for no row."""
        if list(chosen) == list(range(len(self.spans))):
            return self
        if not chosen:
            return None
        return _arranged([self], chosen, self.window.cache)

    def parted(self) -> "tuple[Wave | None, Wave | None]":
        """The rows that have ended, and those that go on."""
        return (
            self.select([each for each, ended in enumerate(self.ended) if ended]),
            self.select([each for each, ended in enumerate(self.ended) if not ended]),
        )


def joined(waves: Sequence[Wave], cache: LoopedCache) -> Wave:
    """Waves of different rows as one, at least one of them."""
    if len(waves) == 1:
        return waves[0]
    counts = [span.count for wave in waves for span in wave.spans]
    return _arranged(waves, sorted(range(len(counts)), key=counts.__getitem__), cache)


def _arranged(waves: Sequence[Wave], chosen: Sequence[int], cache: LoopedCache) -> Wave:
    """Rows by their place among those of all waves."""
    spans = _chain(wave.spans for wave in waves)
    first = list(accumulate((span.count for span in spans), initial=0))
    places = [place for each in chosen for place in range(first[each], first[each + 1])]
    index = torch.tensor(places, device=waves[0].tokens.device)

    def of_tokens(parts: Iterable[Tensor]) -> Tensor:
        several = list(parts)
        return (several[0] if len(several) == 1 else torch.cat(several))[index]

    def of_rows(parts: Iterable[Iterable[Each]]) -> tuple[Each, ...]:
        whole = _chain(parts)
        return tuple(whole[each] for each in chosen)

    return Wave(
        window=Window(of_rows(wave.spans for wave in waves), cache),
        tokens=of_tokens(wave.tokens for wave in waves),
        write=of_tokens(wave.write for wave in waves),
        values=tuple(of_tokens(each) for each in zip(*(wave.values for wave in waves), strict=True)),
        state=of_tokens(wave.state for wave in waves),
        goals=of_rows(wave.goals for wave in waves),
        done=of_rows(wave.done for wave in waves),
        logits=of_rows(wave.logits for wave in waves),
        ended=of_rows(wave.ended for wave in waves),
    )


def _chain(parts: Iterable[Iterable[Each]]) -> list[Each]:
    return list(chain.from_iterable(parts))

"""A looped transformer at fixed weights that reads on from a cache: pieces of prompts, one token, one loop."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear

from torsor.generation.cache_policy import CachePolicy
from torsor.generation.depths import depths_of
from torsor.generation.exits import ExitRule, Iterate
from torsor.generation.looped_cache import LoopedCache
from torsor.generation.prompts import Prompts
from torsor.generation.wave import Goal, Wave
from torsor.generation.window import Span, Window
from torsor.layers.folded_block import Attend, FoldedStack
from torsor.models import LoopedTransformer
from torsor.models.requirements import require_tokens


@final
@dataclass(frozen=True)
class Reading:
    """What came of a piece.

    Args:
        logits: of the token after the last one of each row, "batch classes"; or at every token, "total classes".
        steps: how many loops each row made.
    """

    logits: Float[Tensor, "rows classes"]
    steps: tuple[int, ...]


@final
class LoopedReader:
    r"""Read a looped transformer piece by piece; the keys and values of what has been read lie in a ``LoopedCache``.

    The weights are folded and the transition's maps are built once, when the reader is made: what is trained
    afterwards does not reach it. Rows of a batch may have different lengths and depths; a row that has
    made its loops is not computed any more. No gradient passes.

    Guarantees, each a test in ``tests/laws/test_looped_reader_laws.py``, in float64 and in float32:

    * under ``Full`` the logits are those of the model over the whole sequence, at any depth;
    * under ``Full`` a prompt in any pieces, at one depth, equals the prompt in one;
    * under every policy the logits are those of its definition, recomputed by hand;
    * a batch equals its rows alone, whatever their lengths, depths and exit rules;
    * a token that has ended by a rule is seen by later ones as it ended.

    Under ``LastLoop`` and ``Budget`` the pieces are part of the definition, since tokens of one piece see each
    other at the same loop: read a prompt in one piece.

    Args:
        model: in the mode it is in.

    Example:
        >>> from torsor.generation import Full, Prompts
        >>> from torsor.models import parcae_transformer
        >>> from torsor.transitions import BlockConformal
        >>> model = parcae_transformer(BlockConformal(8, groups=2), vocabulary=5, heads=2)
        >>> reader = LoopedReader(model)
        >>> cache = reader.cache(batch=2, capacity=16, policy=Full(steps=4))
        >>> reader.read(Prompts.of([[0, 3, 1], [2]]), cache, steps=4).logits.shape
        torch.Size([2, 5])
    """

    @torch.no_grad()
    def __init__(self, model: LoopedTransformer) -> None:
        self.model = model
        self._prelude = FoldedStack(model.prelude.blocks)
        self._core = FoldedStack(model.core)
        self._coda = FoldedStack(model.coda.blocks)
        self._carry = model.transition()
        self._inject = model.transition.input_map()

    @property
    def bytes(self) -> int:
        """Of the folded copies of weights: for each block ``3 width^2 + hidden width`` numbers, and its gate."""
        return sum(stack.bytes for stack in (self._prelude, self._core, self._coda))

    def cache(self, batch: int, capacity: int, policy: CachePolicy) -> LoopedCache:
        """An empty cache for this model.

        Raises:
            ValueError: when a size is below 1.
        """
        return LoopedCache(self.model, batch, capacity, policy)

    def read(
        self,
        piece: Prompts,
        cache: LoopedCache,
        steps: int | Int[Tensor, "batch"],
        *,
        rule: ExitRule | None = None,
        warm: bool = False,
        every: bool = False,
    ) -> Reading:
        """Read the next piece of every row.

        Args:
            piece: new tokens, for each row of the cache in order.
            cache: what has been read; the tokens are added to it.
            steps: loops of every token, or of those of each row.
            rule: ends a token before its ``steps``; for pieces of one token.
            warm: start from the last state of the row's token before, not from zeros; for pieces of one token.
            every: logits at every token and not only after the last of each row.

        Raises:
            ValueError: when the cache is of another batch or model, a row has no room, a token is outside the
                vocabulary, or ``steps`` is not one of the above.
        """
        depths = depths_of(steps, len(piece))
        if len(piece) != cache.batch:
            raise ValueError(f"the cache must be one of the batch of {len(piece)} rows, got one of {cache.batch}")
        goals = [Goal(each, rule, warm) for each in depths]
        logits = self.read_rows(list(enumerate(piece.rows())), cache, goals, every=every)
        in_order = [logits[row] for row in range(cache.batch)]
        return Reading(torch.cat(in_order) if every else torch.stack(in_order), tuple(cache.steps))

    def read_rows(
        self, tokens: Sequence[tuple[int, Int[Tensor, "_"]]], cache: LoopedCache, goals: Sequence[Goal], *, every: bool
    ) -> dict[int, Float[Tensor, "..."]]:
        """Read the next tokens of some rows alone: ``enter``, as many turns as they need, ``leave``.

        Raises:
            ValueError: as in ``read``.
        """
        wave: Wave | None = self.enter(tokens, cache, goals)
        logits: dict[int, Tensor] = {}
        while wave is not None:
            ended, wave = self.turn(wave).parted()
            if ended is not None:
                logits |= self.leave(ended, every=every)
        return logits

    @torch.no_grad()
    def enter(
        self,
        tokens: Sequence[tuple[int, Int[Tensor, "_"]]],
        cache: LoopedCache,
        goals: Sequence[Goal],
    ) -> Wave:
        """Take tokens through the prelude: they stand before their first loop.

        Args:
            tokens: rows of the cache, each with its new tokens.
            cache: that is read and written.
            goals: of the rows.

        Raises:
            ValueError: as in ``read``.
        """
        rows = [row for row, _ in tokens]
        cache.require_rows(rows)
        self._require(cache)
        for (row, new), goal in zip(tokens, goals, strict=True):
            require_tokens(new, self.model.vocabulary, ("length",))
            cache.require_room(row, len(new))
            cache.policy.require(goal.steps)
            if len(new) > 1 and (goal.rule is not None or goal.warm):
                raise ValueError(f"an exit rule and a warm start go with one token of a row, got {len(new)}")
        order = sorted(range(len(rows)), key=lambda each: len(tokens[each][1]))
        spans = [Span(rows[each], cache.lengths[rows[each]], len(tokens[each][1])) for each in order]
        joined = torch.cat([tokens[each][1] for each in order])
        window = Window(spans, cache)
        prelude = self.model.prelude
        x = prelude.embedding(joined)
        x = self._prelude(x, window.rotary, _at(window, cache.prelude_layers()), _looked_up(self._prelude, joined))
        write = self._inject(linear(prelude.norm(x), self.model.inject.weight))
        state = torch.zeros_like(write)
        place = 0
        for each, span in zip(order, spans, strict=True):
            if goals[each].warm:
                state[place] = cache.last[span.row]
            place += span.count
        return Wave(
            window=window,
            tokens=joined,
            write=write,
            values=_looked_up(self._core, joined),
            state=state,
            goals=tuple(goals[each] for each in order),
            done=(0,) * len(rows),
            logits=(None,) * len(rows),
            ended=(False,) * len(rows),
        )

    @torch.no_grad()
    def turn(self, wave: Wave) -> Wave:
        """One loop more for every row, each at its own; then a rule says which have ended."""
        cache, core = wave.window.cache, self._core
        firsts = [cache.first_core_layer(done) for done in wave.done]
        first: int | Tensor = firsts[0]
        if len(set(firsts)) > 1:
            first = torch.tensor(firsts, device=wave.tokens.device)
        attends = [partial(wave.window.attend, first + layer) for layer in range(len(core.blocks))]
        inner = (self._carry(wave.state) + wave.write).to(self.model.inject.weight.dtype)
        state = core(inner, wave.window.rotary, attends, wave.values).to(wave.state.dtype)
        done = tuple(each + 1 for each in wave.done)
        ended = tuple(each >= goal.steps for each, goal in zip(done, wave.goals, strict=True))
        after = replace(wave, state=state, done=done, ended=ended)
        return after if all(goal.rule is None for goal in wave.goals) else self._judged(wave, after)

    def _judged(self, before: Wave, after: Wave) -> Wave:
        """The rows that a rule ends, and the logits that rules look at."""
        logits, ended = list(after.logits), list(after.ended)
        for rule in {goal.rule for goal in after.goals}:
            chosen = [each for each, goal in enumerate(after.goals) if goal.rule == rule]
            old, new = before.select(chosen), after.select(chosen)
            if rule is None or old is None or new is None:
                continue
            read = None
            if rule.reads_logits:
                read = self.model.readout(self._coda_of(new))
                for each, row in zip(chosen, read, strict=True):
                    logits[each] = row
            asked = [place for place, each in enumerate(chosen) if after.done[each] > 1]
            if not asked:
                continue
            earlier = None if read is None else torch.stack([_there(old.logits[place]) for place in asked])
            verdict = rule.ended(
                Iterate(old.state[asked], earlier), Iterate(new.state[asked], None if read is None else read[asked])
            )
            for place, says in zip(asked, verdict.tolist(), strict=True):
                ended[chosen[place]] |= says
        return replace(after, logits=tuple(logits), ended=tuple(ended))

    @torch.no_grad()
    def leave(self, wave: Wave, *, every: bool = False) -> dict[int, Float[Tensor, "..."]]:
        """Take rows that have ended through the coda, and count their tokens as read.

        Args:
            wave: whose rows have all ended.
            every: logits at every token of a row, "count classes", and not only after its last, "classes".

        Returns:
            The logits of each row of the cache that was in the wave.
        """
        found: dict[int, Tensor] = {}
        known = [each for each in wave.logits if each is not None]
        x = None if len(known) == len(wave.spans) else self._coda_of(wave)
        place = 0
        for each, (span, done) in enumerate(zip(wave.spans, wave.done, strict=True)):
            tokens = slice(place, place + span.count)
            place = tokens.stop
            if x is None:
                found[span.row] = known[each] if not every else known[each][None]
            else:
                found[span.row] = self.model.readout(x[tokens] if every else x[place - 1])
            wave.window.cache.end(span.row, span.start, span.count, done, wave.state[place - 1])
        return found

    def _coda_of(self, wave: Wave) -> Tensor:
        window, coda = wave.window, self.model.coda
        x = coda.enter(wave.state.to(self.model.inject.weight.dtype))
        at = _at(window, window.cache.coda_layers())
        return coda.norm(self._coda(x, window.rotary, at, _looked_up(self._coda, wave.tokens)))

    def _require(self, cache: LoopedCache) -> None:
        memory, weight = cache.keys_values, self.model.inject.weight
        want = (tuple(len(each.blocks) for each in (self._prelude, self._core, self._coda)), self.model.head_dim)
        got = (cache.layers, memory.shape[-1])
        fits = want == got and memory.dtype == weight.dtype and memory.device == weight.device
        if not fits or memory.shape[3] * memory.shape[-1] != self.model.width:
            raise ValueError("the cache must be one of this model, made by reader.cache(...), got another model's")


def _at(window: Window, layers: Sequence[int]) -> list[Attend]:
    return [partial(window.attend, layer) for layer in layers]


def _looked_up(stack: FoldedStack, tokens: Tensor) -> tuple[Tensor, ...]:
    return tuple(each[0] for each in stack.stack.values(tokens[None]))


def _there(logits: Tensor | None) -> Tensor:
    if logits is None:
        raise ValueError("a rule that reads logits must be given those of the loop before, got none")
    return logits

"""A looped transformer as a model of one token at a time: at a depth, with a cache."""

from dataclasses import dataclass
from typing import final

from jaxtyping import Float, Int
from torch import Tensor

from torsor.generation.cache_policy import CachePolicy
from torsor.generation.exits import ExitRule
from torsor.generation.looped_cache import LoopedCache
from torsor.generation.looped_reader import LoopedReader
from torsor.generation.prompt_reader import PromptReader
from torsor.generation.prompts import Prompts


@final
@dataclass(frozen=True)
class CachedLoop(PromptReader):
    """Prompts are read at the full depth; an exit rule and a warm start are for the tokens after them.

    The state is the cache itself, which a step changes.

    Args:
        reader: the model at fixed weights.
        steps: loops of every token, or of those of each row.
        capacity: the most tokens of a row, prompt and continuation.
        policy: of the cache.
        rule: ends a token before its ``steps``; None for none.
        warm: start a token from the last state of the one before, not from zeros.
    """

    reader: LoopedReader
    steps: int | Int[Tensor, "batch"]
    capacity: int
    policy: CachePolicy
    rule: ExitRule | None = None
    warm: bool = False

    def initial_state(self, batch: int) -> LoopedCache:
        """An empty cache."""
        return self.reader.cache(batch, self.capacity, self.policy)

    def begin(self, prompts: Prompts) -> tuple[Float[Tensor, "batch classes"], LoopedCache]:
        cache = self.initial_state(len(prompts))
        return self.reader.read(prompts, cache, self.steps).logits, cache

    def step(
        self, tokens: Int[Tensor, "batch"], state: LoopedCache
    ) -> tuple[Float[Tensor, "batch classes"], LoopedCache]:
        piece = Prompts(tokens, (1,) * len(tokens))
        return self.reader.read(piece, state, self.steps, rule=self.rule, warm=self.warm).logits, state

"""Weights and a cache in a long-lived process: answers of different depths in one batch."""

from collections import deque
from threading import RLock
from typing import final

import torch

from torsor.generation.answer import Answer
from torsor.generation.cache_policy import CachePolicy
from torsor.generation.looped_cache import LoopedCache
from torsor.generation.looped_reader import LoopedReader
from torsor.generation.request import Request
from torsor.generation.wave import Wave, joined
from torsor.models import LoopedTransformer
from torsor.models.requirements import require_tokens


@final
class Generator:
    r"""A looped transformer that answers requests for as long as a process lives.

    Each turn applies the core once to every request that is on its way, each at a loop of its own: one that has
    made its loops leaves, draws its token, and its next token joins the others in the following turn. A shallow
    request so never waits for a deep one. Requests beyond ``rows`` wait in the order they came.

    It holds these bytes: those of the weights; ``reader.bytes`` of folded weights; and those of its cache, whose
    formula stands at ``LoopedCache``. What a turn computes with comes on top and is freed after it.

    Any number of threads may use it; a lock is held for a turn.

    Guarantees, each a test in ``tests/test_generator.py``:

    * an answer is the same whatever else is in the batch, from however many threads;
    * the memory that it holds is the formula, before, between and after requests;
    * a turn applies the core once, to all requests at their different loops.

    Args:
        model: in the mode it is in; its weights must not change while the generator lives.
        rows: the most requests in one batch.
        capacity: the most tokens of a request, prompt and answer.
        policy: of the cache.

    Raises:
        ValueError: when a size is below 1.

    Example:
        >>> from torsor.generation import LastLoop, Request
        >>> from torsor.models import parcae_transformer
        >>> from torsor.transitions import BlockConformal
        >>> model = parcae_transformer(BlockConformal(8, groups=2), vocabulary=5, heads=2)
        >>> generator = Generator(model, rows=2, capacity=32, policy=LastLoop())
        >>> shallow, deep = (generator.submit(Request([0, 3], tokens=4, steps=steps)) for steps in (1, 8))
        >>> len(list(deep)), len(list(shallow))
        (4, 4)
    """

    def __init__(self, model: LoopedTransformer, *, rows: int, capacity: int, policy: CachePolicy) -> None:
        self.model = model
        self.reader: LoopedReader = LoopedReader(model)
        self.cache: LoopedCache = self.reader.cache(rows, capacity, policy)
        self.device: torch.device = model.inject.weight.device
        self._lock = RLock()
        self._waiting: deque[Answer] = deque()
        self._running: dict[int, Answer] = {}
        self._wave: Wave | None = None

    @property
    def bytes(self) -> int:
        """What it holds: weights, each counted once, folded weights, and the cache."""
        held = {each.untyped_storage().data_ptr(): each.untyped_storage() for each in self.model.state_dict().values()}
        return sum(each.nbytes() for each in held.values()) + self.reader.bytes + self.cache.bytes

    def submit(self, request: Request) -> Answer:
        """Take a request; its answer comes as it is iterated over.

        Raises:
            ValueError: when a token of the prompt is outside the vocabulary, prompt and answer are longer than the
                capacity, or the cache has no room for so many loops.
        """
        require_tokens(torch.tensor(list(request.prompt)), self.model.vocabulary, ("length",))
        length = len(request.prompt) + request.tokens - 1  # the last token is drawn and not read
        if length > self.cache.capacity:
            raise ValueError(
                f"prompt and answer must fit the context of {self.cache.capacity} tokens, "
                f"got {len(request.prompt)} and {request.tokens}"
            )
        self.cache.policy.require(request.steps)
        answer = Answer(request, self.device, self._lock, self.turn, self._free)
        with self._lock:
            self._waiting.append(answer)
        return answer

    def turn(self) -> bool:
        """One loop for every request on its way; those that end it draw a token.

        Returns:
            Whether there was anything to do.
        """
        with self._lock:
            free = [row for row in range(self.cache.batch) if row not in self._running]
            while self._waiting and free:
                self._running[free.pop(0)] = self._waiting.popleft()
            if not self._running:
                return False
            waves = [] if self._wave is None else [self._wave]
            entering = {row: answer for row, answer in self._running.items() if answer.unread is not None}
            if entering:
                tokens = [(row, answer.unread) for row, answer in entering.items() if answer.unread is not None]
                waves.append(self.reader.enter(tokens, self.cache, [answer.goal for answer in entering.values()]))
            ended, going = self.reader.turn(joined(waves, self.cache)).parted()
            logits = {} if ended is None else self.reader.leave(ended)
            # up to here nothing but the cache has changed, and a turn that was interrupted can be made again
            self._wave = going
            for answer in entering.values():
                answer.unread = None
            for row, of_row in logits.items():
                answer = self._running[row]
                answer.draw(of_row, self.cache.steps[row])
                if answer.ended:
                    self._free(answer)
            return True

    def _free(self, answer: Answer) -> None:
        """Give the place of an answer to others."""
        if answer in self._waiting:
            self._waiting.remove(answer)
        for row in [row for row, other in self._running.items() if other is answer]:
            del self._running[row]
            self.cache.reset([row])
            if self._wave is not None:
                self._wave = self._wave.select(
                    [place for place, span in enumerate(self._wave.spans) if span.row != row]
                )

"""The tokens of one request, as they are drawn."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.generation.request import Request
from torsor.generation.wave import Goal


@final
class Answer:
    """What ``Generator.submit`` gives: iterate over it for the tokens.

    Whoever asks for a token that is not there yet does the work for all requests, one turn at a time.

    Args:
        request: that is answered.
        device: where its tokens are read.
        lock: held while anything changes.
        turn: does a turn for all requests.
        give_up: frees what the generator keeps for this answer.

    Attributes:
        steps: how many loops lie behind each token so far.
        unread: tokens that are to enter the next turn; None while they are on their way.
        ended: whether no further token will be drawn.
    """

    def __init__(
        self,
        request: Request,
        device: torch.device,
        lock: AbstractContextManager[bool],
        turn: Callable[[], object],
        give_up: "Callable[[Answer], None]",
    ) -> None:
        self.request = request
        self.steps: list[int] = []
        self.unread: Tensor | None = torch.tensor(list(request.prompt), device=device)
        self.ended: bool = False
        self._device, self._lock, self._turn, self._give_up = device, lock, turn, give_up
        self._tokens: list[int] = []
        self._given = 0
        self._draws = torch.Generator().manual_seed(request.seed)
        self._error: ArithmeticError | None = None

    @property
    def goal(self) -> Goal:
        """How far the unread tokens go: a prompt to the full depth, from zeros."""
        request = self.request
        return Goal(request.steps, request.rule, request.warm) if self._tokens else Goal(request.steps)

    def draw(self, logits: Float[Tensor, "classes"], steps: int) -> None:
        """Draw the next token; logits that are not finite are an error of this answer alone.

        Args:
            logits: of the next token.
            steps: loops behind them.
        """
        try:
            token = int(self.request.sampling.draw(logits[None], self._draws))
        except ArithmeticError as error:
            self._error, self.ended = error, True
            return
        self._tokens.append(token)
        self.steps.append(steps)
        self.ended = len(self._tokens) == self.request.tokens or token in self.request.stop
        self.unread = torch.tensor([token], device=self._device)

    def cancel(self) -> None:
        """Draw no further token, and make room for others; tokens that are there can still be asked for."""
        with self._lock:
            self.ended = True
            self._give_up(self)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        while True:
            with self._lock:
                if self._given < len(self._tokens):
                    self._given += 1
                    return self._tokens[self._given - 1]
                if self._error is not None:
                    raise self._error
                if self.ended:
                    raise StopIteration
                self._turn()

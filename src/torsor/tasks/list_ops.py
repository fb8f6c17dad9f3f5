"""ListOps: read a nested expression over lists of digits, and say what it evaluates to."""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from torsor.tasks.base import IGNORED, Batch, Task
from torsor.tasks.list_trees import (
    CLOSE,
    MAX,
    MEDIAN,
    MIN,
    OPERATORS,
    PAD,
    SUM_MOD,
    grown,
    length_shares,
    lengths,
    values,
    written,
)
from torsor.tasks.requirements import require_64_bits, require_at_least_one
from torsor.tensors import require_tensor

_TRAINING, _EVALUATION = 0, 1  # the random streams of a seed
_BLOCK = 64  # expressions that share a counter
_TRIED = 8  # trees that are grown at once for each expression that has none yet
_RAREST = 1e-4  # share of trees that must have an admissible length
_NAMES = (*"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]", "")
_RESULTS = {
    MIN: min,
    MAX: max,
    MEDIAN: lambda given: (sorted(given)[(len(given) - 1) // 2] + sorted(given)[len(given) // 2]) // 2,
    SUM_MOD: lambda given: sum(given) % 10,
}


@final
@dataclass(frozen=True)
class ListOps(Task):
    r"""Expressions such as ``[MAX 2 9 [MIN 4 7 ] 0 ]``, with the value, 9, as the only target.

    Trees are drawn as in the Long Range Arena: the root is an operator; an argument is one with probability
    1/4 above the last level, else a digit; operators, digits and the number of arguments, 2 to
    ``arguments``, are uniform; a tree whose expression is too short or too long is thrown away. The defaults are
    the published ones, where lengths lie strictly between 500 and 2,000. There, unlike here, no expression comes twice.

    Tokens are the ten digits, then the operators MIN, MAX, MEDIAN and SUM_MOD with their opening bracket, the closing
    bracket, and padding up to ``longest`` behind the expression: a vocabulary of 16. The target stands at the last
    closing bracket, where a causal model has read all; every other position is not scored.

    Expression ``i`` of an update depends on ``(seed, update, i)`` alone: a smaller batch holds the first
    expressions of a larger one. Training and evaluation share no random number.

    Values are not balanced, since MIN and MAX draw them to 0 and 9; ``docs/recurrent.md`` has their shares.

    Args:
        depth: levels of a tree, digits included, at least 2.
        arguments: the most that an operator has, at least 2.
        shortest: tokens of an expression, at least 1.
        longest: tokens of an expression, and positions of a batch.
        seed: 0 to 2⁶⁴ - 1.

    Raises:
        ValueError: when a number is not admissible, or fewer than 1 in 10,000 trees have an admissible length.

    Example:
        >>> task = ListOps(depth=3, arguments=3, shortest=5, longest=12)
        >>> batch = task.batch(update=0, size=2)
        >>> batch.tokens.shape, (batch.targets != -100).sum(1).tolist()
        (torch.Size([2, 12]), [1, 1])
        >>> task.value(task.read("[MAX 2 9 [MIN 4 7 ] 0 ]"))
        9
    """

    depth: int = 10
    arguments: int = 10
    shortest: int = 501
    longest: int = 1999
    seed: int = 0

    def __post_init__(self) -> None:
        sizes = {"depth": self.depth, "arguments": self.arguments, "shortest": self.shortest, "longest": self.longest}
        require_at_least_one(**sizes)
        for name in ("depth", "arguments"):
            if sizes[name] < 2:
                raise ValueError(f"{name} must be at least 2, got {sizes[name]}")
        if self.longest < self.shortest:
            raise ValueError(f"longest must be at least shortest = {self.shortest}, got {self.longest}")
        require_64_bits(seed=self.seed)
        if self.kept < _RAREST:
            raise ValueError(
                f"shortest and longest must admit at least {_RAREST:.0e} of all trees of depth {self.depth} with up to "
                f"{self.arguments} arguments, got {self.kept:.1e} with {self.shortest} and {self.longest}"
            )

    @property
    def vocabulary(self) -> int:
        """Ten digits, four operators, a bracket and padding."""
        return PAD + 1

    @property
    def classes(self) -> int:
        """The digits."""
        return 10

    @property
    def kept(self) -> float:
        """The exact share of drawn trees whose length is admissible."""
        return float(length_shares(self.depth, self.arguments, self.longest)[self.shortest :].sum())

    def batch(self, update: int, size: int) -> Batch:
        require_64_bits(update=update)
        return self._draw(_TRAINING, update, size)

    def evaluation(self, size: int) -> Batch:
        return self._draw(_EVALUATION, 0, size)

    def value(self, tokens: Int[Tensor, "length"]) -> int:
        """What one expression evaluates to, read from left to right with a stack; padding behind it is left out.

        Raises:
            ValueError: when the tokens are no expression.
        """
        require_tensor("tokens", tokens)
        waiting: list[list[int]] = [[]]
        for place, token in enumerate(tokens[tokens != PAD].tolist()):
            if token in OPERATORS:
                waiting.append([token])
            elif token == CLOSE and len(waiting) > 1 and len(waiting[-1]) > 1:
                kind, *given = waiting.pop()
                waiting[-1].append(_RESULTS[kind](given))
            elif 0 <= token < 10:
                waiting[-1].append(token)
            else:
                raise ValueError(f"tokens must be an expression, got {token} at position {place}")
        if len(waiting) > 1 or len(waiting[0]) != 1:
            raise ValueError(f"tokens must be one whole expression, got {len(waiting[0])} and {len(waiting) - 1} open")
        return waiting[0][0]

    def write(self, tokens: Int[Tensor, "length"]) -> str:
        """An expression as text, without padding.

        Raises:
            ValueError: when the tokens are no tensor.
        """
        require_tensor("tokens", tokens)
        return " ".join(_NAMES[token] for token in tokens.tolist() if token != PAD)

    def read(self, text: str) -> Int[Tensor, "length"]:
        """The tokens of an expression as ``write`` gives it.

        Raises:
            ValueError: when a word is none of ListOps.
        """
        words = text.split()
        unknown = [word for word in words if word not in _NAMES]
        if unknown or not words:
            raise ValueError(f"text must be words of ListOps, got {unknown[0] if unknown else text!r}")
        return torch.tensor([_NAMES.index(word) for word in words])

    def _draw(self, stream: int, update: int, size: int) -> Batch:
        require_at_least_one(size=size)
        blocks = (self._block(stream, update, start // _BLOCK) for start in range(0, size, _BLOCK))
        tokens, answers = (np.concatenate(each)[:size] for each in zip(*blocks, strict=True))
        targets = np.full(tokens.shape, IGNORED)
        targets[np.arange(size), (tokens != PAD).sum(axis=1) - 1] = answers
        return Batch(torch.from_numpy(tokens), torch.from_numpy(targets))

    def _block(self, stream: int, update: int, block: int) -> tuple[np.ndarray, np.ndarray]:
        """So many expressions: for each the first of its own candidates that has an admissible length."""
        counter = np.array([0, block, update, stream], dtype=np.uint64)  # a list would pass through floats
        numbers = np.random.Philox(key=self.seed, counter=counter)
        roots, found = np.zeros(_BLOCK, dtype=np.uint64), np.full(_BLOCK, False)
        while not found.all():
            missing = (~found).nonzero()[0]
            drawn = numbers.random_raw(_TRIED * _BLOCK).reshape(_TRIED, _BLOCK)[:, missing]
            length = lengths(grown(drawn.ravel(), self.depth, self.arguments, self.longest))[0].reshape(drawn.shape)
            fits = (length >= self.shortest) & (length <= self.longest)
            some = fits.any(axis=0)
            roots[missing[some]] = drawn[fits.argmax(axis=0), np.arange(len(missing))][some]
            found[missing[some]] = True
        trees = grown(roots, self.depth, self.arguments, self.longest)
        return written(trees, self.longest), values(trees)

"""LAMBADA: guess the last word of a passage, at one depth or at several of one pass."""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from torsor.kinds import kind_of
from torsor.tasks.base import IGNORED
from torsor.tasks.likelihood import Logits, LogitsAtSteps, at_one_depth, call_at_steps, score_labels
from torsor.tasks.proportion import Proportion
from torsor.tasks.requirements import require_at_least_one

DEFINITION = (
    "LAMBADA, last word by exact match: a passage is split at its last space; the model reads the begin token and the "
    "tokens of what is before; it is right where the likeliest token, given the true ones before it, is each "
    "token of the space and the last word; perplexity is exp of the mean over passages of their summed negative "
    "log-likelihood"
)


@final
@dataclass(frozen=True)
class LastWordScore:
    r"""How well last words are guessed.

    Args:
        right: the passages whose last word is right in every token.
        nats: the sum of :math:`-\ln p` over all tokens of all last words, in float64.
        tokens: how many tokens the last words have.
        sha256: of the passages' tokens: see ``LastWords``.
    """

    right: Proportion
    nats: float
    tokens: int
    sha256: str

    @property
    def accuracy(self) -> float:
        """The share of passages that are right."""
        return self.right.value

    @property
    def perplexity(self) -> float:
        """Exp of the mean over passages, not over tokens; infinite where that is beyond float64."""
        mean = self.nats / self.right.trials
        return math.exp(mean) if mean < math.log(sys.float_info.max) else math.inf

    def to_json(self) -> dict[str, object]:
        """Plain numbers with a 95% Clopper-Pearson interval, the definition and the hash of the tokens."""
        return {
            "accuracy": self.accuracy,
            "interval": list(self.right.interval()),
            "right": self.right.hits,
            "passages": self.right.trials,
            "perplexity": self.perplexity if math.isfinite(self.perplexity) else None,
            "nats": self.nats,
            "target_tokens": self.tokens,
            "sha256": self.sha256,
            "definition": DEFINITION,
        }


@final
@dataclass(frozen=True, eq=False)
class LastWords:
    """Passages and their last words as tokens, to be guessed.

    A passage is split at its last space. The model reads ``begin`` and the tokens of what is before
    the space; the targets are the tokens of the space and the word, however many. It is right where
    the likeliest token at each of their places, given the true ones before it, is the target.

    Passages of like length are read together, the shorter filled up on the right, where a causal
    model does not look.

    Guarantees, each a test in ``tests/laws/test_last_word_laws.py``:

    * a passage's score does not depend on what it is read with: any batch equals one passage at a time;
    * several depths of one pass equal a pass for each;
    * a passage is right only where every token of its last word is.

    Args:
        passages: texts with a space in each.
        encode: the tokens of a text, without a begin token.
        begin: the token before every passage, which is also what fills up.

    Raises:
        ValueError: when they are no texts in a list or a tuple, there is no passage, or one has no last word.

    Attributes:
        sha256: over each passage's number of tokens, of target tokens and its tokens, each as 4 bytes,
            little-endian: it fixes the text and the tokenizer.

    Example:
        >>> words = LastWords(["a b a", "b a b b"], lambda text: [" ab".index(each) for each in text], begin=3)
        >>> words.score(lambda tokens: torch.eye(4)[(tokens == 0).long()]).right  # after a space, a
        Proportion(hits=1, trials=2)
    """

    passages: Sequence[str]
    encode: Callable[[str], Sequence[int]]
    begin: int
    sha256: str = field(init=False)
    _items: tuple[tuple[list[int], int], ...] = field(init=False, repr=False)  # tokens, and how many are targets

    def __post_init__(self) -> None:
        if not isinstance(self.passages, Sequence) or isinstance(self.passages, str):
            raise ValueError(f"passages must be texts in a list or a tuple, got {kind_of(self.passages)}")
        for passage in self.passages:
            if not isinstance(passage, str):
                raise ValueError(f"passages must be texts, got {kind_of(passage)}")
        if not self.passages:
            raise ValueError("passages must hold at least one, got none")
        items, digest = [], hashlib.sha256()
        for number, passage in enumerate(self.passages):
            before, space, word = passage.rpartition(" ")
            targets = list(self.encode(space + word)) if space and word else []
            if not targets:
                raise ValueError(f"passage {number} must have a space and a word after it, got ...{passage[-20:]!r}")
            tokens = [self.begin, *self.encode(before), *targets]
            items.append((tokens, len(targets)))
            for each in (len(tokens), len(targets), *tokens):
                digest.update(each.to_bytes(4, "little"))
        object.__setattr__(self, "_items", tuple(items))
        object.__setattr__(self, "sha256", digest.hexdigest())

    @property
    def tokens(self) -> int:
        """How many tokens all passages have, the begin token of each with them."""
        return sum(len(tokens) for tokens, _ in self._items)

    @property
    def target_tokens(self) -> tuple[int, ...]:
        """How many tokens the last word of each passage has."""
        return tuple(targets for _, targets in self._items)

    def score(self, model: Logits, *, batch: int = 32, device: torch.device | str = "cpu") -> LastWordScore:
        """The score of a model.

        Args:
            model: ``model(tokens) -> logits``, causal, in the mode it is in.
            batch: passages that one call reads, at least 1.
            device: where the model is.

        Raises:
            ValueError: when the logits have not the shape they must have, or a token is not among their classes.
            FloatingPointError: when a loss is infinite or not a number.
        """
        (found,) = self._scores(at_one_depth(model), 1, batch, device)
        return found

    def score_at_steps(
        self, model: LogitsAtSteps, steps: Sequence[int], *, batch: int = 32, device: torch.device | str = "cpu"
    ) -> dict[int, LastWordScore]:
        """The score of a looped model at several depths, every passage read by one pass to the deepest.

        Args:
            model: ``model(tokens, steps=steps) -> logits``, with the depths as first axis.
            steps: the depths, each once.
            batch: passages that one call reads; their logits at all depths are in memory at once.
            device: where the model is.

        Returns:
            The score at each depth.

        Raises:
            ValueError: as for ``score``; also when a depth stands twice or is below 1.
            FloatingPointError: when a loss is infinite or not a number.
        """
        found = self._scores(call_at_steps(model, steps), len(steps), batch, device)
        return dict(zip(steps, found, strict=True))

    def _scores(self, model: Logits, depths: int, batch: int, device: torch.device | str) -> list[LastWordScore]:
        require_at_least_one(batch=batch)
        nats, hits = torch.zeros(depths, dtype=torch.float64), torch.zeros(depths, dtype=torch.int64)
        with torch.no_grad():
            for tokens, targets in self._batches(batch):
                losses, right = score_labels(model(tokens.to(device)), targets)
                nats += losses.sum(dim=1)
                counts = (targets != IGNORED).sum(dim=1).tolist()
                hits += torch.stack([some.all(dim=1) for some in right.split(counts, dim=1)]).sum(dim=0)
        passages, tokens = len(self._items), sum(self.target_tokens)
        return [
            LastWordScore(Proportion(hit, passages), loss, tokens, self.sha256)
            for hit, loss in zip(hits.tolist(), nats.tolist(), strict=True)
        ]

    def _batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of like length: what is read, and -100 wherever a target is not one of the last word."""
        ordered = sorted(self._items, key=lambda item: len(item[0]))
        for first in range(0, len(ordered), size):
            items = ordered[first : first + size]
            rows = torch.full((len(items), len(items[-1][0])), self.begin)
            targets = torch.full(rows.shape, IGNORED)
            for row, target, (tokens, count) in zip(rows, targets, items, strict=True):
                row[: len(tokens)] = torch.tensor(tokens)
                target[len(tokens) - count : len(tokens)] = row[len(tokens) - count : len(tokens)]
            yield rows[:, :-1].contiguous(), targets[:, 1:].contiguous()


def passages_of(lines: str) -> list[str]:
    """The passages of a file of JSON lines, each with a field "text", such as the data set ``lambada``.

    Raises:
        ValueError: when a line is no such object, with its number.
    """
    passages = []
    for number, line in enumerate(lines.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except ValueError as error:
            raise ValueError(f"line {number} of the passages is not JSON: {error}") from error
        if not isinstance(found, dict) or not isinstance(found.get("text"), str):
            raise ValueError(f"line {number} of the passages must have a text in its field 'text'")
        passages.append(found["text"])
    return passages

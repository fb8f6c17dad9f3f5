"""Perplexity over the beginning of a fixed stream, at one depth or at several of one pass."""

import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from jaxtyping import Integer
from torch import Tensor

from torsor.tasks.base import IGNORED
from torsor.tasks.likelihood import Logits, LogitsAtSteps, at_one_depth, call_at_steps, score_labels
from torsor.tasks.requirements import require_at_least_one
from torsor.tasks.token_stream import TokenStream, require_stream, rows_of, without

POSITIONS = 780_288  # 381 rows of 2048, and 762 of 1024


@final
@dataclass(frozen=True)
class Perplexity:
    r"""How well the labels of a stream are foreseen.

    Args:
        nats: the sum of :math:`-\ln p` over the labels, in float64.
        labels: how many were scored.
        bytes: of UTF-8 that the labels stand for; None where nobody said.
        rows: how many were read.
        context: positions of a row.
        sha256: of the tokens, each as 4 bytes, little-endian.
    """

    nats: float
    labels: int
    bytes: int | None
    rows: int
    context: int
    sha256: str

    @property
    def value(self) -> float:
        """``exp(nats / labels)``; infinite where that is beyond float64."""
        mean = self.nats / self.labels
        return math.exp(mean) if mean < math.log(sys.float_info.max) else math.inf

    @property
    def bits_per_byte(self) -> float | None:
        """``nats / ln 2 / bytes``: comparable between tokenizers; None where the bytes are not known."""
        return None if self.bytes is None else self.nats / math.log(2) / self.bytes

    @property
    def definition(self) -> str:
        """What was measured, in words."""
        return (
            f"exp of the mean negative log-likelihood of {self.labels} labels that are no special token, in "
            f"{self.rows} rows of {self.context} positions of one packed stream; a row knows nothing before it"
        )

    def to_json(self) -> dict[str, object]:
        """Plain numbers, with the definition and the hash of the tokens beside them; None for what is infinite."""
        return {
            "perplexity": self.value if math.isfinite(self.value) else None,
            "bits_per_byte": self.bits_per_byte,
            "nats": self.nats,
            "labels": self.labels,
            "positions": self.rows * self.context,
            "bytes": self.bytes,
            "rows": self.rows,
            "context": self.context,
            "sha256": self.sha256,
            "definition": self.definition,
        }


@final
@dataclass(frozen=True, eq=False)
class HeldOutText:
    r"""The first rows of a packed stream, to be scored.

    Row ``r`` reads tokens :math:`rc, \dots, rc + c - 1` for a context of :math:`c` and is scored on
    :math:`rc + 1, \dots, rc + c`, special tokens excepted. There are as many rows as lie whole in
    ``positions`` and in the stream.

    Guarantees, each a test in ``tests/laws/test_perplexity_laws.py``:

    * every label that is no special token is scored once, whatever the batch;
    * several depths of one pass equal a pass for each;
    * the bytes are those of the scored text.

    Args:
        stream: held-out documents, packed.
        context: positions of a row, at least 1.
        special: tokens that are not scored.
        bytes_per_token: of UTF-8, an entry for each token of the vocabulary; None for no bits per byte.
        positions: at most so many, special ones included.

    Raises:
        ValueError: when an argument is not admissible, or there is nothing to score.

    Attributes:
        rows: how many there are.
        sha256: of the tokens that are read or scored, each as 4 bytes, little-endian: two results with
            the same one are of the same tokens.

    Example:
        >>> text = HeldOutText(torch.tensor([0, 1, 2, 0, 3]), context=2, special=(0,))
        >>> found = text.perplexity(lambda tokens: torch.zeros(*tokens.shape, 4))
        >>> found.labels, round(found.value, 6)
        (3, 4.0)
    """

    stream: TokenStream
    context: int
    special: Sequence[int] = ()
    bytes_per_token: Sequence[int] | Integer[np.ndarray, "vocabulary"] | None = None
    positions: int = POSITIONS
    rows: int = field(init=False)
    sha256: str = field(init=False)

    def __post_init__(self) -> None:
        require_at_least_one(context=self.context, positions=self.positions)
        require_stream("stream", self.stream)
        rows = min(self.positions, len(self.stream) - 1) // self.context
        if rows < 1:
            raise ValueError(
                f"context must be at most positions = {self.positions} and less than the {len(self.stream)} tokens "
                f"of the stream, got {self.context}"
            )
        object.__setattr__(self, "rows", rows)
        object.__setattr__(self, "sha256", _sha256(self.stream, rows * self.context + 1))

    def perplexity(self, model: Logits, *, batch: int = 4, device: torch.device | str = "cpu") -> Perplexity:
        """The perplexity of a model.

        Args:
            model: ``model(tokens) -> logits``, causal, in the mode it is in.
            batch: rows that one call reads, at least 1.
            device: where the model is.

        Raises:
            ValueError: when the logits have not the shape they must have, or nothing can be scored.
            FloatingPointError: when a loss is infinite or not a number.
        """
        (found,) = self._perplexities(at_one_depth(model), 1, batch, device)
        return found

    def perplexity_at_steps(
        self, model: LogitsAtSteps, steps: Sequence[int], *, batch: int = 4, device: torch.device | str = "cpu"
    ) -> dict[int, Perplexity]:
        """The perplexity of a looped model at several depths, every row read by one pass to the deepest.

        Args:
            model: ``model(tokens, steps=steps) -> logits``, with the depths as first axis.
            steps: the depths, each once.
            batch: rows that one call reads; their logits at all depths are in memory at once.
            device: where the model is.

        Returns:
            The perplexity at each depth.

        Raises:
            ValueError: as for ``perplexity``; also when a depth stands twice or is below 1.
            FloatingPointError: when a loss is infinite or not a number.
        """
        found = self._perplexities(call_at_steps(model, steps), len(steps), batch, device)
        return dict(zip(steps, found, strict=True))

    def _perplexities(self, model: Logits, depths: int, batch: int, device: torch.device | str) -> list[Perplexity]:
        require_at_least_one(batch=batch)
        sizes = None if self.bytes_per_token is None else torch.tensor(np.asarray(self.bytes_per_token))
        nats, labels, size = torch.zeros(depths, dtype=torch.float64), 0, 0
        with torch.no_grad():
            for first in range(0, self.rows, batch):
                starts = np.arange(first, min(first + batch, self.rows)) * self.context
                both = rows_of(self.stream, starts, self.context + 1)
                targets = without(both[:, 1:], self.special)
                losses, _ = score_labels(model(both[:, :-1].contiguous().to(device)), targets)
                nats += losses.sum(dim=1)
                labels += losses.shape[1]
                size += 0 if sizes is None else _bytes(targets, sizes)
        if not labels:
            raise ValueError("the stream must have a label that is no special token, got none")
        counted = None if sizes is None else size
        return [Perplexity(each, labels, counted, self.rows, self.context, self.sha256) for each in nats.tolist()]


def _bytes(targets: Tensor, sizes: Tensor) -> int:
    labels = targets[targets != IGNORED]
    if labels.numel() and int(labels.max()) >= len(sizes):
        raise ValueError(f"bytes_per_token must have an entry for each token, got {len(sizes)} for {int(labels.max())}")
    return int(sizes[labels].sum())


def _sha256(stream: TokenStream, length: int, piece: int = 2**20) -> str:
    digest = hashlib.sha256()
    for start in range(0, length, piece):
        digest.update(np.asarray(stream[start : min(start + piece, length)]).astype("<u4").tobytes())
    return digest.hexdigest()

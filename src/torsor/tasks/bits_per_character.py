"""Bits per character over a whole text, in two protocols: a carried state, and overlapping windows."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Integer
from torch import Tensor
from torch.nn import functional

from torsor.tasks.base import IGNORED
from torsor.tasks.requirements import require_at_least_one


@final
@dataclass(frozen=True)
class BitsPerCharacter:
    r"""The mean of :math:`-\log_2 p(x_t \mid x_{<t})` over every character of a text but the first.

    Args:
        nats: the sum of :math:`-\ln p`, in float64.
        characters: how many were scored: one fewer than the text has.
        protocol: what the model had read before each of them, in words.
    """

    nats: float
    characters: int
    protocol: str

    @property
    def bits(self) -> float:
        r"""``nats / characters / ln 2``."""
        return self.nats / self.characters / math.log(2)

    def to_json(self) -> dict[str, object]:
        """Plain numbers, and the protocol beside them."""
        return {
            "bits_per_character": self.bits,
            "nats": self.nats,
            "characters": self.characters,
            "protocol": self.protocol,
        }


def bits_with_state(
    model: Callable[[Tensor, Any], tuple[Tensor, Any]],
    tokens: Integer[Tensor, "characters"],
    *,
    piece: int = 512,
    streams: int = 1,
) -> BitsPerCharacter:
    """Score a recurrent model that carries its state through the whole text.

    With one stream every character but the first is scored once, given all before it, whatever the
    length of a piece. One sequence at a time is slow where a step is small; ``streams`` of them run as
    one batch, each through its own stretch of the text. Each but the first then starts with a fresh
    state ``piece`` characters before its stretch, and scores none of these: again every character but
    the first is scored once, but given at least ``piece`` characters before it and not all. The result
    is then an approximation, better the longer a piece.

    Args:
        model: ``model(tokens, state) -> (logits, state)``, in the mode it is in; the first state is
            None. tokens: "streams length", int64; logits: "streams length classes".
        tokens: the text, at least two characters, on the model's device.
        piece: characters that one call reads, at least 1.
        streams: stretches that are read side by side, at least 1.

    Raises:
        ValueError: when an argument is not admissible, or the logits have not the shape they must have.
        FloatingPointError: when a character's loss is infinite or not a number.
    """
    predictions = _require_text(tokens)
    require_at_least_one(piece=piece)
    require_at_least_one(streams=streams)
    before = piece if streams > 1 else 0
    if before >= predictions:
        raise ValueError(f"several streams need more than piece + 1 = {piece + 1} characters, got {len(tokens)}")
    own = math.ceil((predictions - before) / streams)  # what a stream scores; the first scores all that it reads
    length, starts = own + before, [own * stream for stream in range(streams)]
    padded = functional.pad(tokens, (0, starts[-1] + length + 1 - len(tokens)))
    rows = torch.stack([padded[start : start + length + 1] for start in starts])
    first = torch.tensor([0] + [before] * (streams - 1))
    last = torch.tensor([predictions - start for start in starts])
    nats, characters, state = 0.0, 0, None
    with torch.no_grad():
        for begin in range(0, length, piece):
            end = min(begin + piece, length)
            logits, state = model(rows[:, begin:end].long(), state)
            position = torch.arange(begin, end)
            scored = (position >= first[:, None]) & (position < last[:, None])
            nats += _loss(logits, rows[:, begin + 1 : end + 1], scored)
            characters += int(scored.sum())
    reads = (
        "one stream" if streams == 1 else f"{streams} streams, {piece} unscored characters before each but the first"
    )
    return BitsPerCharacter(nats, characters, f"the state carried through {reads}, in pieces of {piece}")


def bits_in_windows(
    model: Callable[[Tensor], Tensor],
    tokens: Integer[Tensor, "characters"],
    context: int,
    *,
    batch: int = 32,
) -> BitsPerCharacter:
    """Score a model without a state in overlapping windows, so that every character has enough before it.

    A window is ``2 * context`` characters long and begins ``context`` after the one before; only its
    last ``context`` predictions are scored, each given ``context + 1`` to ``2 * context`` characters.
    The first window is the first ``context`` characters and scores all of its predictions; the last
    ends where the text does. Every character but the first is scored once.

    Args:
        model: ``model(tokens) -> logits``, causal, in the mode it is in. tokens: "batch length" with
            ``length`` up to ``2 * context``, int64; logits: "batch length classes".
        tokens: the text, at least two characters, on the model's device.
        context: the stride and half the length of a window, at least 1.
        batch: windows that one call reads, at least 1.

    Raises:
        ValueError: when an argument is not admissible, or the logits have not the shape they must have.
        FloatingPointError: when a character's loss is infinite or not a number.
    """
    predictions = _require_text(tokens)
    require_at_least_one(context=context)
    require_at_least_one(batch=batch)
    nats, characters = 0.0, 0
    with torch.no_grad():
        for starts, length, scored in _windows(predictions, context, batch):
            rows = torch.stack([tokens[start : start + length + 1] for start in starts])
            logits = model(rows[:, :-1].long())
            mask = (torch.arange(length) >= length - scored).expand(len(starts), length)
            nats += _loss(logits, rows[:, 1:], mask)
            characters += len(starts) * scored
    return BitsPerCharacter(nats, characters, f"windows of {2 * context} that score their last {context}")


def _windows(predictions: int, context: int, batch: int) -> Iterator[tuple[range, int, int]]:
    """Windows of one length: where they start, how many they predict, and how many of these are scored."""
    yield range(1), min(context, predictions), min(context, predictions)
    whole, rest = divmod(predictions, context)
    for first in range(0, whole - 1, batch):
        last = min(first + batch, whole - 1)
        yield range(first * context, last * context, context), 2 * context, context
    if whole and rest:
        start = (whole - 1) * context
        yield range(start, start + 1), context + rest, rest


def _loss(
    logits: Float[Tensor, "batch length classes"], targets: Integer[Tensor, "batch length"], scored: Tensor
) -> float:
    """The sum of -ln p of the scored targets, in float64 and on the CPU, which every device can reach."""
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits must have the shape of tokens and classes, got {tuple(logits.shape)} for {tuple(targets.shape)}"
        )
    targets = targets.long().cpu().masked_fill(~scored, IGNORED)
    if targets.max() >= logits.shape[-1]:
        raise ValueError(f"tokens must be below the {logits.shape[-1]} classes of the logits, got {int(targets.max())}")
    loss = functional.cross_entropy(
        logits.cpu().double().flatten(0, 1), targets.flatten(), reduction="sum", ignore_index=IGNORED
    ).item()
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss of every character must be finite, got {loss}")
    return loss


def _require_text(tokens: Tensor) -> int:
    if tokens.ndim != 1 or len(tokens) < 2:
        raise ValueError(f"tokens must be one text of at least 2 characters, got shape {tuple(tokens.shape)}")
    return len(tokens) - 1

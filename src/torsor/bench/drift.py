"""How far the state of a recurrent model leaves its group over many tokens, and what it costs to keep it there."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.experiments.run import load
from torsor.groups import MatrixGroup, Orthogonal, SpecialOrthogonal, SpecialUnitary, Torus, Unitary, departure, polish
from torsor.models import GroupRNN
from torsor.models.group_rnn import POLISH_BEYOND

GROUPS: tuple[Callable[[], MatrixGroup], ...] = (
    lambda: Orthogonal(16),
    lambda: SpecialOrthogonal(16),
    lambda: Unitary(11),
    lambda: SpecialUnitary(11),
    lambda: Torus(157),
)
"""Those of ``torsor table subgroups/groups``."""
PIECE = 512  # tokens of one call
VOCABULARY, BATCH, TURN = 65, 64, 32


def measure(limits: Limits, rounds: int = 5, tokens: int = 100_000, run: Path | None = None) -> dict[str, Any]:
    """Carry a state through many tokens with and without a polish.

    Args:
        limits: of this machine.
        rounds: of the turns that a token and a polish take.
        tokens: of the sequence, at least 2.
        run: a finished run of a recurrent group model, read on its validation text instead of fresh models on
            random tokens; its text is cut to so many tokens.

    Returns:
        For each group a row for tokens, a polish and a look at the state, of a batch of 64; and with and without a
        polish the largest and the last departure, and bits per character where a run was given.

    Raises:
        ValueError: when a number is out of range or the run's model is no recurrent model on a group.
    """
    if tokens < 2:
        raise ValueError(f"tokens must be at least 2, got {tokens}")
    rows, departures = [], []
    for model, text in _subjects(tokens, run):
        rows += compare(_cost(model), limits, rounds)
        for beyond in (math.inf, POLISH_BEYOND):
            found = scan(model, text, beyond)
            if run is None:  # random tokens have no bits worth telling
                del found["bits"]
            departures.append({"group": str(model.group), "polished_beyond": beyond} | found)
    return {"settings": {"tokens": tokens, "batch": BATCH}, "rows": rows, "departures": departures}


def _subjects(tokens: int, run: Path | None) -> list[tuple[GroupRNN, Tensor]]:
    if run is None:
        generator = torch.Generator().manual_seed(0)
        text = torch.randint(0, VOCABULARY, (tokens,), generator=generator)
        return [(GroupRNN(make(), VOCABULARY), text) for make in GROUPS]
    study = load(run)
    if not isinstance(study.model, GroupRNN):
        raise ValueError(f"{run} must hold a GroupRNN, it holds a {type(study.model).__name__}")
    text: Any = study.task
    return [(study.model, text.validation[:tokens].long())]


@torch.no_grad()
def scan(model: GroupRNN, text: Tensor, beyond: float) -> dict[str, Any]:
    """Read a text in pieces, with the state carried.

    Args:
        model: as it is.
        text: tokens.
        beyond: departure from which a state is polished; infinite for never.

    Returns:
        The largest departure after any piece, the last one, and bits for each character but the first.
    """
    state, largest, nats = None, 0.0, 0.0
    for begin in range(0, len(text), PIECE):
        piece, following = text[None, begin : begin + PIECE], text[begin + 1 : begin + PIECE + 1]
        logits, state = model(piece, state, polish_beyond=beyond)
        largest = max(largest, departure(model.group, state).item())
        nats += cross_entropy(logits[0, : len(following)].double(), following, reduction="sum").item()
    last = 0.0 if state is None else departure(model.group, state).item()
    return {"largest": largest, "last": last, "bits": nats / (len(text) - 1) / math.log(2)}


@torch.no_grad()
def _cost(model: GroupRNN) -> dict[str, Case]:
    tokens, (_, state) = torch.zeros(BATCH, TURN, dtype=torch.long), model(torch.zeros(BATCH, 1, dtype=torch.long))
    # H* H, of which one half is the other's adjoint, and H times it; of complex numbers four times as much
    dim, of_complex = (state.shape[-1] if state.ndim > 2 else 0), (4 if state.is_complex() else 1)
    half = BATCH * dim**3 * of_complex
    calls = {
        f"{TURN} tokens": Case(lambda: model(tokens), items=BATCH * TURN, unit="tokens"),
        "a polish": Case(lambda: polish(model.group, state), operations=3 * half),
        "a look": Case(lambda: departure(model.group, state).amax().item(), operations=half),
    }
    return {f"{model.group}: {name}": replace(case, call=torch.no_grad()(case.call)) for name, case in calls.items()}

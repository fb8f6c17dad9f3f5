"""A training step of the models whose states lie on a group, beside the same models written plainly."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torsor.bench.clock import take_turns
from torsor.groups import Orthogonal
from torsor.models import GroupRNN, GroupTransformer
from torsor.models.group_rnn_reference import group_rnn_reference
from torsor.models.group_transformer import group_transformer_reference
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw

VOCABULARY, CLIP = 65, 1.0
Logits = Callable[[Tensor], Tensor]


def training_step(model: nn.Module, logits_of: Logits, batch: int, context: int) -> Callable[[], float]:
    """A whole training step: forward, backward, clip, AdamW.

    Args:
        model: what moves.
        logits_of: how its logits come about.
        batch: sequences.
        context: tokens of each.

    Returns:
        What makes one step and gives its loss.
    """
    generator, optimizer = torch.Generator().manual_seed(0), adamw(model, 1e-3)
    tokens = torch.randint(0, VOCABULARY, (batch, context + 1), generator=generator)

    def step() -> float:
        loss = cross_entropy(logits_of(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    return step


def measure(rounds: int = 3, batch: int = 64, context: int = 128, width: int = 16) -> dict[str, Any]:
    """Time a training step of both models on O(d) and of their plain forms, turn by turn.

    Args:
        rounds: of the turns that the two forms of a model take.
        batch: sequences of a step.
        context: tokens of each.
        width: of the matrices.

    Returns:
        A plain dictionary: for each model its parameters, the median seconds of both forms, the median and
        quartiles of the plain form's time over ours in the same round, and how far their first losses lie apart.

    Raises:
        ValueError: when a number is below 1, or ``width`` below 2.
    """
    for name, value in {"rounds": rounds, "batch": batch, "context": context}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    keep_freed_memory()
    rows = []
    for name, make in _forms(width).items():
        (model, (ours, _)), (other, (_, plain)) = make(), make()
        steps = {
            "ours": training_step(model, ours, batch, context),
            "plain": training_step(other, plain, batch, context),
        }
        timings, first = _timed(steps, rounds)
        ratio, low, high = timings.ratio("plain", "ours")
        rows.append(
            {
                "model": name,
                "parameters": sum(p.numel() for p in model.parameters()),
                "seconds": timings.median("ours"),
                "plain_seconds": timings.median("plain"),
                "ratio": ratio,
                "quartiles": [low, high],
                "difference": abs(first["ours"] - first["plain"]),
            }
        )
    sizes = {"batch": batch, "context": context, "width": width, "rounds": rounds}
    return {"threads": torch.get_num_threads(), "torch": torch.__version__} | sizes | {"rows": rows}


def _forms(width: int) -> dict[str, Callable[[], tuple[nn.Module, tuple[Logits, Logits]]]]:
    """Each model with its own logits and the plain ones."""

    def transformer() -> tuple[nn.Module, tuple[Logits, Logits]]:
        model = GroupTransformer(Orthogonal(width), VOCABULARY)
        return model, (model, lambda tokens: group_transformer_reference(model, tokens))

    def recurrent() -> tuple[nn.Module, tuple[Logits, Logits]]:
        model = GroupRNN(Orthogonal(width), VOCABULARY)
        return model, (lambda tokens: model(tokens)[0], lambda tokens: group_rnn_reference(model, tokens))

    return {"GroupTransformer": transformer, "GroupRNN": recurrent}


def _timed(steps: dict[str, Callable[[], float]], rounds: int) -> tuple[Any, dict[str, float]]:
    losses: dict[str, list[float]] = {name: [] for name in steps}
    calls = {name: (lambda name=name, step=step: losses[name].append(step())) for name, step in steps.items()}
    return take_turns(calls, rounds), {name: each[0] for name, each in losses.items()}

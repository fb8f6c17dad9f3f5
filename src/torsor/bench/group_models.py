"""A training step of the models whose states lie on a group, beside the same models written plainly."""

from collections.abc import Callable
from typing import Any

from torch import nn

from torsor.bench.harness import Case, compare
from torsor.bench.jobs import (
    VOCABULARY,
    Job,
    Logits,
    group_recurrent_training,
    group_transformer_training,
    training_step,
)
from torsor.bench.limits import Limits
from torsor.groups import Orthogonal
from torsor.models import GroupRNN, GroupTransformer
from torsor.models.group_rnn_reference import group_rnn_reference
from torsor.models.group_transformer import group_transformer_reference
from torsor.training.memory import keep_freed_memory

OURS, PLAIN = "ours", "plain"


def measure(limits: Limits, rounds: int = 5, batch: int = 64, context: int = 128, width: int = 16) -> dict[str, Any]:
    """Time a training step of both models on O(d) and of their plain forms, turn by turn.

    Args:
        limits: of this machine.
        rounds: of the turns that the two forms of a model take.
        batch: sequences of a step.
        context: tokens of each.
        width: of the matrices.

    Returns:
        A row for both forms of each model, and how far their first losses lie apart.

    Raises:
        ValueError: when a number is below 1, or ``width`` below 2.
    """
    for name, value in {"rounds": rounds, "batch": batch, "context": context}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    keep_freed_memory()
    jobs: dict[str, Callable[[int, int, int], Job]] = {
        "GroupTransformer": group_transformer_training,
        "GroupRNN": group_recurrent_training,
    }
    rows, settings, differences = [], {"batch": batch, "context": context, "width": width}, {}
    for name, make in _forms(width).items():
        job, cases, first = jobs[name](width, batch, context), {}, []
        for form in (PLAIN, OURS):
            model, logits = make()
            step, losses = training_step(model, logits[form], batch, context), []
            cases[f"{name}, {form}"] = Case(
                lambda step=step, losses=losses: losses.append(step()),
                job.operations,
                job.moved,
                items=job.tokens,
                unit="tokens",
                reference=f"{name}, {PLAIN}" if form == OURS else None,
                given=list(model.parameters()),
            )
            first.append(losses)
            settings[f"parameters of {name}"] = sum(p.numel() for p in model.parameters())
        rows += compare(cases, limits, rounds)
        differences[name] = abs(first[0][0] - first[1][0])
    return {"settings": settings, "rows": rows, "differences": differences}


def _forms(width: int) -> dict[str, Callable[[], tuple[nn.Module, dict[str, Logits]]]]:
    """Each model with its own logits and the plain ones."""

    def transformer() -> tuple[nn.Module, dict[str, Logits]]:
        model = GroupTransformer(Orthogonal(width), VOCABULARY)
        return model, {OURS: model, PLAIN: lambda tokens: group_transformer_reference(model, tokens)}

    def recurrent() -> tuple[nn.Module, dict[str, Logits]]:
        model = GroupRNN(Orthogonal(width), VOCABULARY)
        return model, {
            OURS: lambda tokens: model(tokens)[0],
            PLAIN: lambda tokens: group_rnn_reference(model, tokens),
        }

    return {"GroupTransformer": transformer, "GroupRNN": recurrent}

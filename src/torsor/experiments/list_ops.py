"""ListOps: linear recurrences that turn, and that do not, in one block."""

from typing import TYPE_CHECKING, Literal

from torsor.experiments.experiment import Experiment

if TYPE_CHECKING:
    from torch import nn

    from torsor.experiments.study import Study
    from torsor.tasks import ListOps

LinearKind = Literal["rotrnn", "decay"]


def list_ops(
    *,
    depth: int = 10,
    arguments: int = 10,
    shortest: int = 32,
    longest: int = 128,
    model: LinearKind = "rotrnn",
    width: int = 64,
    layers: int = 3,
    heads: int = 16,
    readout: Literal["mean", "last"] = "mean",
    updates: int = 3000,
    batch: int = 64,
    learning_rate: float = 3e-3,
    weight_decay: float = 0.05,
    warmup: int = 100,
    decay: float = 1.0,
    clip: float = 1.0,
    expressions: int = 2000,
    seed: int = 0,
) -> "Study":
    """Evaluate nested expressions over lists of digits with a linear recurrence.

    The protocol is ours where the paper's is not known; ``docs/recurrent.md`` says which is which.

    Args:
        depth: levels of an expression's tree, digits included.
        arguments: the most that an operator has.
        shortest: tokens of an expression.
        longest: tokens of an expression.
        model: rotrnn turns and fades; decay fades alone, at a rate for each coordinate, in the same block.
        width: of the residual stream and of the state of each block.
        layers: blocks.
        heads: rates of a rotrnn block; with a quarter of the width both models are of nearly one size.
        readout: an answer is read from the mean over an expression's tokens, or from the last one.
        updates: optimizer updates.
        batch: expressions per update.
        learning_rate: peak rate of AdamW.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        expressions: held-out expressions for validation, and as many for the test.
        seed: seed of weights and batches.
    """
    from torsor.experiments.list_ops_examination import ListOpsExamination, MeanPass
    from torsor.experiments.study import Study, WholePass
    from torsor.tasks import ListOps
    from torsor.training import Plan, Schedule, adamw

    task = ListOps(depth, arguments, shortest, longest, seed)
    built, label = _model(model, task, width, layers, heads, seed)
    step = MeanPass() if readout == "mean" else WholePass()
    return Study(
        label=label,
        model=built,
        optimizer=adamw(built, learning_rate, weight_decay=weight_decay),
        task=task,
        plan=Plan(updates=updates, batch=batch, clip=clip, schedule=Schedule(warmup=warmup, decay=decay)),
        examination=ListOpsExamination(task, step, expressions),
        step=step,
        seed=seed,
    )


def _model(
    kind: LinearKind, task: "ListOps", width: int, layers: int, heads: int, seed: int
) -> "tuple[nn.Module, str]":
    from functools import partial

    from torsor.layers import DecayLayer, RotRNNBlock, RotRNNLayer
    from torsor.models import RotRNN

    layer, name = {
        "rotrnn": (RotRNNLayer, f"RotRNN, {layers} x {heads} rates"),
        "decay": (DecayLayer, f"linear recurrence without rotation, {layers} x {width} rates"),
    }[kind]
    block = partial(RotRNNBlock, layer=layer)
    model = RotRNN(task.vocabulary, width, heads, layers=layers, classes=task.classes, block=block, seed=seed)
    return model, f"{name}, width {width}"


# Sizes of the published code's scripts for its other long tasks; those for ListOps are not known to us.
_PAPER = {
    "shortest": 501,
    "longest": 1999,
    "width": 128,
    "layers": 6,
    "heads": 32,
    "updates": 60_000,
    "batch": 64,
    "learning_rate": 1e-3,
    "warmup": 2000,
}

LIST_OPS = (
    Experiment(
        "recurrent/list-ops",
        "ListOps, by RotRNN or a linear recurrence that does not turn; --scale paper has the Long Range Arena's sizes.",
        list_ops,
        presets={"paper": _PAPER},
    ),
)

"""The training loop: a generator of records."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from time import perf_counter

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torsor.tasks.base import IGNORED, Task
from torsor.training.engine import Engine, SingleProcess
from torsor.training.non_finite import first_non_finite, non_finite_parameter
from torsor.training.plan import Plan
from torsor.training.record import Record
from torsor.training.state import TrainState

Forward = Callable[[nn.Module, Tensor, int, slice], Tensor]
"""``forward(model, tokens, update, rows)`` gives the logits of some rows of the update's batch.

What it draws at random, ``update`` and ``rows`` fix, so that a batch in parts is the batch in one.
"""


class NonFiniteLoss(ArithmeticError):  # noqa: N818 - it says what happened, and is caught by that name
    """The loss or the gradient of an update was infinite or not a number; the update was not made.

    Args:
        update: number of the update that was not made, 1 for the first.
        loss: its loss.
        gradient_norm: the norm of its gradient.
        where: what was not finite first, in words: a parameter, the output of a module, a gradient.
    """

    def __init__(self, update: int, loss: float, gradient_norm: float, where: str = "") -> None:
        self.update = update
        self.loss = loss
        self.gradient_norm = gradient_norm
        self.where = where
        first = f", not finite first in {where}" if where else ""
        super().__init__(
            f"update {update} has loss {loss} and gradient norm {gradient_norm}{first}; "
            "the parameters are those before it"
        )


def call(
    model: nn.Module, tokens: Int[Tensor, "batch length"], update: int, rows: slice
) -> Float[Tensor, "batch length classes"]:
    """The default forward pass: ``model(tokens)``, the same at every update."""
    return model(tokens)


def train(
    state: TrainState,
    task: Task,
    plan: Plan,
    *,
    forward: Forward = call,
    engine: Engine | None = None,
) -> Iterator[Record]:
    r"""Move ``state`` one update at a time, from ``state.update`` to ``plan.updates``.

    Update :math:`u` computes the mean cross entropy over the scored labels of ``task.batch(u,
    plan.batch)``, cut to the curriculum's length, and takes one step of the optimizer. Whoever draws
    from the generator may save, evaluate or stop between two records; the model is put back into
    training mode. To resume is to begin again with a state that was loaded. Where the plan cuts a batch
    into parts, each goes forward and backward by itself, which takes less memory; their gradients add up.

    Guarantees, each a test in ``tests/laws/test_training_laws.py``:

    * two runs are bitwise equal, and so is a run that was saved and resumed;
    * the loss weighs every scored label equally, whatever sequence it stands in;
    * a batch in parts gives the loss and the gradient of the batch in one, up to rounding;
    * an update with a loss or gradient that is not finite leaves parameters and moments as they were;
    * the error names what was not finite first: a parameter, the output of a module, a gradient.

    Args:
        state: what moves; it is at the update of the latest record whenever the generator waits.
        task: where batches come from, a pure function of the update's number.
        plan: how far, how fast and on how much.
        forward: ``forward(model, tokens, update, rows)`` gives the logits; the default calls the model.
        engine: the machine; a single process by default.

    Yields:
        One record after each update.

    Raises:
        NonFiniteLoss: when a loss or gradient is not finite, before any parameter has changed.
        ValueError: when a batch is shorter than the curriculum asks for or has nothing to score.

    Example:
        >>> state = TrainState(model, adamw(model, 1e-3))  # doctest: +SKIP
        >>> for record in train(state, task, Plan(updates=100, batch=32)):  # doctest: +SKIP
        ...     print(record.update, record.loss)
    """
    engine = engine or SingleProcess()
    model, optimizer = engine.setup(state.model, state.optimizer)
    groups = optimizer.param_groups
    peaks = [group.setdefault("initial_lr", group["lr"]) for group in groups]
    parameters = [p for group in groups for p in group["params"]]

    while state.update < plan.updates:
        started = perf_counter()
        if not state.model.training:
            state.model.train()
        factor = plan.schedule.factor(state.update, plan.updates)
        for group, peak in zip(groups, peaks, strict=True):
            group["lr"] = peak * factor

        batch = task.batch(state.update, plan.batch)
        length = plan.curriculum.length(state.curriculum)
        tokens, targets = _cut(batch.tokens, length), _cut(batch.targets, length)
        labels = int((targets != IGNORED).sum())
        if not labels:
            raise ValueError(f"a batch must have a scored target, that of update {state.update + 1} has none")

        optimizer.zero_grad()
        loss = torch.zeros(())
        parts = _parts(engine.rows(len(tokens)), plan.parts)
        for rows in parts:
            with engine.part(last=rows is parts[-1]):
                with engine.precision():
                    logits = forward(model, engine.place(tokens[rows]), state.update, rows)
                # Divided by the labels of the whole batch, so that neither processes nor parts nor ragged rows
                # change their weight.
                own = _summed(logits, engine.place(targets[rows])) / labels
                engine.backward(own)
            loss = own.detach() + loss.to(own)
        norm = engine.clip(parameters, plan.clip)
        # One wait for the device per update: both numbers must be seen before the step.
        loss_value, norm_value = torch.stack((engine.total(loss), norm)).tolist()
        if not (math.isfinite(loss_value) and math.isfinite(norm_value)):

            def part_again(rows: slice, tokens: Tensor = tokens, targets: Tensor = targets) -> Tensor:
                with engine.precision():
                    logits = forward(model, engine.place(tokens[rows]), state.update, rows)
                return _summed(logits, engine.place(targets[rows]))

            if engine.processes > 1:  # a second pass would have to be made by all of them
                where = non_finite_parameter(state.model)
            else:
                searched = (first_non_finite(model, partial(part_again, rows)) for rows in parts)
                where = next(filter(None, searched), "")
            raise NonFiniteLoss(state.update + 1, loss_value, norm_value, where)
        optimizer.step()

        state.update += 1
        state.curriculum = plan.curriculum.after(state.curriculum, loss_value)
        yield Record(
            update=state.update,
            loss=loss_value,
            gradient_norm=norm_value,
            learning_rate=groups[0]["lr"],
            length=length,
            tokens=tokens.numel(),
            seconds=perf_counter() - started,
        )


def _parts(rows: slice, count: int) -> list[slice]:
    """At most ``count`` stretches of the rows, as equal as they can be, none of them empty."""
    size = rows.stop - rows.start
    edges = [rows.start + size * part // count for part in range(count + 1)]
    return [slice(start, stop) for start, stop in pairwise(edges) if start < stop]


def _cut(rows: Int[Tensor, "batch positions"], length: int | None) -> Int[Tensor, "batch cut"]:
    """The first position, which scores nothing in a word problem, and ``length`` letters."""
    if length is None:
        return rows
    if length >= rows.shape[1]:
        raise ValueError(f"the curriculum's length must be at most the task's = {rows.shape[1] - 1}, got {length}")
    return rows[:, : length + 1]


def _summed(logits: Float[Tensor, "batch length classes"], targets: Int[Tensor, "batch length"]) -> Float[Tensor, ""]:
    """Cross entropy summed over the scored targets, in float32 at least: half precision cannot hold such a sum."""
    if logits.dtype in {torch.bfloat16, torch.float16}:
        logits = logits.float()
    return cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum")

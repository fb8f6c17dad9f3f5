"""What a run will take: parameters, operations, memory and time, counted on the model itself without computing it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Optimizer
from torch.utils.flop_counter import FlopCounterMode

from torsor.experiments.accelerators import Accelerator
from torsor.experiments.listening import tell
from torsor.experiments.sampled_depth import SampledDepth
from torsor.experiments.study import Step, Study
from torsor.models import LoopedTransformer

COUNTED_UPDATES = 8  # over which a sampled depth is averaged
SHARE_OF_PEAK = 0.4  # of the matrix peak, what training reaches on a large accelerator; an assumption, printed as such


@final
@dataclass(frozen=True)
class Forecast:
    """What one run needs.

    Args:
        parameters: numbers that are trained or looked up.
        updates: of the whole run.
        tokens: positions of one update.
        operations: floating-point operations of one update, forward and backward: two for every
            multiplication of a matrix product, those of vectors not counted.
        weight_bytes: of the parameters.
        gradient_bytes: of their gradients.
        optimizer_bytes: of the optimizer's running means.
        kept_bytes: what the forward pass of one part of a batch keeps for the backward pass.
    """

    parameters: int
    updates: int
    tokens: int
    operations: float
    weight_bytes: int
    gradient_bytes: int
    optimizer_bytes: int
    kept_bytes: int

    @property
    def bytes(self) -> int:
        """Of one process that holds all of the model."""
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes + self.kept_bytes

    def seconds(self, accelerator: Accelerator, count: int) -> float:
        """Of the whole run at ``SHARE_OF_PEAK`` of the matrix peak of so many accelerators."""
        return self.updates * self.operations / (SHARE_OF_PEAK * accelerator.operations_per_second * count)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "parameters": self.parameters,
            "updates": self.updates,
            "tokens_per_update": self.tokens,
            "tokens": self.tokens * self.updates,
            "operations_per_update": self.operations,
            "operations_per_token": self.operations / self.tokens,
            "bytes": {
                "weights": self.weight_bytes,
                "gradients": self.gradient_bytes,
                "optimizer": self.optimizer_bytes,
                "kept_for_backward": self.kept_bytes,
                "all": self.bytes,
            },
        }


def forecast(study: Study, batch: int | None = None) -> Forecast:
    """Count what an update of a study takes, at the mean over the first updates where its depth is sampled.

    Sizes and operations are those of the model itself, passed forward and backward, a looped one on
    tensors that have a size and no values. They are counted for two and for three sequences, and for a looped model at
    the depths between which they are linear; the rest follows. What an elementwise operation costs is
    not counted, nor is memory that lives for a moment.

    Args:
        study: the study; its model loses its values and is of no use afterwards.
        batch: sequences of an update; the plan's by default.
    """
    parameters = sum(p.numel() for p in study.model.parameters())
    weights = sum(p.nbytes for p in study.model.parameters())
    gradients = sum(p.nbytes for p in study.model.parameters() if p.requires_grad)
    moments = _optimizer_bytes(study.optimizer)
    length = study.task.batch(0, 1).tokens.shape[1]
    size = batch or study.plan.batch
    parts = min(study.plan.parts, size)
    depths = _depths(study, size)
    model = study.model.train()
    if isinstance(model, LoopedTransformer):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            cost = _cost_by_depth(study, model._apply(mode.from_tensor), length)
    else:  # small, and what a group's exponential does depends on values
        cost = _cost_by_depth(study, model, length)
    # a forward pass costs something by itself, such as the building of a map, and something for every sequence
    each = np.mean([[cost(depth)[1] for depth in row] for row in depths], axis=(0, 1))
    once = np.mean([cost(max(row))[0] for row in depths], axis=0)
    return Forecast(
        parameters=parameters,
        updates=study.plan.updates,
        tokens=size * length,
        operations=float(parts * once[0] + size * each[0]),
        weight_bytes=weights,
        gradient_bytes=gradients,
        optimizer_bytes=moments,
        kept_bytes=round(float(once[1] + size / parts * each[1])),
    )


def _depths(study: Study, size: int) -> list[list[int]]:
    """The depths of the sequences of each of the first updates; 1 for a model without loops."""
    step, updates = study.step, range(min(COUNTED_UPDATES, study.plan.updates))
    if not isinstance(step, SampledDepth):
        return [[1]]
    if step.per_sequence:
        return [step.depth.per_sequence(step.seed, update, size).tolist() for update in updates]
    return [[step.depth.at(step.seed, update)] for update in updates]


def _cost_by_depth(study: Study, model: nn.Module, length: int) -> Callable[[int], np.ndarray]:
    """Operations and kept bytes, of a pass by itself and of each sequence, as a function of the depth."""
    if not isinstance(study.step, SampledDepth):
        alone = _cost(study, model, study.step, length)
        return lambda depth: alone
    # linear up to the depth that the gradient passes through, and linear beyond it
    truncated = model.grad_steps if isinstance(model, LoopedTransformer) else None
    corners = [1, 2] if truncated is None else sorted({1, truncated, truncated + 1})
    costs: dict[int, np.ndarray] = {}
    for each in corners:
        tell("counting operations", len(costs), len(corners))
        costs[each] = _cost(study, model, _AtDepth(each), length)
    tell("counting operations", 1, 1)

    def cost(depth: int) -> np.ndarray:
        low, high = (corners[0], corners[1]) if depth <= corners[1] else (corners[-2], corners[-1])
        return costs[low] + (costs[high] - costs[low]) * (depth - low) / (high - low)

    return cost


@final
@dataclass(frozen=True)
class _AtDepth(Step):
    """A looped model at one depth, which is not drawn: a draw needs values."""

    steps: int

    def forward(self, model: nn.Module, tokens: torch.Tensor, update: int, rows: slice) -> torch.Tensor:
        return model(tokens, steps=self.steps)

    def notes(self, update: int) -> dict[str, Any]:
        return {"steps": self.steps}


def _cost(study: Study, model: nn.Module, step: Step, length: int) -> np.ndarray:
    """Operations and kept bytes, of a pass by itself and of each sequence, from passes of two and of three.

    Not of one, where an axis of length 1 makes views of what is a copy elsewhere.
    """
    two, three = (np.array(_count(study, model, step, (batch, length))) for batch in (2, 3))
    return np.stack([3 * two - 2 * three, three - two])


def _count(study: Study, model: nn.Module, step: Step, shape: tuple[int, int]) -> tuple[float, float]:
    """Operations of a pass forward and backward, and bytes kept between the two."""
    tokens = torch.zeros(shape, dtype=torch.int64)
    kept: dict[int, torch.Tensor] = {}
    weights = {id(p) for p in model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in weights:
            # views of one tensor are one piece of memory; held, so that no other takes its address
            kept[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with FlopCounterMode(display=False) as counter:
        with saved_tensors_hooks(pack, lambda tensor: tensor), study.engine.precision():
            logits = step.forward(model, tokens, 0, slice(0, shape[0]))
        logits.float().sum().backward()
    model.zero_grad()
    return float(counter.get_total_flops()), float(sum(tensor.untyped_storage().nbytes() for tensor in kept.values()))


def _optimizer_bytes(optimizer: Optimizer) -> int:
    """Two running means of a parameter under AdamW, one under Muon or momentum."""
    return sum(
        (2 if "betas" in group else 1 if group.get("momentum") else 0) * sum(p.nbytes for p in group["params"])
        for group in optimizer.param_groups
    )

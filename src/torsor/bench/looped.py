"""The looped transformer's training step against the matrix peak; the conformal map against the diagonal one."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from torsor.bench.clock import take_turns
from torsor.bench.limits import GEMM_SIZE, gemm
from torsor.layers import Stack
from torsor.models import LoopedTransformer, parcae_transformer
from torsor.recurrence.loop import Steps
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw
from torsor.transitions import BlockConformal, BlockDecay


def matrices(part: nn.Module) -> int:
    """Entries of the matrices that every token is multiplied with; tables are looked up."""
    return sum(each.weight.numel() for each in part.modules() if isinstance(each, nn.Linear))


def useful_flops(
    model: LoopedTransformer, batch: int, length: int, steps: int, grad_steps: int | None = None, training: bool = True
) -> int:
    r"""Floating-point operations that no implementation can do without: two for every multiply-add.

    A matrix product is counted once forward and twice backward; of the causal scores only the half that is used.
    Norms, rotations, the softmax and the optimizer count as nothing.

    Args:
        model: whose matrices are counted.
        batch: sequences.
        length: tokens of each.
        steps: loops.
        grad_steps: the last loops, which the gradient passes through; None for all.
        training: whether there is a backward pass at all.
    """
    tokens = batch * length

    def scores(stack: Stack) -> int:
        return len(stack.blocks) * length * (length + 1) // 2 * model.width * 2 * batch

    once = tokens * (matrices(model.prelude) + matrices(model.inject) + matrices(model.coda) + matrices(model.readout))
    once += scores(model.prelude.blocks) + scores(model.coda.blocks)
    loop = tokens * matrices(model.core) + scores(model.core)
    if not training:
        return 2 * (once + steps * loop)
    through = steps if grad_steps is None else min(steps, grad_steps)
    return 6 * (once + through * loop) + 2 * (steps - through) * loop


def word_model(width: int, grad_steps: int | None = None) -> LoopedTransformer:
    """The 1/1/1 model of a word problem with three letters and 60 states."""
    transition = BlockConformal(width, groups=2)
    return parcae_transformer(transition, vocabulary=3, classes=60, heads=4, grad_steps=grad_steps)


def training_update(
    model: LoopedTransformer, optimizer: Optimizer, batch: int, length: int, steps_of: Callable[[int], Steps]
) -> Callable[[], None]:
    """A call that makes the next training step: forward, backward, clip, optimizer.

    Args:
        model: what moves.
        optimizer: of its parameters.
        batch: sequences, the same at every step.
        length: tokens of each.
        steps_of: the loops of an update, by its number from 0.
    """
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 3, (batch, length), generator=generator)
    targets = torch.randint(0, 60, (batch, length), generator=generator)
    parameters, numbers = list(model.parameters()), count()

    def step() -> None:
        loss = cross_entropy(model(tokens, steps=steps_of(next(numbers))).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def training_step(width: int, batch: int = 64, length: int = 64, steps: int = 8) -> tuple[Callable[[], None], int]:
    """A whole training step (forward, backward, clip, AdamW) of a 1/1/1 model, and its useful operations."""
    model = word_model(width)
    step = training_update(model, adamw(model, 1e-3), batch, length, lambda _: steps)
    return step, useful_flops(model, batch, length, steps)


def measure(widths: tuple[int, ...] = (128, 512), rounds: int = 12) -> dict[str, Any]:
    """Time a training step at each width beside the matrix product, and both transitions' forward passes.

    Args:
        widths: of the residual stream.
        rounds: of the turns that the cases take.

    Returns:
        A plain dictionary. For each width the share of the float32 matrix peak, useful operations per
        second of the fastest step over those of the fastest product of the same run, and beside it the
        median and quartiles of the same ratio taken turn by turn; and the ratio of the conformal map's
        forward to the diagonal one's at (64, 128, 512).

    Raises:
        ValueError: when ``rounds`` is below 1 or a width is not a multiple of 8.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    keep_freed_memory()
    steps = {width: training_step(width) for width in widths}
    peak = gemm(GEMM_SIZE)
    rows = []
    for width, (step, flops) in steps.items():
        timings = take_turns({"gemm": peak, "step": step}, rounds)
        product, fastest = 2 * GEMM_SIZE**3, {name: min(each) for name, each in timings.seconds.items()}
        ratio, low, high = timings.ratio("gemm", "step")
        rows.append(
            {
                "width": width,
                "step_seconds": timings.median("step"),
                "useful_gflop": flops / 1e9,
                "gemm_gflops": product / fastest["gemm"] / 1e9,
                "share_of_peak": flops / product * fastest["gemm"] / fastest["step"],
                "paired_median": flops / product * ratio,
                "paired_quartiles": [flops / product * low, flops / product * high],
                "paired": timings.ratio_interval("gemm", "step").scaled(flops / product).to_json(),
            }
        )
    return {
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "training_step": rows,
        "conformal_over_diagonal": _transitions(rounds * 4),
    }


def _transitions(rounds: int) -> dict[str, Any]:
    x = torch.randn(64, 128, 512)
    with torch.no_grad():
        diagonal, conformal = BlockDecay(512, groups=512)(), BlockConformal(512, groups=2)()
        timings = take_turns({"diagonal": lambda: diagonal(x), "conformal": lambda: conformal(x)}, rounds, repeats=10)
    ratio, low, high = timings.ratio("conformal", "diagonal")
    row = {"ratio": ratio, "quartiles": [low, high], "diagonal_seconds": timings.median("diagonal")}
    return row | timings.spread("conformal", "diagonal")

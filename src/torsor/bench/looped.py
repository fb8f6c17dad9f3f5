"""The looped transformer's training step against the matrix peak; the conformal map against the diagonal one."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from torsor.bench.harness import Case, compare, growths
from torsor.bench.limits import GEMM_SIZE, Limits, gemm
from torsor.layers import Stack
from torsor.models import LoopedTransformer, parcae_transformer
from torsor.recurrence.loop import Steps
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw
from torsor.transitions import BlockConformal, BlockDecay

LOOPS = 8


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


def measure(
    limits: Limits,
    rounds: int = 12,
    widths: tuple[int, ...] = (128, 512),
    batch: int = 64,
    length: int = 64,
    product: int = GEMM_SIZE,
    carried: tuple[int, int, int] = (64, 128, 512),
) -> dict[str, Any]:
    """Time a training step of 8 loops at each width beside a matrix product, and both transitions' forward passes.

    The product takes its turns with the steps, so that its share of the peak says how much of that was there meanwhile.

    Args:
        limits: of this machine.
        rounds: turns that each case takes, and the maps four times as many.
        widths: of the residual stream, multiples of 8.
        batch: sequences.
        length: tokens of each.
        product: size of the matrices.
        carried: shape of the states that both maps carry.

    Returns:
        A row for the product, for each width with its useful operations, and for both maps.

    Raises:
        ValueError: when a number is out of range.
    """
    keep_freed_memory()
    cases = {f"product of matrices of {product}": Case(gemm(product), 2 * product**3)}
    for width in widths:
        model = word_model(width)
        cases[f"training step, width {width}"] = Case(
            training_update(model, adamw(model, 1e-3), batch, length, lambda _: LOOPS),
            useful_flops(model, batch, length, LOOPS),
            items=batch * length,
            unit="tokens",
            given=list(model.parameters()),
        )
    rows = compare(cases, limits, rounds) + compare(_maps(carried), limits, rounds * 4, repeats=10)
    by_width = {width: row["seconds"] for width, row in zip(dict.fromkeys(widths), rows[1:-2], strict=True)}
    settings = {
        "batch": batch,
        "length": length,
        "loops": LOOPS,
        "layers": "1/1/1",
        "states of the maps": " x ".join(map(str, carried)),
    }
    return {"settings": settings, "rows": rows, "growth": growths("seconds of a training step", "width", by_width)}


def _maps(shape: tuple[int, int, int]) -> dict[str, Case]:
    x = torch.randn(shape)
    with torch.no_grad():
        diagonal, conformal = BlockDecay(x.shape[-1], groups=x.shape[-1])(), BlockConformal(x.shape[-1], groups=2)()
    # a state is read and one written; a number takes a product, a plane one of complex numbers, six for two coordinates
    return {
        "diagonal map": Case(lambda: diagonal(x), x.numel(), 2 * x.nbytes),
        "conformal map": Case(lambda: conformal(x), 3 * x.numel(), 2 * x.nbytes, reference="diagonal map"),
    }

"""The three main jobs, each with the operations and bytes that it cannot do without, from its model's own sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torsor.bench.intervals import Number
from torsor.bench.looped import training_update, useful_flops, word_model
from torsor.bench.products import Product
from torsor.experiments.experiment import nearest
from torsor.groups import Orthogonal, named
from torsor.models import LSTM, GroupRNN, GroupTransformer
from torsor.tasks import WordProblem
from torsor.tracking import word_pieces
from torsor.training.optimizer import adamw

FLOAT, TOKEN = 4, 8  # bytes
# of a parameter: read forward, read backward, gradient written; gradient, value and two moments read, three written
PASSES_OF_A_PARAMETER = 10
PRODUCTS_OF_AN_EXPONENTIAL = 3  # of the polynomial, with no angle doubled
VOCABULARY, CLIP = 65, 1.0  # of characters
Logits = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True)
class Part:
    """A part of a job's floor.

    Args:
        name: what is counted.
        operations: floating-point operations.
        moved: bytes to or from memory.
        products: that the operations consist of, for the most part and in these proportions; () where no product is
            meant. Timed by themselves they say how fast the operations can be done at these sizes.
    """

    name: str
    operations: Number = 0
    moved: Number = 0
    products: tuple[Product, ...] = ()


@final
@dataclass(frozen=True)
class Job:
    """A job that can be run again and again.

    Args:
        call: does it once.
        parts: of its floor.
        about: its sizes in words.
        tokens: that one call reads.
    """

    call: Callable[[], object]
    parts: tuple[Part, ...]
    about: str
    tokens: int

    @property
    def operations(self) -> Number:
        """Of all parts."""
        return sum(part.operations for part in self.parts)

    @property
    def moved(self) -> Number:
        """Bytes of all parts."""
        return sum(part.moved for part in self.parts)


def looped_training(width: int = 128, batch: int = 64, length: int = 64, steps: int = 8) -> Job:
    """A training step of the 1/1/1 looped transformer.

    Every token is multiplied with every matrix once for each time that its part is passed, and attends to those
    before it. Of a loop nothing but its state must go to memory and come back: the rest can be computed again.
    """
    model = word_model(width)
    numbers, tokens = _numbers(model), batch * length
    return Job(
        training_update(model, adamw(model, 1e-3), batch, length, lambda _: steps),
        (
            Part(
                "matrices and causal scores, once forward, twice backward",
                useful_flops(model, batch, length, steps),
                products=Product(tokens, width, 4 * width).backwards() + Product(tokens, 4 * width, width).backwards(),
            ),
            Part("parameters, gradients and moments", moved=PASSES_OF_A_PARAMETER * FLOAT * numbers),
            Part("the state of every loop, written and read", moved=2 * FLOAT * tokens * width * steps),
        ),
        f"width {width}, batch {batch}, length {length}, {steps} loops, 1/1/1 layers, {numbers:,} parameters",
        tokens,
    )


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


def group_transformer_training(width: int = 16, batch: int = 64, context: int = 128) -> Job:
    r"""A training step of the GroupTransformer on O(d), the 100K OSMFormer at width 16.

    With :math:`a = d^2` numbers in a state and :math:`k = d (d - 1) / 2` in a tangent, each layer takes for every
    token the causal scores and means of :math:`a` numbers, one product of matrices for the relative element, two
    mixings of :math:`k^2`, and two exponentials, of three products each and one to move the state.
    """
    model = GroupTransformer(Orthogonal(width), VOCABULARY)
    layers, tokens = len(model.blocks), batch * context
    ambient, tangent = model.group.ambient_dim, model.group.algebra_dim
    product = 2 * width**3
    exponential = (PRODUCTS_OF_AN_EXPONENTIAL + 1) * product
    attention = 2 * 2 * ambient * batch * context * (context + 1) // 2
    numbers, forward_and_backward = _numbers(model), 3
    small = (Product(width, width, width, tokens),)
    return Job(
        training_step(model, model, batch, context),
        (
            Part("exponentials and moves", forward_and_backward * layers * tokens * 2 * exponential, products=small),
            Part("relative elements", forward_and_backward * layers * tokens * product, products=small),
            Part(
                "mixings",
                forward_and_backward * layers * tokens * 2 * 2 * tangent**2,
                products=Product(tokens, tangent, tangent).backwards(),
            ),
            Part(
                "causal scores and means",
                forward_and_backward * layers * attention,
                products=Product(context, ambient, context, batch).backwards(),
            ),
            Part(
                "readout",
                forward_and_backward * tokens * 2 * ambient * VOCABULARY,
                products=Product(tokens, ambient, VOCABULARY).backwards(),
            ),
            Part("parameters, gradients and moments", moved=PASSES_OF_A_PARAMETER * FLOAT * numbers),
            Part("the state of every move, written and read", moved=2 * FLOAT * tokens * ambient * 2 * layers),
        ),
        f"O({width}), batch {batch}, context {context}, {layers} layers, {numbers:,} parameters",
        tokens,
    )


def group_recurrent_training(width: int = 16, batch: int = 64, context: int = 128) -> Job:
    """A training step of the GroupRNN on O(d): for each token a relative element, a mixing, an exponential, a move."""
    model, tokens = GroupRNN(Orthogonal(width), VOCABULARY), batch * context
    ambient, tangent, product = model.group.ambient_dim, model.group.algebra_dim, 2 * width**3
    forward_and_backward = 3
    return Job(
        training_step(model, lambda tokens: model(tokens)[0], batch, context),
        (
            Part(
                "relative elements, exponentials and moves",
                forward_and_backward * tokens * (PRODUCTS_OF_AN_EXPONENTIAL + 2) * product,
            ),
            Part("mixings", forward_and_backward * tokens * 2 * tangent**2),
            Part("readout", forward_and_backward * tokens * 2 * ambient * VOCABULARY),
            Part("parameters, gradients and moments", moved=PASSES_OF_A_PARAMETER * FLOAT * _numbers(model)),
            Part("the state of every token, written and read", moved=2 * FLOAT * tokens * ambient),
        ),
        f"O({width}), batch {batch}, context {context}, {_numbers(model):,} parameters",
        tokens,
    )


def streaming_tracking(
    words: int = 100, length: int = 2048, hidden: int = 64, chunk: int = 256, group: str = "A5"
) -> Job:
    """Words of a group read on by an LSTM whose state is carried, and its answers compared.

    Every token is looked up, multiplied with the recurrent matrix, and read out. The logits are written and read
    once; state and weights stay in the cache.
    """
    task = WordProblem(named(group), length, "all")
    model = LSTM(task.vocabulary, hidden, classes=task.classes).eval()
    tokens = words * (length + 1)

    @torch.no_grad()
    def call() -> int:
        state, hits = None, 0
        for piece in word_pieces(task, words, length, chunk):
            logits, state = model(piece.tokens, state)
            hits += int((logits.argmax(-1) == piece.targets).sum())
        return hits

    about = f"LSTM of {hidden}, {words} words of {length} letters of {group}, {chunk} at a time"
    return Job(
        call,
        (
            Part("the recurrent matrix", tokens * 2 * 4 * hidden**2, products=(Product(words, hidden, 4 * hidden),)),
            Part(
                "readout", tokens * 2 * hidden * task.classes, products=(Product(words * chunk, hidden, task.classes),)
            ),
            Part("tokens and answers, read", moved=2 * TOKEN * tokens),
            Part("logits, written and read", moved=2 * FLOAT * tokens * task.classes),
        ),
        f"{about}, {_numbers(model):,} parameters",
        tokens,
    )


JOBS: dict[str, Callable[..., Job]] = {
    "looped": looped_training,
    "osmformer": group_transformer_training,
    "streaming": streaming_tracking,
}


def find_job(name: str) -> Callable[..., Job]:
    """What makes the job of this name.

    Raises:
        ValueError: when there is none.
    """
    if name not in JOBS:
        raise ValueError(f"there is no job {name!r}{nearest(name, JOBS)}")
    return JOBS[name]


def _numbers(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())

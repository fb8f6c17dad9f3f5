"""Looped transformers as JSON holds them, without their weights."""

from typing import final

from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.interop.family import Family, Form
from torsor.interop.loop_cache import LoopCache, require_loops
from torsor.interop.reading import Reading
from torsor.interop.sequence_cache import SequenceCache
from torsor.interop.transition_form import transition_form, transition_from
from torsor.layers import Block, Stack, ValueGate
from torsor.models.looped_transformer import Coda, LoopedTransformer, Prelude


def looped_form(model: LoopedTransformer) -> Form:
    """The form of a looped transformer in the published layout.

    Raises:
        ValueError: when its readout is no matrix without a bias, or its transition is not known.
    """
    readout = model.readout
    if not isinstance(readout, nn.Linear) or readout.bias is not None:
        raise ValueError(f"readout must be a matrix without a bias to be exported, got {readout}")
    stacks = {"prelude": model.prelude.blocks, "core": model.core, "coda": model.coda.blocks}
    return {
        "vocabulary": model.vocabulary,
        "classes": None if readout.weight is model.prelude.embedding.weight else readout.out_features,
        "heads": model.width // model.head_dim,
        "transition": transition_form(model.transition),
        **{name: _stack_form(stack) for name, stack in stacks.items()},
        "grad_steps": model.grad_steps,
        "recompute": model.recompute,
    }


def looped_from(form: Form) -> LoopedTransformer:
    """The looped transformer of a form.

    Raises:
        ValueError: when a size is refused.
    """
    transition = transition_from(form["transition"])
    vocabulary, width, heads = form["vocabulary"], transition.dim, form["heads"]
    embedding = nn.Embedding(vocabulary, width)
    classes = vocabulary if form["classes"] is None else form["classes"]
    readout = nn.Linear(width, classes, bias=False)
    if form["classes"] is None:
        readout.weight = embedding.weight
    prelude, core, coda = (_stack(form[part], vocabulary, width, heads) for part in ("prelude", "core", "coda"))
    return LoopedTransformer(
        prelude=Prelude(embedding, prelude),
        transition=transition,
        core=core,
        coda=Coda(width, coda),
        readout=readout,
        grad_steps=form["grad_steps"],
        recompute=form["recompute"],
    )


def looped_tied(form: Form) -> dict[str, str]:
    """The readout's matrix by the embedding's, where they are one."""
    return {"readout.weight": "prelude.embedding.weight"} if form["classes"] is None else {}


def _stack_form(stack: Stack) -> Form:
    blocks = [block for block in stack.blocks if isinstance(block, Block)]
    return {
        "hidden": [block.feedforward.up.out_features for block in blocks],
        "gates": [number for number, block in enumerate(blocks) if block.attention.value_gate is not None],
        "tables": sorted(map(int, stack.value_tables)),
    }


def _stack(form: Form, vocabulary: int, width: int, heads: int) -> Stack:
    gates = {number: ValueGate(width, heads) for number in form["gates"]}
    blocks = [Block(width, heads, hidden, value_gate=gates.get(number)) for number, hidden in enumerate(form["hidden"])]
    return Stack(blocks, {number: nn.Embedding(vocabulary, width) for number in form["tables"]})


@final
class ReadingInLoops(Reading):
    """A looped transformer, which makes all its loops at every token.

    Args:
        model: that is read.
    """

    def __init__(self, model: LoopedTransformer) -> None:
        self._model = model

    def logits(self, tokens: Int[Tensor, "batch length"], steps: int | None) -> Float[Tensor, "batch length classes"]:
        return self._model(tokens, steps=require_loops(steps))

    def cache(self, batch: int, steps: int | None) -> SequenceCache:
        return LoopCache(self._model, batch, require_loops(steps))


LOOPED = Family(
    "looped transformer",
    LoopedTransformer,
    "torsor.interop.looped_form.LOOPED",
    looped_form,
    looped_from,
    ReadingInLoops,
    looped_tied,
)

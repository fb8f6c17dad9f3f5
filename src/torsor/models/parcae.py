"""The published Parcae layout: assembled for any transition, or read from a published checkpoint."""

from collections.abc import Mapping
from functools import reduce
from itertools import product

import torch
from torch import Tensor, nn

from torsor.layers import Block, Stack, ValueGate
from torsor.models.looped_transformer import Coda, LoopedTransformer, Prelude
from torsor.models.published_names import EMBEDDING, READOUT, misfits, published_layers, published_name
from torsor.models.requirements import require_transition
from torsor.models.value_layers import PublishedValues, ValueLayers
from torsor.transitions import BlockDecay, Transition


def parcae_transformer(
    transition: Transition,
    *,
    vocabulary: int,
    classes: int | None = None,
    heads: int,
    layers: tuple[int, int, int] = (1, 1, 1),
    value_embeddings: ValueLayers | None = None,
    grad_steps: int | None = None,
    recompute: bool = False,
    seed: int = 0,
) -> LoopedTransformer:
    """A looped transformer in the published layout, as wide as its transition, with the published initial values.

    Under ``torch.device("meta")`` nothing is allocated, so that the parameters of a model of any size can be counted.

    Args:
        transition: what carries the state between loops; its ``dim`` is the width.
        vocabulary: number of input tokens.
        classes: number of logits, by a matrix of its own; None for a language model, which reads out
            the next token by the embedding's own matrix.
        heads: of every attention; the width must be a multiple of ``2 * heads``.
        layers: blocks of the prelude, the core and the coda.
        value_embeddings: the layers that read value embeddings: ``AlignedValues()`` for a language
            model, ``PublishedValues()`` to follow the published code where the two differ; None for none.
        grad_steps: loops that the gradient passes through, the last ones; None for all.
        recompute: whether the backward pass computes each loop again, from its first state, in place of
            keeping what is inside it: less memory for a third more time.
        seed: of the initial weights.

    Raises:
        ValueError: when a size is below 1 or the width is not a multiple of ``2 * heads``.
    """
    require_transition(transition)
    if len(layers) != 3:
        raise ValueError(f"layers must be those of prelude, core and coda, got {layers}")
    sizes = {"vocabulary": vocabulary, "layers of the core": layers[1]}
    for name, value in sizes.items() if classes is None else (sizes | {"classes": classes}).items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    width = transition.dim
    prelude, core, coda = _stacks(width, vocabulary, heads, layers, value_embeddings)
    embedding = nn.Embedding(vocabulary, width)
    if classes is None:
        readout = nn.Linear(width, vocabulary, bias=False, device="meta")  # its own matrix would be thrown away
        readout.weight = embedding.weight
    else:
        readout = nn.Linear(width, classes, bias=False)
    model = LoopedTransformer(
        prelude=Prelude(embedding, prelude),
        transition=transition,
        core=core,
        coda=Coda(width, coda),
        readout=readout,
        grad_steps=grad_steps,
        recompute=recompute,
    )
    model.reset_parameters(torch.Generator().manual_seed(seed))
    return model


def from_published(state_dict: Mapping[str, Tensor], heads: int) -> LoopedTransformer:
    """The model of a published Parcae checkpoint, with its weights and its diagonal transition.

    With a zero initial state it gives the published logits at any number of loops. From there its
    geometry can be measured (``model.transition()`` is the map), another transition can take the
    place of its own (``model.with_transition``), and its training can go on.

    Args:
        state_dict: the tensors under their published names: ``transformer.wte.weight``,
            ``transformer.core_block.0.attn.c_q.weight``, ``value_embeds.1.weight`` and so on. They are
            copied, to float32 if they are narrower, and stay on their device. The table of rotary
            positions, ``freqs_cis``, may be there and is not read.
        heads: of every attention, which the tensors alone do not tell.

    Returns:
        A model that is tied, and whose gradient passes through all loops unless ``grad_steps`` is set.

    Raises:
        ValueError: naming what is missing, unexpected or ill-shaped, when the readout is not tied to the
            embedding, or when the width is not a multiple of ``2 * heads``.

    Reference:
        "Parcae"; symbols and names in ``docs/papers.md``.
    """
    embedding = state_dict.get(EMBEDDING)
    if embedding is None or embedding.ndim != 2 or 0 in embedding.shape:
        found = "none" if embedding is None else f"shape {tuple(embedding.shape)}"
        raise ValueError(f"{EMBEDDING} must be a tensor (vocabulary, width), got {found}")
    vocabulary, width = embedding.shape
    layers = published_layers(state_dict)

    def empty(values: ValueLayers) -> LoopedTransformer:
        with torch.device("meta"):
            transition = BlockDecay(width, groups=width)
            return parcae_transformer(
                transition, vocabulary=vocabulary, heads=heads, layers=layers, value_embeddings=values
            )

    # which layers own a gate depends on settings that a checkpoint does not hold: the nearest of them is meant
    models = [empty(PublishedValues(mean_steps, grad_steps)) for mean_steps, grad_steps in product((8, 7), (4, 3))]
    model, problems = min(
        ((model, misfits(state_dict, _published_shapes(model, layers))) for model in models),
        key=lambda pair: len(pair[1]),
    )
    if problems:
        more = [f"and {len(problems) - 8} more"] if len(problems) > 8 else []
        raise ValueError(f"state_dict must hold a published checkpoint's tensors: {', '.join(problems[:8] + more)}")
    if not torch.equal(state_dict[READOUT], embedding):
        raise ValueError(f"{READOUT} must equal {EMBEDDING}, to which it is tied, got another matrix")

    names = {name: published_name(name, layers) for name in model.state_dict()}
    dtype = reduce(torch.promote_types, (state_dict[theirs].dtype for theirs in names.values()), torch.float32)
    weights = {
        ours: state_dict[theirs].detach().to(dtype, copy=True, memory_format=torch.contiguous_format)
        for ours, theirs in names.items()
    }
    model.load_state_dict(weights, assign=True)
    model.readout.weight = model.prelude.embedding.weight
    return model


def _published_shapes(model: LoopedTransformer, layers: tuple[int, int, int]) -> dict[str, tuple[int, ...]]:
    return {published_name(name, layers): tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def _stacks(
    width: int, vocabulary: int, heads: int, layers: tuple[int, int, int], values: ValueLayers | None
) -> list[Stack]:
    tables, gates = (values.tables(layers), values.gates(layers)) if values else (frozenset(), frozenset())
    stacks, first = [], 0
    for count in layers:
        blocks = [
            Block(width, heads, value_gate=ValueGate(width, heads) if layer in gates else None)
            for layer in range(first, first + count)
        ]
        own = {layer - first: nn.Embedding(vocabulary, width) for layer in tables if first <= layer < first + count}
        stacks.append(Stack(blocks, own))
        first += count
    return stacks

"""THE register: one line for each implementation, and the laws in ``tests/laws`` run over all of them.

A case is a name and a constructor without arguments; a test receives the constructor, so that it
draws nothing before its seed is set.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from torsor.groups import (
    FiniteGroup,
    MatrixGroup,
    Orthogonal,
    SpecialOrthogonal,
    SpecialUnitary,
    Torus,
    Unitary,
    alternating,
    cyclic,
    dihedral,
    direct_product,
    from_cycles,
    generated_by,
    heisenberg,
    quaternion,
    special_linear_2_3,
    symmetric,
)
from torsor.layers import (
    BCHMixing,
    BlockKind,
    CachedAttention,
    CodeMoves,
    DecayLayer,
    DeltaProductLayer,
    FreeMoves,
    GroupMoves,
    IdentityMixing,
    LinearMixing,
    LSTMLayer,
    M2RNNLayer,
    M2RNNStart,
    MatrixHeads,
    MixingKind,
    ParallelBlock,
    PostNormBlock,
    RotRNNLayer,
    SequenceLayer,
    SerialBlock,
    TangentNetworkBlock,
    ThirdOrderMixing,
    TwoHeadBlock,
    move_by_drive,
    move_from_token,
    move_then_multiply,
    token_tangent,
)
from torsor.maps import Dense, Diagonal, LinearMap, Permutation, ScaledRotation
from torsor.maps import Householder as Reflections
from torsor.models import (
    GRU,
    LSTM,
    M2RNN,
    AlignedValues,
    GroupRNN,
    GroupTransformer,
    Hybrid,
    LayeredModel,
    LoopedTransformer,
    Transformer,
    parcae_transformer,
)
from torsor.tasks import Characters, Corpus, ListOps, PackedTokens, Task, WordProblem
from torsor.tracking import HeldOutPairs
from torsor.transitions import (
    BlockConformal,
    BlockDecay,
    Cayley,
    Exponential,
    Free,
    Geometric,
    Householder,
    Still,
    Transition,
    Uniform,
)
from torsor.transitions.hold import exact_hold


def _uniform(low: float, high: float, *shape: int) -> torch.Tensor:
    return low + (high - low) * torch.rand(*shape)


MAPS: dict[str, Callable[[], LinearMap]] = {
    "dense": lambda: Dense(torch.randn(8, 8) / 3),
    "dense, a batch of three": lambda: Dense(torch.randn(3, 8, 8) / 3),
    "dense, two groups": lambda: Dense(torch.randn(8, 8) / 3, groups=2),
    "diagonal": lambda: Diagonal(_uniform(0.2, 0.95, 8)),
    "diagonal, two groups": lambda: Diagonal(_uniform(0.2, 0.95, 2).repeat_interleave(4), groups=2),
    "diagonal, a batch of three": lambda: Diagonal(_uniform(-0.9, 0.9, 3, 8)),
    "scaled rotation": lambda: ScaledRotation(_uniform(0.3, 0.9, 4), _uniform(-3, 3, 4)),
    "scaled rotation, two groups": lambda: ScaledRotation(
        _uniform(0.3, 0.9, 2).repeat_interleave(2), _uniform(-3, 3, 4), groups=2
    ),
    "scaled rotation, half-split": lambda: ScaledRotation(
        _uniform(0.3, 0.9, 2).repeat_interleave(2), _uniform(-3, 3, 4), groups=2, pairing="half-split"
    ),
    "scaled rotation, half-split, one group": lambda: ScaledRotation(
        _uniform(0.3, 0.9, 4), _uniform(-3, 3, 4), pairing="half-split"
    ),
    "scaled rotation, a batch of three": lambda: ScaledRotation(_uniform(0.3, 0.9, 3, 4), _uniform(-3, 3, 3, 4)),
    "reflections": lambda: Reflections(torch.randn(3, 8), torch.tensor(0.8)),
    "reflections, one": lambda: Reflections(torch.randn(1, 8), torch.tensor(0.8)),
    "reflections, a batch of three": lambda: Reflections(torch.randn(3, 2, 8), _uniform(0.3, 0.9, 3)),
    "permutation": lambda: Permutation(torch.randperm(8)),
    "permutation, a batch of three": lambda: Permutation(torch.stack([torch.randperm(8) for _ in range(3)])),
}

TRANSITIONS: dict[str, Callable[[], Transition]] = {
    "decay, one rate": lambda: BlockDecay(8, groups=1),
    "decay, two tied groups": lambda: BlockDecay(8, groups=2, initial_scale=(0.3, 0.9)),
    "decay, every coordinate (Parcae)": lambda: BlockDecay(8, groups=8),
    "decay, exact hold": lambda: BlockDecay(8, groups=2, hold=exact_hold),
    "conformal, one group": lambda: BlockConformal(8, groups=1),
    "conformal, two groups": lambda: BlockConformal(8, groups=2, initial_scale=(0.3, 0.9)),
    "conformal, every plane": lambda: BlockConformal(8, groups=4, frequencies=Uniform(seed=1)),
    "conformal, base 100": lambda: BlockConformal(8, groups=2, frequencies=Geometric(100.0)),
    "conformal, still": lambda: BlockConformal(8, groups=2, frequencies=Still()),
    "conformal, half-split": lambda: BlockConformal(8, groups=2, pairing="half-split"),
    "conformal, exact hold": lambda: BlockConformal(8, groups=2, hold=exact_hold),
    "Cayley, one group": lambda: Cayley(6),
    "Cayley, two groups": lambda: Cayley(6, groups=2, initial_scale=(0.3, 0.9)),
    "Householder, one group": lambda: Householder(6),
    "Householder, two groups": lambda: Householder(6, groups=2, initial_scale=(0.3, 0.9), spread=torch.pi),
    "exponential, one group": lambda: Exponential(6),
    "exponential, two groups": lambda: Exponential(6, groups=2, initial_scale=(0.3, 0.9)),
    "free": lambda: Free(6),
}


def looped(transition: Transition, seed: int = 0, classes: int | None = 5, **arguments) -> LoopedTransformer:
    """A small looped transformer whose blocks are not the identity any more."""
    model = parcae_transformer(transition, vocabulary=3, classes=classes, heads=2, **arguments)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return model


MODELS: dict[str, Callable[[], LoopedTransformer]] = {
    "looped, diagonal": lambda: looped(BlockDecay(16, groups=16)),
    "looped, conformal": lambda: looped(BlockConformal(16, groups=2)),
    "looped, two blocks each": lambda: looped(BlockConformal(16, groups=1), layers=(2, 2, 2)),
    "looped, no prelude and no coda": lambda: looped(BlockConformal(16, groups=4), layers=(0, 1, 0)),
    "looped, value embeddings": lambda: looped(
        BlockConformal(16, groups=2), layers=(2, 2, 2), value_embeddings=AlignedValues()
    ),
    "looped, readout tied to the embedding": lambda: looped(
        BlockDecay(16, groups=16), classes=None, value_embeddings=AlignedValues()
    ),
}

MIXINGS: dict[str, MixingKind] = {
    "none": IdentityMixing,
    "BCH": BCHMixing,
    "BCH, third order": ThirdOrderMixing,
    "linear": LinearMixing,
}

GROUP_BLOCKS: dict[str, BlockKind] = {
    "serial": SerialBlock,
    "serial, towards the token": partial(SerialBlock, position_tangent=token_tangent),
    "parallel": ParallelBlock,
    "two heads": TwoHeadBlock,
    "tangent network": TangentNetworkBlock,
}


def stirred(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model with every parameter moved a little, so that nothing is the identity or zero any more."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return model


# Models of a next token that can be read on from a state; each has a vocabulary of 7.
SEQUENCE_MODELS: dict[str, Callable[[], nn.Module]] = {
    "transformer": lambda: stirred(Transformer(7, width=8)),
    "transformer, two heads, norms after": lambda: stirred(Transformer(7, width=8, heads=2, block=PostNormBlock)),
    "LSTM": lambda: stirred(LSTM(7, hidden=5)),
    "GRU": lambda: stirred(GRU(7, hidden=5)),
    "group transformer, O": lambda: stirred(GroupTransformer(Orthogonal(4), vocabulary=7)),
    "group transformer, SO": lambda: stirred(GroupTransformer(SpecialOrthogonal(3), vocabulary=7)),
    "group transformer, U": lambda: stirred(GroupTransformer(Unitary(3), vocabulary=7)),
    "group transformer, SU": lambda: stirred(GroupTransformer(SpecialUnitary(3), vocabulary=7)),
    "group transformer, torus": lambda: stirred(GroupTransformer(Torus(4), vocabulary=7)),
    "group transformer, BCH": lambda: stirred(GroupTransformer(Orthogonal(4), vocabulary=7, mixing=BCHMixing)),
    "group transformer, no mixing": lambda: stirred(GroupTransformer(Unitary(2), vocabulary=7, mixing=IdentityMixing)),
    **{
        f"group transformer, {name}": lambda block=block: stirred(
            GroupTransformer(Orthogonal(4), vocabulary=7, mixing=BCHMixing, block=block)
        )
        for name, block in GROUP_BLOCKS.items()
        if name != "serial"
    },
    "group RNN, O": lambda: stirred(GroupRNN(Orthogonal(4), vocabulary=7)),
    "group RNN, SO": lambda: stirred(GroupRNN(SpecialOrthogonal(3), vocabulary=7)),
    "group RNN, U": lambda: stirred(GroupRNN(Unitary(3), vocabulary=7)),
    "group RNN, SU": lambda: stirred(GroupRNN(SpecialUnitary(3), vocabulary=7)),
    "group RNN, torus": lambda: stirred(GroupRNN(Torus(4), vocabulary=7)),
    "group RNN, BCH": lambda: stirred(GroupRNN(Orthogonal(4), vocabulary=7, mixing=BCHMixing)),
    "group RNN, no mixing": lambda: stirred(GroupRNN(Unitary(2), vocabulary=7, mixing=IdentityMixing)),
    "group RNN, move then multiply": lambda: stirred(
        GroupRNN(Orthogonal(4), vocabulary=7, recurrence=move_then_multiply)
    ),
    "group RNN, move from the token": lambda: stirred(
        GroupRNN(Orthogonal(4), vocabulary=7, recurrence=move_from_token)
    ),
    "group RNN, move by drive": lambda: stirred(GroupRNN(Orthogonal(4), vocabulary=7, recurrence=move_by_drive)),
}

# large enough at the start for every part of a small layer to be felt
LIVELY = M2RNNStart(std=0.5, convolution_std=0.5)
M2RNN_HEADS = {
    "published": MatrixHeads.multi_value(3, key_dim=4, value_dim=3),
    "one query for each": MatrixHeads(4, 2, 1, 2, 1, key_dim=3, value_dim=2),
}

# Layers that can be read on from a state; each has a width of 6.
SEQUENCE_LAYERS: dict[str, Callable[[], SequenceLayer]] = {
    "M²RNN": lambda: M2RNNLayer(6, M2RNN_HEADS["published"], start=LIVELY),
    "M²RNN, grouped, free gradient": lambda: M2RNNLayer(6, M2RNN_HEADS["one query for each"], 2, None, start=LIVELY),
    "M²RNN, no convolution, carry clipped": lambda: M2RNNLayer(
        6, M2RNN_HEADS["published"], 1, 1e-3, "carry", start=LIVELY
    ),
    "attention": lambda: CachedAttention(6, heads=2, std=0.5),
    "LSTM": lambda: LSTMLayer(6),
    "DeltaProduct": lambda: DeltaProductLayer(6, heads=2, key_dim=4, value_dim=3),
    "RotRNN": lambda: RotRNNLayer(6, dim=8, heads=2),
    "decay": lambda: DecayLayer(6, dim=8),
}

# Models of lists of such layers; each has a vocabulary of 7.
LAYERED_MODELS: dict[str, Callable[[], LayeredModel]] = {
    "M²RNN": lambda: M2RNN(7, 6, heads=M2RNN_HEADS["published"], start=LIVELY),
    "M²RNN, other classes": lambda: M2RNN(
        7, 6, layers=1, heads=M2RNN_HEADS["one query for each"], classes=5, hidden=4, start=LIVELY
    ),
    "hybrid": lambda: Hybrid(7, [make() for make in SEQUENCE_LAYERS.values()], hidden=5, std=0.5),
    "hybrid without attention": lambda: Hybrid(
        7,
        [make() for name, make in SEQUENCE_LAYERS.items() if name != "attention"],
        hidden=5,
        std=0.5,
    ),
    "hybrid of attention alone": lambda: Hybrid(7, [CachedAttention(6, heads=3, std=0.5)], hidden=5, std=0.5),
}

# Codes that a state snaps to, and their moves; each has seven codes and three letters.
CODE_MOVES: dict[str, Callable[[], CodeMoves]] = {
    "free": lambda: FreeMoves(7, 3, dim=5),
    "group, O": lambda: GroupMoves(Orthogonal(3), 7, 3),
    "group, U": lambda: GroupMoves(Unitary(2), 7, 3),
    "group, torus": lambda: GroupMoves(Torus(4), 7, 3),
}

GROUPS: dict[str, Callable[[], FiniteGroup]] = {
    "symmetric, one element": lambda: symmetric(1),
    "symmetric, two points": lambda: symmetric(2),
    "symmetric, three points": lambda: symmetric(3),
    "symmetric, four points": lambda: symmetric(4),
    "symmetric, five points": lambda: symmetric(5),
    "alternating, three points": lambda: alternating(3),
    "alternating, four points": lambda: alternating(4),
    "alternating, five points": lambda: alternating(5),
    "cyclic": lambda: cyclic(6),
    "dihedral, four corners": lambda: dihedral(4),
    "dihedral, five corners": lambda: dihedral(5),
    "quaternion": quaternion,
    "special linear": special_linear_2_3,
    "Heisenberg": lambda: heisenberg(3),
    "Heisenberg, modulus not prime": lambda: heisenberg(4),
    "product of two": lambda: direct_product(symmetric(3), symmetric(3)),
    "product of three": lambda: direct_product(cyclic(2), cyclic(3), quaternion()),
    "generated, order 20": lambda: generated_by(
        [from_cycles(5, range(5)), from_cycles(5, (1, 2, 4, 3))], name="Frobenius"
    ),
    "quotient": lambda: symmetric(4).quotient((0, 7, 16, 23)),
}

MATRIX_GROUPS: dict[str, Callable[[], MatrixGroup]] = {
    "orthogonal, the plane": lambda: Orthogonal(2),
    "orthogonal": lambda: Orthogonal(5),
    "special orthogonal, the plane": lambda: SpecialOrthogonal(2),
    "special orthogonal": lambda: SpecialOrthogonal(5),
    "unitary, the circle": lambda: Unitary(1),
    "unitary": lambda: Unitary(4),
    "special unitary, two dimensions": lambda: SpecialUnitary(2),
    "special unitary": lambda: SpecialUnitary(4),
    "torus, the circle": lambda: Torus(1),
    "torus": lambda: Torus(5),
}

TASKS: dict[str, Callable[[], Task]] = {
    "words in the generators": lambda: WordProblem(alternating(5), length=12),
    "words in all elements": lambda: WordProblem(symmetric(3), length=12, alphabet="all", seed=3),
    "words of one letter": lambda: WordProblem(cyclic(2), length=1),
    "words with held-out pairs": lambda: HeldOutPairs(
        WordProblem(symmetric(3), length=12, alphabet="all", seed=3), pairs=((1, 2), (4, 1)), forced=2
    ),
    "characters of one text": lambda: Characters(Corpus.cut("".join(map(str, range(3000)))), context=8, seed=3),
    "characters of separate texts": lambda: Characters(Corpus("áb\n𝔸" * 60, "b𝔸" * 60), context=1),
    "expressions over lists": lambda: ListOps(depth=4, arguments=5, shortest=6, longest=24, seed=3),
    "packed tokens": lambda: PackedTokens(
        torch.arange(5000) % 50, torch.arange(900) % 49, context=8, entries=50, special=(0, 2), seed=3
    ),
    "packed tokens, fewer rows than a batch": lambda: PackedTokens(
        torch.arange(20) % 7, torch.arange(101) % 7, context=1, entries=7
    ),
}

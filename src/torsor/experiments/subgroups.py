"""Subgroups of U(d): character models whose state is an element of a group, and their baselines."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from torsor.experiments.character_texts import require_text
from torsor.experiments.experiment import Experiment, with_defaults

if TYPE_CHECKING:
    from torch import nn

    from torsor.experiments.study import Study
    from torsor.groups import MatrixGroup
    from torsor.layers import MixingKind

Split = Literal["80-10-10", "90-5-5", "90-10"]
Kind = Literal["group-transformer", "transformer", "group-rnn", "group-rnn-from-token", "lstm"]
GroupName = Literal["O", "SO", "U", "SU", "T"]
MixingName = Literal["identity", "bch", "third-order", "linear"]


def characters(
    *,
    text: str = "tiny-shakespeare",
    split: Split = "80-10-10",
    model: Kind = "group-transformer",
    width: int = 16,
    group: GroupName = "O",
    mixing: MixingName = "linear",
    layers: int = 2,
    heads: int = 1,
    reflected: float = 0.5,
    context: int = 128,
    updates: int = 4500,
    batch: int = 64,
    learning_rate: float = 5e-3,
    weight_decay: float = 0.0,
    warmup: int = 100,
    decay: float = 1.0,
    clip: float = 1.0,
    seed: int = 0,
    optimizer: Literal["adamw", "muon"] = "adamw",
) -> "Study":
    """Name the next character of a text.

    The protocol is ours where the paper's is not known; ``docs/papers.md`` says which is which.

    Args:
        text: tiny-shakespeare or penn-treebank, which torsor data fetch brings, or a UTF-8 file of your own.
        split: how one text is cut into training, validation and test; Penn Treebank comes in three files.
        model: the paper's model or its baseline, attention or recurrence; group-rnn moves the state towards the token,
            group-rnn-from-token the token towards the state.
        width: size of the state: of the group's matrices, of the baseline's vectors.
        group: orthogonal, special orthogonal, unitary, special unitary, or the torus of so many phases.
        mixing: what tangents of a group model go through.
        layers: of the two transformers.
        heads: of the baseline transformer.
        reflected: probability that an element of O(d) lies in its second component.
        context: characters of a training window.
        updates: optimizer updates.
        batch: windows per update.
        learning_rate: peak rate.
        weight_decay: decay of matrices by AdamW.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        seed: seed of weights and batches.
        optimizer: adamw, or muon for the matrices of linear mixing and of the transformer's hidden layers.
    """
    from torsor.experiments.character_study import character_study

    study = character_study(
        lambda vocabulary: model_of(model, vocabulary, width, group, mixing, layers, heads, reflected, seed),
        carried=model in RECURRENT,
        text=text,
        split=split,
        context=context,
        updates=updates,
        batch=batch,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        warmup=warmup,
        decay=decay,
        clip=clip,
        seed=seed,
    )
    if optimizer == "adamw":
        return study
    from torsor.experiments.muon_of_states import muon_of_states

    if weight_decay:
        raise ValueError(f"weight_decay must be 0 with muon, got {weight_decay}")
    return replace(study, label=f"{study.label}, by Muon", optimizer=muon_of_states(study.model, learning_rate))


RECURRENT = ("group-rnn", "group-rnn-from-token", "lstm")


def model_of(
    kind: Kind,
    vocabulary: int,
    width: int,
    group: GroupName,
    mixing: MixingName,
    layers: int,
    heads: int,
    reflected: float,
    seed: int,
) -> "tuple[nn.Module, str]":
    """The model of these arguments of ``characters``, and its row's name in a table."""
    from torsor.layers import move_from_token
    from torsor.models import LSTM, GroupRNN, GroupTransformer, Transformer

    match kind:
        case "transformer":
            return Transformer(vocabulary, width, layers, heads, seed=seed), f"Transformer (ALiBi), width {width}"
        case "lstm":
            return LSTM(vocabulary, width, seed=seed), f"LSTM, {width} units"
        case "group-transformer":
            states, mix, label = _group(group, width), _mixing(mixing), f"OSMFormer on {group}({width}), {mixing}"
            return GroupTransformer(states, vocabulary, layers, mix, reflected=reflected, seed=seed), label
        case "group-rnn":
            states, mix, label = _group(group, width), _mixing(mixing), f"OSM-RNN on {group}({width}), {mixing}"
            return GroupRNN(states, vocabulary, mix, reflected=reflected, seed=seed), label
        case "group-rnn-from-token":
            states, mix, move = _group(group, width), _mixing(mixing), move_from_token
            label = f"OSM-RNN on {group}({width}), {mixing}, from the token"
            return GroupRNN(states, vocabulary, mix, reflected=reflected, recurrence=move, seed=seed), label


def _group(name: GroupName, width: int) -> "MatrixGroup":
    from torsor.groups import Orthogonal, SpecialOrthogonal, SpecialUnitary, Torus, Unitary

    match name:
        case "O":
            return Orthogonal(width)
        case "SO":
            return SpecialOrthogonal(width)
        case "U":
            return Unitary(width)
        case "SU":
            return SpecialUnitary(width)
        case "T":
            return Torus(width)


def _mixing(name: MixingName) -> "MixingKind":
    from torsor.layers import BCHMixing, IdentityMixing, LinearMixing, ThirdOrderMixing

    match name:
        case "identity":
            return IdentityMixing
        case "bch":
            return BCHMixing
        case "third-order":
            return ThirdOrderMixing
        case "linear":
            return LinearMixing


CHARACTERS = (
    Experiment(
        "subgroups/tiny-shakespeare-100k",
        "Tiny Shakespeare, some 100,000 parameters: a transformer with orthogonal states, or the baseline.",
        with_defaults(characters, text="tiny-shakespeare"),
        checks={"text": require_text},
        added=("optimizer",),
    ),
    Experiment(
        "subgroups/penn-treebank-100k",
        "Penn Treebank as raw characters, some 100,000 parameters.",
        with_defaults(characters, text="penn-treebank", width=17),
        checks={"text": require_text},
        added=("optimizer",),
    ),
    Experiment(
        "subgroups/tiny-shakespeare-recurrent",
        "Tiny Shakespeare, some 52,000 parameters: a recurrent network with an orthogonal state, or an LSTM.",
        with_defaults(characters, text="tiny-shakespeare", model="group-rnn"),
        checks={"text": require_text},
        added=("optimizer",),
    ),
)

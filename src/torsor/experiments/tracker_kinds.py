"""The models that learn to track states, by name, with the sizes and rates that each is tried with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

if TYPE_CHECKING:
    from torch import nn

TrackerKind = Literal[
    "codes", "group-codes", "gru", "lstm", "tanh", "m2rnn", "group-rnn", "rotations", "delta-product", "transformer"
]


@final
@dataclass(frozen=True)
class TrackerDefaults:
    """What a kind is tried with where nothing else is asked for.

    Args:
        width: of vectors; of matrices for group-codes, group-rnn and rotations.
        layers: of those that have them.
        learning_rate: peak rate of AdamW.
    """

    width: int
    layers: int
    learning_rate: float


DEFAULTS: dict[TrackerKind, TrackerDefaults] = {
    "codes": TrackerDefaults(64, 1, 1e-2),
    "group-codes": TrackerDefaults(6, 1, 2e-2),
    "gru": TrackerDefaults(128, 1, 5e-3),
    "lstm": TrackerDefaults(128, 1, 3e-3),
    "tanh": TrackerDefaults(128, 1, 1e-3),
    "m2rnn": TrackerDefaults(64, 1, 3e-3),
    "group-rnn": TrackerDefaults(12, 1, 1e-2),
    "rotations": TrackerDefaults(3, 1, 1e-2),
    "delta-product": TrackerDefaults(64, 1, 3e-3),
    "transformer": TrackerDefaults(64, 4, 1e-3),
}


def tracker(
    kind: TrackerKind, letters: int, classes: int, width: int, layers: int, seed: int
) -> "tuple[nn.Module, str]":
    """The model, which reads the letters and a begin token, and its row's name in a table.

    Args:
        kind: which.
        letters: how many there are; the begin token comes after them.
        classes: elements of the group.
        width: as in ``TrackerDefaults``.
        layers: as there.
        seed: of the initial values.

    Raises:
        ValueError: when a size is refused by the model, or a transformer has more classes than tokens.
    """
    import torch

    from torsor.groups import Orthogonal, SpecialOrthogonal
    from torsor.layers import DeltaProductLayer, FreeMoves, GroupMoves, LinearMixing, move_by_drive
    from torsor.models import GroupRNN, Hybrid, SnappedRNN, TanhRNN, Transformer

    vocabulary, generator = letters + 1, torch.Generator().manual_seed(seed)
    match kind:
        case "codes":
            moves = FreeMoves(classes, letters, width, generator=generator)
            return SnappedRNN(moves), f"snapped to {classes} vectors of {width}"
        case "group-codes":
            moves = GroupMoves(Orthogonal(width), classes, letters, generator=generator)
            return SnappedRNN(moves), f"snapped to {classes} elements of O({width})"
        case "tanh":
            return TanhRNN(vocabulary, width, classes=classes, seed=seed), f"tanh RNN, {width} units"
        case "rotations":
            model = GroupRNN(
                SpecialOrthogonal(width), vocabulary, LinearMixing, classes=classes, recurrence=move_by_drive, seed=seed
            )
            with torch.no_grad():
                for weight in model.mixing.parameters():
                    weight.zero_()  # from the identity the state turns at every letter, whatever it is
            return model, f"OSM-RNN on SO({width}), moved by its drives"
        case "delta-product":
            mixers = [DeltaProductLayer(width, generator=generator) for _ in range(layers)]
            model = Hybrid(vocabulary, mixers, classes=classes, std=0.2, seed=seed)
            return model, f"DeltaProduct, {layers} layers, width {width}"
        case "transformer":
            if classes > vocabulary:
                raise ValueError(f"a transformer must have as many tokens as classes = {classes}, got {vocabulary}")
            return Transformer(vocabulary, width, layers, 4, seed=seed), f"Transformer, {layers} layers, width {width}"
        case _:
            from torsor.experiments.recurrent_kinds import RecurrentSizes, recurrent_model

            sizes = RecurrentSizes(width, layers, heads=4, key_dim=16, value_dim=16, hidden=2 * width, std=0.2)
            return recurrent_model(kind, sizes, vocabulary, classes, seed)

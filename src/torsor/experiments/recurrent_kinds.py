"""The recurrent models that an experiment chooses by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

if TYPE_CHECKING:
    from torch import nn

RecurrentKind = Literal["m2rnn", "gru", "lstm", "rotrnn", "group-rnn", "group-rnn-from-token"]


@final
@dataclass(frozen=True)
class RecurrentSizes:
    """Sizes of a recurrent model; each kind reads those that it has.

    Args:
        width: of the residual stream of m2rnn and rotrnn, of the state of the others.
        layers: of m2rnn and rotrnn.
        heads: states of an m2rnn layer, rates of a rotrnn layer.
        key_dim: rows of a state of m2rnn.
        value_dim: columns of a state of m2rnn.
        hidden: of the position-wise layers of m2rnn; 0 for 8/3 of the width, up to a multiple of 64.
        std: size of the initial matrices of m2rnn.
        timestep: bounds of the time steps of its forget gates at the start.
    """

    width: int
    layers: int
    heads: int
    key_dim: int
    value_dim: int
    hidden: int
    std: float
    timestep: tuple[float, float] = (1e-3, 0.1)  # as published


def recurrent_model(
    kind: RecurrentKind, sizes: RecurrentSizes, vocabulary: int, classes: int, seed: int
) -> "tuple[nn.Module, str]":
    """The model, whose calls give logits and a state to go on from, and its row's name in a table.

    Args:
        kind: which; the states of the two group RNNs are orthogonal matrices, and their mixing is linear.
        sizes: of the model.
        vocabulary: number of tokens.
        classes: number of logits.
        seed: of the initial values.

    Raises:
        ValueError: when a size is refused by the model.
    """
    from torsor.groups import Orthogonal
    from torsor.layers import M2RNNStart, MatrixHeads, move_from_token
    from torsor.models import GRU, LSTM, M2RNN, GroupRNN, RotRNN

    width, layers, heads = sizes.width, sizes.layers, sizes.heads
    match kind:
        case "m2rnn":
            made = MatrixHeads.multi_value(heads, key_dim=sizes.key_dim, value_dim=sizes.value_dim)
            start = M2RNNStart(std=sizes.std, convolution_std=sizes.std, timestep=sizes.timestep)
            model = M2RNN(vocabulary, width, layers, made, classes=classes, hidden=sizes.hidden, start=start, seed=seed)
            return model, f"M²RNN, {layers} x {heads} states of {sizes.key_dim} x {sizes.value_dim}, width {width}"
        case "gru":
            return GRU(vocabulary, width, classes=classes, seed=seed), f"GRU, {width} units"
        case "lstm":
            return LSTM(vocabulary, width, classes=classes, seed=seed), f"LSTM, {width} units"
        case "rotrnn":
            model = RotRNN(vocabulary, width, heads, layers=layers, classes=classes, seed=seed)
            return model, f"RotRNN, {layers} x {heads} rates, width {width}"
        case "group-rnn":
            model = GroupRNN(Orthogonal(width), vocabulary, classes=classes, seed=seed)
            return model, f"OSM-RNN on O({width}), linear"
        case "group-rnn-from-token":
            group = Orthogonal(width)
            model = GroupRNN(group, vocabulary, classes=classes, recurrence=move_from_token, seed=seed)
            return model, f"OSM-RNN on O({width}), linear, from the token"

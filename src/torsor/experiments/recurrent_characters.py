"""Characters by recurrent models of one size: M²RNN and RotRNN beside a state on a group and an LSTM."""

from typing import TYPE_CHECKING

from torsor.experiments.character_texts import require_text
from torsor.experiments.experiment import Experiment
from torsor.experiments.recurrent_kinds import RecurrentKind
from torsor.experiments.subgroups import Split

if TYPE_CHECKING:
    from torsor.experiments.study import Study


def recurrent_characters(
    *,
    text: str = "tiny-shakespeare",
    split: Split = "80-10-10",
    model: RecurrentKind = "m2rnn",
    width: int = 64,
    layers: int = 2,
    heads: int = 4,
    key_dim: int = 16,
    value_dim: int = 16,
    hidden: int = 152,
    std: float = 0.1,
    context: int = 128,
    updates: int = 1500,
    batch: int = 64,
    learning_rate: float = 5e-3,
    weight_decay: float = 0.0,
    warmup: int = 100,
    decay: float = 1.0,
    clip: float = 1.0,
    seed: int = 0,
) -> "Study":
    """Name the next character of a text with a recurrent model of some 100,000 parameters.

    Args:
        text: tiny-shakespeare or penn-treebank, which torsor data fetch brings, or a UTF-8 file of your own.
        split: how one text is cut into training, validation and test; Penn Treebank comes in three files.
        model: which; the states of group-rnn and group-rnn-from-token are orthogonal matrices.
        width: of the residual stream of m2rnn and rotrnn; of the state of the others.
        layers: of m2rnn and rotrnn.
        heads: states of an m2rnn layer, rates of a rotrnn layer.
        key_dim: rows of a state of m2rnn.
        value_dim: columns of a state of m2rnn.
        hidden: of the position-wise layers of m2rnn; 0 for 8/3 of the width, up to a multiple of 64.
        std: size of the initial matrices of m2rnn.
        context: characters of a training window.
        updates: optimizer updates.
        batch: windows per update.
        learning_rate: peak rate of AdamW.
        weight_decay: decay of matrices.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        seed: seed of weights and batches.
    """
    from torsor.experiments.character_study import character_study
    from torsor.experiments.recurrent_kinds import RecurrentSizes, recurrent_model

    sizes = RecurrentSizes(width, layers, heads, key_dim, value_dim, hidden, std)
    return character_study(
        lambda vocabulary: recurrent_model(model, sizes, vocabulary, vocabulary, seed),
        carried=True,
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


RECURRENT_CHARACTERS = (
    Experiment(
        "recurrent/tiny-shakespeare",
        "Tiny Shakespeare, some 100,000 parameters: M²RNN, RotRNN, a state on a group, an LSTM, a GRU.",
        recurrent_characters,
        presets={"paper": {"updates": 4500}},
        checks={"text": require_text},
    ),
)

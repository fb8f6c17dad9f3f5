"""How much the two transformers of Subgroups of U(d) depend on the optimizer: one experiment for any of five."""

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from torsor.experiments.character_texts import require_text
from torsor.experiments.experiment import Experiment
from torsor.experiments.subgroups import Split, model_of

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from torsor.experiments.study import Study

OptimizerName = Literal["adamw", "adam", "rmsprop", "sgd", "muon"]


def optimizers(
    *,
    text: str = "tiny-shakespeare",
    split: Split = "80-10-10",
    model: Literal["group-transformer", "transformer"] = "group-transformer",
    width: int = 26,
    layers: int = 2,
    heads: int = 1,
    optimizer: OptimizerName = "adamw",
    learning_rate: float = 5e-3,
    context: int = 128,
    updates: int = 200,
    batch: int = 16,
    warmup: int = 20,
    decay: float = 1.0,
    clip: float = 1.0,
    seed: int = 0,
) -> "Study":
    """Name the next character of a text, trained by one of five optimizers.

    Args:
        text: tiny-shakespeare or penn-treebank, which torsor data fetch brings, or a UTF-8 file of your own.
        split: how one text is cut into training, validation and test.
        model: the paper's model on O(d) with linear mixing, or its baseline.
        width: of the group's matrices, or of the baseline's vectors.
        layers: of the model.
        heads: of the baseline.
        optimizer: adamw, adam, rmsprop, sgd with a momentum of 0.9, or muon for the matrices of hidden layers.
        learning_rate: peak rate.
        context: characters of a training window.
        updates: optimizer updates.
        batch: windows per update.
        warmup: updates of linear warm-up.
        decay: fraction of the updates over which the rate falls to zero.
        clip: largest norm of the gradient.
        seed: seed of weights and batches.
    """
    from torsor.experiments.character_study import character_study

    study = character_study(
        lambda vocabulary: model_of(model, vocabulary, width, "O", "linear", layers, heads, 0.5, seed),
        carried=False,
        text=text,
        split=split,
        context=context,
        updates=updates,
        batch=batch,
        learning_rate=learning_rate,
        weight_decay=0.0,
        warmup=warmup,
        decay=decay,
        clip=clip,
        seed=seed,
    )
    chosen = _optimizer(optimizer, study.model, learning_rate)
    return replace(study, label=f"{study.label}, {layers} layers, {optimizer}", optimizer=chosen)


def _optimizer(name: OptimizerName, model: "nn.Module", rate: float) -> "Optimizer":
    import torch

    from torsor.experiments.muon_of_states import muon_of_states
    from torsor.training import adamw

    match name:
        case "adamw":
            return adamw(model, rate)
        case "adam":
            return torch.optim.Adam(model.parameters(), lr=rate)
        case "rmsprop":
            return torch.optim.RMSprop(model.parameters(), lr=rate)
        case "sgd":
            return torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        case "muon":
            return muon_of_states(model, rate)


OPTIMIZERS = (
    Experiment(
        "subgroups/optimizers",
        "Tiny Shakespeare, some 500,000 parameters, short runs: adamw, adam, rmsprop, sgd or muon.",
        optimizers,
        presets={"paper": {"updates": 4500, "batch": 64, "warmup": 100}},
        checks={"text": require_text},
    ),
)

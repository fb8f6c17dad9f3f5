"""Muon for character models: for the matrices that act on states, and for no others."""

from torch import nn
from torch.optim import Optimizer

from torsor.layers import LinearMixing
from torsor.models import Transformer
from torsor.training import muon
from torsor.training.muon import MuonAdamW
from torsor.training.optimizer import adamw_groups_of, trainable


def muon_of_states(model: nn.Module, rate: float) -> Optimizer:
    """Muon for the matrices of linear mixing, or of the baseline transformer's hidden layers; AdamW for the rest.

    Args:
        model: a group model, or the baseline transformer.
        rate: peak rate of both.

    Raises:
        ValueError: when the model has no such matrix.
    """
    if isinstance(model, Transformer):
        return muon(model, rate, by_adamw=[model.embedding, model.readout])
    matrices = [weight for part in model.modules() if isinstance(part, LinearMixing) for weight in part.weights]
    if not matrices:
        raise ValueError("optimizer must be adamw for a model without linear mixing, got muon")
    others = {p: decays for p, decays in trainable(model).items() if not any(p is matrix for matrix in matrices)}
    return MuonAdamW(matrices, adamw_groups_of(others, 0.0), rate, rate, 0.95, (0.8, 0.95), 0.0, "adamw")

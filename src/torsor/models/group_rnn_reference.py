"""The recurrent model on a group by plain formulae: what its speed and gradients are compared with."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.layers.group_table import GroupTable
from torsor.layers.recurrent_move import move_to_token
from torsor.models.group_rnn import GroupRNN


def group_rnn_reference(
    model: GroupRNN, tokens: Int[Tensor, "batch length"]
) -> Float[Tensor, "batch length vocabulary"]:
    """The logits of a model of ``move_to_token``, token by token, with PyTorch's matrix exponential.

    Raises:
        ValueError: when the model moves in another way.
    """
    if model.recurrence is not move_to_token:
        raise ValueError("the reference is written for move_to_token")
    group, logits = model.group, []

    def elements(table: GroupTable) -> Tensor:
        return group.element(table.raw, table.component)

    prototypes = group.flatten(elements(model.readout.prototypes))
    inputs, state = elements(model.embedding)[tokens], model.initial_state(len(tokens))
    for place, token in enumerate(tokens.unbind(1)):
        towards = group.to_coordinates(group.compose(group.inverse(state), inputs[:, place]))
        tangent = group.from_coordinates(model.mixing(towards, model.drive[token]))
        square = len(group.shape) == 2
        state = state @ torch.linalg.matrix_exp(tangent) if square else state * torch.exp(tangent)
        logits.append(group.flatten(state) @ prototypes.mT + model.readout.bias)
    return torch.stack(logits, dim=1)

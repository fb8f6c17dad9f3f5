"""Every kind of model that can be handed to other programs."""

from typing import Any

from torch import nn

from torsor.interop.family import Family, Form, named
from torsor.interop.group_rnn_form import GROUP_RECURRENCE
from torsor.interop.group_transformer_form import GROUP_ATTENTION
from torsor.interop.hybrid_form import MIXED
from torsor.interop.looped_form import LOOPED
from torsor.interop.m2rnn_form import MATRICES
from torsor.interop.one_hot_form import GATED, LONG_MEMORY, PLAIN
from torsor.interop.rotrnn_form import ROTATIONS
from torsor.interop.transformer_form import ATTENTION
from torsor.kinds import kind_of

FAMILIES = (LOOPED, MATRICES, MIXED, ROTATIONS, GROUP_ATTENTION, GROUP_RECURRENCE, ATTENTION, LONG_MEMORY, GATED, PLAIN)


def family_named(name: Any) -> Family:
    """The family of this name.

    Raises:
        ValueError: when there is none.
    """
    return named("family", {family.name: family for family in FAMILIES}, name)


def family_of(model: nn.Module) -> Family:
    """The family that a model belongs to.

    Raises:
        ValueError: when it belongs to none.
    """
    for family in FAMILIES:
        if isinstance(model, family.kind):
            return family
    raise ValueError(f"{kind_of(model)} cannot be exported; {', '.join(each.name for each in FAMILIES)} can")


def form_of(model: nn.Module) -> Form:
    """A model as JSON holds it, without its weights.

    Raises:
        ValueError: when the model or one of its parts cannot be exported.
    """
    family = family_of(model)
    return {"family": family.name} | family.form(model)

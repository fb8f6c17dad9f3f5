"""Group recurrent networks as JSON holds them, without their weights."""

from torsor.interop.family import Family, Form, name_of, named
from torsor.interop.group_form import group_form, group_from
from torsor.interop.reading import ReadingOn
from torsor.layers.recurrent_move import (
    RecurrentMove,
    move_by_drive,
    move_from_token,
    move_then_multiply,
    move_to_token,
)
from torsor.models.group_rnn import GroupRNN

MOVES: dict[str, RecurrentMove] = {
    "to token": move_to_token,
    "from token": move_from_token,
    "then multiply": move_then_multiply,
    "by drive": move_by_drive,
}


def group_rnn_form(model: GroupRNN) -> Form:
    """The form of a group recurrent network.

    Raises:
        ValueError: when its group, mixing or move is not the package's own.
    """
    move = name_of("recurrence", MOVES, model.recurrence)
    classes = model.readout.prototypes.count
    return {"vocabulary": model.vocabulary, "classes": classes, "move": move} | group_form(model.group, model.mixing)


def group_rnn_from(form: Form) -> GroupRNN:
    """The group recurrent network of a form.

    Raises:
        ValueError: when a part is not known, or a size is refused.
    """
    group, mixing = group_from(form)
    move = named("move", MOVES, form["move"])
    return GroupRNN(group, form["vocabulary"], mixing, classes=form["classes"], recurrence=move)


GROUP_RECURRENCE = Family(
    "group RNN",
    GroupRNN,
    "torsor.interop.group_rnn_form.GROUP_RECURRENCE",
    group_rnn_form,
    group_rnn_from,
    ReadingOn,
)

"""Matrix groups and mixings as JSON holds them."""

from torsor.groups import MatrixGroup, Orthogonal, SpecialOrthogonal, SpecialUnitary, Torus, Unitary
from torsor.interop.family import Form, name_of, named
from torsor.layers.mixing import BCHMixing, IdentityMixing, LinearMixing, Mixing, MixingKind
from torsor.layers.third_order_mixing import ThirdOrderMixing

GROUPS: dict[str, type[MatrixGroup]] = {
    "O": Orthogonal,
    "SO": SpecialOrthogonal,
    "U": Unitary,
    "SU": SpecialUnitary,
    "T": Torus,
}
MIXINGS: dict[str, type[Mixing]] = {
    "identity": IdentityMixing,
    "BCH": BCHMixing,
    "BCH, third order": ThirdOrderMixing,
    "linear": LinearMixing,
}


def group_form(group: MatrixGroup, mixing: Mixing) -> Form:
    """A group and a kind of mixing by their names.

    Raises:
        ValueError: when one of them has none.
    """
    return {
        "group": name_of("group", GROUPS, type(group)),
        "dim": group.dim,
        "mixing": name_of("mixing", MIXINGS, type(mixing)),
    }


def group_from(form: Form) -> tuple[MatrixGroup, MixingKind]:
    """The group and the kind of mixing of a form.

    Raises:
        ValueError: when one is not known, or the dimension is refused.
    """
    return named("group", GROUPS, form["group"])(form["dim"]), named("mixing", MIXINGS, form["mixing"])

"""Transitions as JSON holds them, without their parameters."""

from torsor.interop.family import Form, name_of, named
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Exponential, Free, Householder, Transition
from torsor.transitions.hold import Hold, euler, exact_hold

HOLDS: dict[str, Hold] = {"euler": euler, "exact": exact_hold}
CHARTS = {"cayley": Cayley, "householder": Householder, "exponential": Exponential}


def transition_form(transition: Transition) -> Form:
    """What a transition is made from; its parameters are stored beside it.

    Raises:
        ValueError: when it is of a kind, or has a hold, that the form has no name for.
    """
    match transition:
        case BlockConformal():
            return {
                "kind": "conformal",
                "dim": transition.dim,
                "groups": transition.groups,
                "pairing": transition.pairing,
                "frozen": not transition.frequency.requires_grad,
                "hold": name_of("hold", HOLDS, transition.hold),
            }
        case BlockDecay():
            hold = name_of("hold", HOLDS, transition.hold)
            return {"kind": "decay", "dim": transition.dim, "groups": transition.groups, "hold": hold}
        case Cayley() | Householder() | Exponential():
            kind = name_of("transition", CHARTS, type(transition))
            return {"kind": kind, "dim": transition.dim, "groups": transition.groups}
        case Free():
            return {"kind": "free", "dim": transition.dim}
    raise ValueError(f"transition must be one of the package's own to be exported, got {type(transition).__name__}")


def transition_from(form: Form) -> Transition:
    """The transition of a form, at its initial values.

    Raises:
        ValueError: when the form names what is not known, or a size is refused.
    """
    match form["kind"]:
        case "conformal":
            hold = named("hold", HOLDS, form["hold"])
            return BlockConformal(
                form["dim"], form["groups"], pairing=form["pairing"], frozen=form["frozen"], hold=hold
            )
        case "decay":
            return BlockDecay(form["dim"], form["groups"], hold=named("hold", HOLDS, form["hold"]))
        case "free":
            return Free(form["dim"])
        case kind:
            return named("kind of transition", CHARTS, kind)(form["dim"], form["groups"])

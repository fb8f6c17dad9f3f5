"""The transitions that an experiment offers by name: the only place where a word chooses one."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torsor.transitions import Transition

TransitionKind = Literal["diagonal", "tied", "conformal", "untied", "cayley", "householder", "exponential", "free"]


def transition_of(
    kind: TransitionKind, width: int, groups: int, frequency_base: float, seed: int
) -> "tuple[Transition, str]":
    """A transition and its row's name in a table.

    Args:
        kind: which.
        width: of the residual stream.
        groups: groups of coordinates that share one rate.
        frequency_base: base of the geometric frequencies.
        seed: of a chart's initial values.
    """
    from torsor.transitions import BlockConformal, BlockDecay, Cayley, Exponential, Free, Geometric, Householder

    plural = "group" if groups == 1 else "groups"
    match kind:
        case "diagonal":
            return BlockDecay(width, groups=width), "diagonal"
        case "tied":
            return BlockDecay(width, groups=groups), f"tied rates, {groups} {plural}, no rotation"
        case "conformal":
            frequencies = Geometric(frequency_base)
            return BlockConformal(width, groups=groups, frequencies=frequencies), f"conformal, {groups} {plural}"
        case "untied":
            frequencies = Geometric(frequency_base)
            return BlockConformal(width, groups=width // 2, frequencies=frequencies), "rotation, rates untied"
        case "cayley":
            return Cayley(width, groups=groups, seed=seed), f"Cayley, {groups} {plural}"
        case "householder":
            return Householder(width, groups=groups, seed=seed), f"Householder, {groups} {plural}"
        case "exponential":
            return Exponential(width, groups=groups, seed=seed), f"exponential, {groups} {plural}"
        case "free":
            return Free(width, seed=seed), "free matrix"

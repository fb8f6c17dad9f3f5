"""What must be a finite group, and the name of one is not."""

from torsor.groups.finite import FiniteGroup
from torsor.kinds import kind_of


def require_finite_group(group: FiniteGroup) -> None:
    """Refuse what is no finite group.

    Raises:
        ValueError: when it is none; a name is answered with the call that makes the group.
    """
    if isinstance(group, str):
        raise ValueError(f"group must be a FiniteGroup, got {group!r}: torsor.groups.named({group!r}) makes one")
    if not isinstance(group, FiniteGroup):
        raise ValueError(f"group must be a FiniteGroup, got {kind_of(group)}")

"""Groups by their written names, as a command line gives them."""

import re
from collections.abc import Callable
from difflib import get_close_matches

from torsor.groups.families import (
    alternating,
    cyclic,
    dihedral,
    heisenberg,
    quaternion,
    special_linear_2_3,
    symmetric,
)
from torsor.groups.finite import FiniteGroup
from torsor.groups.product import direct_product
from torsor.kinds import shown

_FAMILIES: dict[str, Callable[[int], FiniteGroup]] = {
    "S": symmetric,
    "A": alternating,
    "C": cyclic,
    "Z": cyclic,
    "D": dihedral,
    "H": heisenberg,
}
_SINGLE: dict[str, Callable[[], FiniteGroup]] = {"Q8": quaternion, "SL(2,3)": special_linear_2_3}
_ADMISSIBLE = "S1 .. S7, A1 .. A7, C1 .. C10000 (or Z), D3 .. D5000 (Dn has order 2n), H2 .. H21, Q8, SL(2,3)"


def named(name: str) -> FiniteGroup:
    """The finite group with this name.

    ==============  =====================================================
    "S5", "A5"      symmetric and alternating groups
    "C6" or "Z6"    cyclic groups
    "D4"            dihedral groups: Dn has order 2n
    "Q8"            the quaternion group
    "SL(2,3)"       the special linear group
    "H3"            Heisenberg groups
    "S3xS3", ...    direct products of these
    ==============  =====================================================

    The result's own ``name`` is written in the same way.

    Raises:
        ValueError: when a name is none of these, with the nearest that is.

    Example:
        >>> named("A4xZ5").order
        60
    """
    if not isinstance(name, str):
        raise ValueError(f"group must be named by a string such as 'S3', got {shown(name)}")
    factors = []
    for part in name.split("x"):
        family = re.fullmatch(r"([SACZDH])([0-9]{1,5})", part)
        if family:
            factors.append(_FAMILIES[family[1]](int(family[2])))
        elif part in _SINGLE:
            factors.append(_SINGLE[part]())
        else:
            raise ValueError(
                f"group must be {_ADMISSIBLE}, or a product such as S3xC2, got {name!r}{_nearest(part) if name else ''}"
            )
    return factors[0] if len(factors) == 1 else direct_product(*factors)


def _nearest(part: str) -> str:
    """What may have been meant by a part of a name, ready to be put behind an error."""
    if not part:
        return "; a group's name must stand on both sides of an x"
    right = [*_SINGLE, *(f"{letter}{n}" for letter in _FAMILIES for n in range(3, 8))]
    return f"; nearest to {part!r}: {get_close_matches(part.upper(), right, n=1, cutoff=0)[0]}"

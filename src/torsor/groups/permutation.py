"""Single permutations in one-line notation, and the group that some of them generate."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import index

import numpy as np
from jaxtyping import Int

from torsor.groups.finite import FiniteGroup, require_order
from torsor.kinds import shown


def from_cycles(degree: int, *cycles: Sequence[int]) -> tuple[int, ...]:
    r"""The permutation with these disjoint cycles, in one-line notation.

    The cycle :math:`(a\ b\ c)` sends :math:`a` to :math:`b`, :math:`b` to :math:`c` and :math:`c` to :math:`a`.

    Args:
        degree: number of points; those in no cycle stay.
        cycles: each a sequence of points, all different and in ``0 .. degree - 1``.

    Raises:
        ValueError: when ``degree`` is no integer, a point is out of range or stands twice.

    Example:
        >>> from_cycles(5, (0, 1, 2))
        (1, 2, 0, 3, 4)
    """
    if isinstance(degree, bool) or not isinstance(degree, int):
        raise ValueError(f"degree must be an integer, got {shown(degree)}")
    points = [point for cycle in cycles for point in cycle]
    if len(set(points)) != len(points) or not all(0 <= point < degree for point in points):
        raise ValueError(f"cycles must be disjoint and hold points in 0 .. {degree - 1}, got {cycles}")
    images = list(range(degree))
    for cycle in cycles:
        for place, point in enumerate(cycle):
            images[point] = cycle[(place + 1) % len(cycle)]
    return tuple(images)


def side_by_side(*permutations: Iterable[int]) -> list[int]:
    """One permutation that acts as each of these on points of its own: first those of the first."""
    images: list[int] = []
    for permutation in permutations:
        first = len(images)
        images += [first + image for image in permutation]
    return images


def generated_by(permutations: Sequence[Sequence[int]] | Int[np.ndarray, "count degree"], name: str) -> FiniteGroup:
    """The group that some permutations generate, by breadth-first search from the identity.

    Args:
        permutations: one or more, in one-line notation, of one degree. They become the
            ``generators``, in this order, repetitions left out.
        name: the name of the group.

    Raises:
        ValueError: when there is no permutation, one is not a permutation, degrees differ, or the
            group has more than 10,000 elements (found out before any table is built).

    Example:
        >>> generated_by([from_cycles(4, (0, 1, 2, 3)), from_cycles(4, (0, 2))], name="square").order
        8
    """
    rows = _rows(permutations)
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"permutations must be one or more of one degree, got {rows}")
    degree = len(rows[0])
    for row in rows:
        if degree == 0 or sorted(row) != list(range(degree)):
            raise ValueError(f"a permutation must hold each of 0 .. degree - 1 exactly once, got {row}")
    # Big-endian, so that the bytes of two permutations compare as the permutations do.
    generators = [np.array(row, dtype=">u4") for row in rows]
    identity = np.arange(degree, dtype=">u4")
    met, queue = {identity.tobytes()}, [identity]
    for element in queue:  # grows while it is walked
        for generator in generators:
            product = generator[element]
            key = product.tobytes()
            if key not in met:
                require_order(len(met) + 1, name)
                met.add(key)
                queue.append(product)
    keys = sorted(met)
    elements = np.frombuffer(b"".join(keys), dtype=">u4").reshape(-1, degree).astype(np.int32)
    indices = dict.fromkeys(bisect_left(keys, generator.tobytes()) for generator in generators)
    return FiniteGroup(elements, tuple(indices), name)


def _rows(permutations: Sequence[Sequence[int]] | Int[np.ndarray, "count degree"]) -> list[tuple[int, ...]]:
    try:
        return [tuple(map(index, permutation)) for permutation in permutations]
    except TypeError as error:
        rule = "permutations must be sequences of integers, such as [(1, 2, 0), (1, 0, 2)]"
        raise ValueError(f"{rule}, got {shown(permutations)}") from error

"""Subgroups, cosets and classes, read off a multiplication table."""

# A subgroup is the sorted tuple of its elements. ``table[g, h]`` is "g, then h" and element 0 is the identity.
# Lists of subgroups are sorted by order, then lexicographically.

from collections.abc import Collection, Sequence
from math import gcd
from typing import Literal

import numpy as np
from jaxtyping import Bool, Int

Table = Int[np.ndarray, "order order"]
Inverses = Int[np.ndarray, "order"]
Elements = tuple[int, ...]
Side = Literal["left", "right"]


def generated_subgroup(table: Table, elements: Collection[int]) -> Elements:
    """The smallest subgroup that holds ``elements``; of no elements, the identity alone."""
    return _sorted_elements(_join(table, (0,), tuple(elements)))


def all_subgroups(table: Table) -> tuple[Elements, ...]:
    """Every subgroup, by order, then lexicographically.

    A subgroup is a join of cyclic ones, so every subgroup is met by adding one generator at a time,
    beginning with the trivial subgroup.
    """
    return _joins(table, [(z,) for z in _cyclic_generators(table)])


def normal_subgroups(table: Table, inverses: Inverses) -> tuple[Elements, ...]:
    """Every normal subgroup, by order, then lexicographically: the joins of whole conjugacy classes."""
    return _joins(table, conjugacy_classes(table, inverses)[1:])


def conjugacy_classes(table: Table, inverses: Inverses) -> tuple[Elements, ...]:
    r"""The classes :math:`\{x^{-1} g x\}`, by their smallest elements: the identity's comes first."""
    everything = np.arange(len(table))
    met = np.zeros(len(table), bool)
    classes = []
    for g in everything:
        if not met[g]:
            members = np.unique(table[table[inverses, g], everything])
            met[members] = True
            classes.append(tuple(members.tolist()))
    return tuple(classes)


def commutator_subgroup(table: Table, inverses: Inverses, generators: Sequence[int]) -> Elements:
    r"""The subgroup :math:`[G, G]` that all :math:`[g, h] = g^{-1} h^{-1} g h` generate.

    Those with ``h`` a generator suffice: by :math:`[g, h]^x = [g x, h] [x, h]^{-1}` they generate a
    normal subgroup, and modulo it every generator commutes with everything.
    """
    commutators = [table[table[inverses, inverses[h]], table[:, h]] for h in generators]
    return generated_subgroup(table, np.unique(commutators).tolist())


def coset_index(table: Table, subgroup: Collection[int], side: Side) -> Int[np.ndarray, "order"]:
    """The number of each element's coset; cosets are numbered by their smallest elements."""
    members = list(subgroup)
    smallest = table[members].min(axis=0) if side == "right" else table[:, members].min(axis=1)
    return np.unique(smallest, return_inverse=True)[1].astype(table.dtype)


def is_subgroup(table: Table, elements: Collection[int]) -> bool:
    """Whether ``elements`` are not empty and closed under products; in a finite group that is enough."""
    members = np.array(sorted(elements), dtype=table.dtype)
    inside = np.zeros(len(table), bool)
    inside[members] = True
    return bool(members.size and inside[table[np.ix_(members, members)]].all())


def is_normal(table: Table, subgroup: Collection[int]) -> bool:
    """Whether left and right cosets are the same."""
    return np.array_equal(coset_index(table, subgroup, "left"), coset_index(table, subgroup, "right"))


def coset_permutations(table: Table, cosets: Int[np.ndarray, "order"]) -> Int[np.ndarray, "cosets cosets"]:
    r"""Row ``k`` is the permutation :math:`N q \mapsto N q k` of the cosets of a normal subgroup."""
    representatives = np.unique(cosets, return_index=True)[1]
    return cosets[table[np.ix_(representatives, representatives)]].T


def _cyclic_generators(table: Table) -> list[int]:
    """One generator, the smallest, for each cyclic subgroup but the trivial one."""
    met = np.zeros(len(table), bool)
    generators = []
    for z in range(1, len(table)):
        if not met[z]:
            powers = [z]
            while powers[-1] != 0:
                powers.append(int(table[powers[-1], z]))
            met[[power for k, power in enumerate(powers, 1) if gcd(k, len(powers)) == 1]] = True
            generators.append(z)
    return generators


def _joins(table: Table, atoms: Sequence[Elements]) -> tuple[Elements, ...]:
    """Every subgroup that some of the ``atoms`` generate together.

    Either each atom is one element, or each is a whole conjugacy class.
    """
    generators: dict[Elements, Elements] = {(0,): ()}
    queue = list(generators)
    for subgroup in queue:  # grows while it is walked
        members = np.array(subgroup)
        known = np.zeros(len(table), bool)
        known[members] = True
        for atom in atoms:
            if known[atom[0]]:
                continue
            # h z and z h generate with the subgroup what z generates with it.
            known[table[members, atom[0]]] = True
            known[table[atom[0], members]] = True
            joined = _sorted_elements(_join(table, subgroup, generators[subgroup] + atom))
            if joined not in generators:
                generators[joined] = generators[subgroup] + atom
                queue.append(joined)
    return tuple(sorted(queue, key=lambda subgroup: (len(subgroup), subgroup)))


def _join(table: Table, subgroup: Elements, generators: Elements) -> Bool[np.ndarray, "order"]:
    """Which elements a subgroup generates, together with more ``generators``.

    ``generators`` include those of the subgroup. The result grows by whole right cosets ``H r``
    (Dimino's algorithm), and is closed once ``r s`` is inside for each representative ``r`` and generator ``s``.
    """
    members = np.array(subgroup)
    steps = np.array(generators, dtype=np.intp)
    inside = np.zeros(len(table), bool)
    inside[members] = True
    representatives = [0]
    for r in representatives:  # grows while it is walked
        for t in table[r, steps]:
            if not inside[t]:
                inside[table[members, t]] = True
                representatives.append(t)
        if 2 * len(members) * len(representatives) > len(table):
            inside[:] = True  # by Lagrange: more than half of the group is all of it
            break
    return inside


def _sorted_elements(inside: Bool[np.ndarray, "order"]) -> Elements:
    return tuple(np.flatnonzero(inside).tolist())

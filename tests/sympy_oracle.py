"""Finite groups as sympy sees them: an independent implementation with the same order of products."""

from collections.abc import Iterable

from sympy.combinatorics import Permutation, PermutationGroup

from torsor.groups import FiniteGroup


def in_sympy(group: FiniteGroup, elements: Iterable[int] | None = None) -> PermutationGroup:
    """The group that some elements generate, by default the group's own generators."""
    chosen = group.generators if elements is None else elements
    return PermutationGroup([Permutation(group.permutations[x].tolist()) for x in chosen])


def from_sympy(group: FiniteGroup, permutations: Iterable[Permutation]) -> tuple[int, ...]:
    """The same elements as sorted indices."""
    return tuple(sorted(group.index(permutation.array_form) for permutation in permutations))

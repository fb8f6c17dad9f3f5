"""Subgroups, cosets, classes and quotients of every finite group in the register."""

from itertools import combinations

import numpy as np
import pytest

from cases import GROUPS
from refusal import refused
from sympy_oracle import from_sympy, in_sympy
from torsor.groups import FiniteGroup, named, symmetric

every_group = pytest.mark.parametrize("name", GROUPS)
sides = pytest.mark.parametrize("side", ["left", "right"])


def closed(group: FiniteGroup, elements) -> bool:
    return all(int(product) in elements for product in group.table[np.ix_(list(elements), list(elements))].flat)


@every_group
def test_every_subgroup_is_closed_and_the_list_is_sorted_by_order_then_lexicographically(name):
    group = GROUPS[name]()
    subgroups = group.subgroups()
    assert list(subgroups) == sorted(set(subgroups), key=lambda subgroup: (len(subgroup), subgroup))
    assert subgroups[0] == (0,)
    assert subgroups[-1] == tuple(range(group.order))
    for subgroup in subgroups:
        assert list(subgroup) == sorted(set(subgroup))
        assert closed(group, set(subgroup))
        assert group.is_subgroup(subgroup)
        assert group.order % len(subgroup) == 0


@pytest.mark.parametrize("name", ["S3", "C6", "C7", "C8", "D4", "Q8", "C2xC2xC2", "C2xC4"])
def test_the_subgroups_of_a_small_group_are_its_closed_subsets(name):
    group = named(name)
    rest = range(1, group.order)
    subsets = [{0, *some} for size in range(group.order) for some in combinations(rest, size)]
    assert {tuple(sorted(subset)) for subset in subsets if closed(group, subset)} == set(group.subgroups())
    assert all(group.is_subgroup(subset) == closed(group, subset) for subset in subsets)


@pytest.mark.parametrize(
    ("name", "count", "normal"),
    [
        ("S3", 6, 3),
        ("S4", 30, 4),
        ("S5", 156, 3),
        ("A4", 10, 3),
        ("A5", 59, 2),
        ("C12", 6, 6),
        ("D4", 10, 6),
        ("D5", 8, 3),
        ("D6", 16, 7),
        ("D60", 16 + 168 - 4, 12 + 3),  # the divisors of 60 and their sum; its normal ones
        ("Q8", 6, 6),
        ("SL(2,3)", 15, 4),
        ("H3", 19, 7),
        ("S3xS3", 60, 10),
        ("A5xC2", 164, 4),
        ("C2xC2xC2", 16, 16),
        ("C2xC2xC2xC2xC2xC2", 2825, 2825),
    ],
)
def test_there_are_as_many_subgroups_as_the_literature_counts(name, count, normal):
    assert len(named(name).subgroups()) == count
    assert len(named(name).normal_subgroups()) == normal


@every_group
def test_the_normal_subgroups_are_the_subgroups_that_conjugation_keeps(name):
    group = GROUPS[name]()
    table, inverses = group.table, group.inverse(np.arange(group.order))
    kept = []
    for subgroup in group.subgroups():
        conjugates = table[table[np.ix_(inverses, subgroup)], np.arange(group.order)[:, None]]
        kept += [subgroup] if (np.sort(conjugates, axis=1) == subgroup).all() else []
        assert group.is_normal(subgroup) == (kept[-1] == subgroup)
    assert group.normal_subgroups() == tuple(kept)


@every_group
def test_conjugacy_classes_and_commutator_subgroup_are_those_of_sympy(name):
    group = GROUPS[name]()
    oracle = in_sympy(group)
    classes = [from_sympy(group, members) for members in oracle.conjugacy_classes()]
    assert list(group.conjugacy_classes()) == sorted(classes)
    derived = oracle.derived_subgroup()
    assert group.commutator_subgroup() == from_sympy(group, derived.elements)


@every_group
def test_the_commutator_subgroup_is_generated_by_all_commutators(name):
    group = GROUPS[name]()
    table, inverses = group.table, group.inverse(np.arange(group.order))
    commutators = table[table[inverses[:, None], inverses[None, :]], table]
    assert group.commutator_subgroup() == group.generated_subgroup(np.unique(commutators).tolist())


@every_group
def test_a_generated_subgroup_is_the_smallest_that_holds_its_generators(name):
    group = GROUPS[name]()
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 2, 3):
        some = rng.integers(group.order, size=size).tolist()
        holding = [set(subgroup) for subgroup in group.subgroups() if set(some) <= set(subgroup)]
        assert set(group.generated_subgroup(some)) == set.intersection(*holding)


@sides
@every_group
def test_cosets_cut_the_group_into_parts_of_equal_size(name, side):
    group = GROUPS[name]()
    for subgroup in group.subgroups():
        cosets = group.cosets(subgroup, side)
        assert cosets[0] == subgroup
        assert {len(coset) for coset in cosets} == {len(subgroup)}
        assert sorted(g for coset in cosets for g in coset) == list(range(group.order))
        assert list(cosets) == sorted(cosets)
        index = group.coset_index(subgroup, side)
        assert all((index[list(coset)] == k).all() for k, coset in enumerate(cosets))


@every_group
def test_right_cosets_are_h_q_and_left_cosets_are_q_h(name):
    group = GROUPS[name]()
    for subgroup in group.subgroups()[:: 1 + len(group.subgroups()) // 12]:
        for q in range(group.order):
            right = tuple(sorted(group.compose(h, q) for h in subgroup))
            left = tuple(sorted(group.compose(q, h) for h in subgroup))
            assert right in group.cosets(subgroup, "right")
            assert left in group.cosets(subgroup, "left")


@every_group
def test_reading_a_letter_permutes_right_cosets_but_left_ones_only_of_normal_subgroups(name):
    group = GROUPS[name]()
    for subgroup in group.subgroups():
        for side in ("right", "left"):
            index = group.coset_index(subgroup, side)
            # q -> q x respects the cosets if the coset of q x is a function of that of q
            respected = all(
                len(np.unique(np.stack([index, index[group.table[:, x]]]), axis=1).T) == group.order // len(subgroup)
                for x in group.generators
            )
            assert respected == (side == "right" or group.is_normal(subgroup))


@every_group
def test_the_quotient_multiplies_cosets(name):
    group = GROUPS[name]()
    for normal in group.normal_subgroups():
        quotient, index = group.quotient(normal), group.coset_index(normal, "right")
        assert quotient.order * len(normal) == group.order
        assert np.array_equal(quotient.table[index[:, None], index[None, :]], index[group.table])
        assert set(quotient.generators) == set(index[list(group.generators)].tolist())


def test_the_commutator_subgroup_is_the_smallest_with_a_commutative_quotient():
    for name in ("S3", "S4", "S5", "A4", "A5", "D4", "Q8", "SL(2,3)", "H3", "C6"):
        group = named(name)
        commutative = [
            normal for normal in group.normal_subgroups() if np.array_equal((t := group.quotient(normal).table), t.T)
        ]
        assert commutative[0] == group.commutator_subgroup()


S3 = symmetric(3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: S3.cosets((0, 1, 3), "right"), r"must form a subgroup of S3, got \(0, 1, 3\)"),
        (lambda: S3.coset_index((), "right"), r"must form a subgroup of S3, got \(\)"),
        (lambda: S3.cosets((0, 1), "both"), "side must be 'left' or 'right', got 'both'"),
        (lambda: S3.quotient((0, 1)), r"only a normal subgroup of S3 has a quotient, got \(0, 1\)"),
        (lambda: S3.quotient((1, 2)), r"must form a subgroup of S3, got \(1, 2\)"),
        (lambda: S3.is_normal((0, 6)), "elements of S3 must be in 0 .. 5, got"),
        (lambda: S3.is_subgroup((-1, 0)), "elements of S3 must be in 0 .. 5, got"),
        (lambda: S3.generated_subgroup((9,)), "elements of S3 must be in 0 .. 5, got"),
    ],
)
def test_what_is_no_subgroup_is_refused_in_one_line(build, message):
    with refused(message):
        build()


def test_a_subgroup_may_be_given_in_any_order_and_as_any_collection():
    for same in ((0, 3, 4), (4, 0, 3, 3), frozenset({0, 3, 4}), np.array([4, 3, 0]).tolist()):
        assert S3.cosets(same, "left") == ((0, 3, 4), (1, 2, 5))
        assert S3.quotient(same).order == 2

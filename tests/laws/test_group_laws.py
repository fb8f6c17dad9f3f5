"""Laws of every finite group in the register; sympy, which also reads products left to right, is the oracle."""

import copy
import pickle

import numpy as np
import pytest
import torch
from sympy.combinatorics import Permutation

from cases import GROUPS
from refusal import refused
from sympy_oracle import from_sympy, in_sympy
from torsor.groups import FiniteGroup, cyclic, symmetric

every_group = pytest.mark.parametrize("name", GROUPS)


@every_group
def test_products_are_associative(name):
    table = GROUPS[name]().table
    everything = np.arange(len(table))
    for g in everything:  # (g h) k = g (h k) for all h, k
        assert np.array_equal(table[table[g]], table[g, table])


@every_group
def test_the_identity_is_element_0_and_changes_nothing(name):
    group = GROUPS[name]()
    assert group.identity == 0
    assert group.permutations[0].tolist() == list(range(group.degree))
    for g in range(group.order):
        assert group.compose(0, g) == g == group.compose(g, 0)


@every_group
def test_the_inverse_undoes_on_both_sides(name):
    group = GROUPS[name]()
    for g in range(group.order):
        assert group.compose(g, group.inverse(g)) == 0 == group.compose(group.inverse(g), g)


def test_the_table_becomes_a_tensor_by_a_copy_without_a_warning():
    group = symmetric(3)
    written = torch.tensor(group.table)
    written[0, 0] = 5
    assert group.table[0, 0] == 0


@every_group
def test_every_row_and_every_column_of_the_table_holds_every_element(name):
    group = GROUPS[name]()
    for table in (group.table, group.table.T):
        assert (np.sort(table, axis=1) == np.arange(group.order)).all()


@every_group
def test_the_product_of_two_permutations_applies_the_left_one_first(name):
    group = GROUPS[name]()
    p = group.permutations.tolist()
    for g in range(0, group.order, 1 + group.order // 20):
        for h in range(group.order):
            assert p[group.table[g, h]] == [p[h][p[g][i]] for i in range(group.degree)]


@every_group
def test_products_are_those_of_sympy(name):
    group = GROUPS[name]()
    images = [Permutation(row) for row in group.permutations.tolist()]
    for g in range(0, group.order, 1 + group.order // 8):
        for h in range(0, group.order, 1 + group.order // 30):
            assert (images[g] * images[h]).array_form == group.permutations[group.compose(g, h)].tolist()


def test_the_opposite_product_is_another_one():
    table = symmetric(3).table
    assert not np.array_equal(table, table.T)
    p = symmetric(3).permutations
    assert p[table[2, 3]].tolist() == p[3][p[2]].tolist() != p[2][p[3]].tolist()


@every_group
def test_elements_are_in_the_lexicographic_order_of_one_line_notation(name):
    group = GROUPS[name]()
    rows = [tuple(row) for row in group.permutations.tolist()]
    assert rows == sorted(set(rows))
    assert [group.index(row) for row in rows] == list(range(group.order))


@every_group
def test_the_elements_are_those_that_sympy_generates(name):
    group = GROUPS[name]()
    oracle = in_sympy(group)
    assert oracle.order() == group.order
    assert from_sympy(group, oracle.elements) == tuple(range(group.order))


@every_group
def test_the_generators_generate_and_no_smaller_subgroup_holds_them(name):
    group = GROUPS[name]()
    assert group.generated_subgroup(group.generators) == tuple(range(group.order))
    assert len(set(group.generators)) == len(group.generators)
    reached, waiting = {0}, [0]
    while waiting:
        g = waiting.pop()
        for x in group.generators:
            if (product := group.compose(g, x)) not in reached:
                reached.add(product)
                waiting.append(product)
    assert len(reached) == group.order


@every_group
def test_arrays_compose_element_by_element_and_broadcast(name):
    group = GROUPS[name]()
    g, h = np.arange(group.order)[:, None], np.arange(group.order)[None, :]
    assert np.array_equal(group.compose(g, h), group.table)
    assert np.array_equal(group.compose(g, group.inverse(g)), np.zeros_like(g))
    assert type(group.compose(0, np.int64(0))) is int is type(group.inverse(np.int32(0)))


@every_group
def test_nothing_of_a_group_can_be_written_to_nor_of_its_copies(name):
    group = GROUPS[name]()
    for one in (group, copy.deepcopy(group), pickle.loads(pickle.dumps(group))):
        assert np.array_equal(one.table, group.table)
        assert (one.name, one.generators) == (group.name, group.generators)
        for array in (one.table, one.permutations, one.coset_index((0,), "right")):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
        with pytest.raises(AttributeError):
            one.name = "another"


def test_the_rows_that_a_group_was_built_from_stay_the_callers():
    rows = np.array([[0, 1], [1, 0]], dtype=np.int32)
    group = FiniteGroup(rows, (1,), "C2")
    rows[0] = 7
    assert group.permutations.tolist() == [[0, 1], [1, 0]]


TURNS = cyclic(4).permutations


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: FiniteGroup(TURNS[:, :3], (1,), "x"), "rows that each hold every one of 0 .. degree - 1"),
        (lambda: FiniteGroup(TURNS[:0], (1,), "x"), "rows that each hold"),
        (lambda: FiniteGroup(TURNS[0], (0,), "x"), "rows that each hold"),
        (lambda: FiniteGroup(TURNS[::-1], (1,), "x"), "different and in lexicographic order"),
        (lambda: FiniteGroup(TURNS[[0, 1, 1]], (1,), "x"), "different and in lexicographic order"),
        (lambda: FiniteGroup(TURNS[:3], (1,), "x"), "closed under products"),
        (lambda: FiniteGroup(TURNS[1:], (0,), "x"), "closed under products"),
        (lambda: FiniteGroup(TURNS, (), "x"), "generators must be some of 0 .. 3"),
        (lambda: FiniteGroup(TURNS, (4,), "x"), "generators must be some of 0 .. 3"),
        (lambda: FiniteGroup(TURNS, (-1,), "x"), "generators must be some of 0 .. 3"),
        (lambda: FiniteGroup(TURNS, (2,), "x"), "generators must generate all 4 elements"),
        (lambda: cyclic(4).compose(0, 4), "elements of C4 must be in 0 .. 3, got 4"),
        (lambda: cyclic(4).compose(-1, 0), "elements of C4 must be in 0 .. 3, got -1"),
        (lambda: cyclic(4).inverse(np.array([0, 4])), "elements of C4 must be in 0 .. 3"),
        (lambda: cyclic(4).index((1, 0, 3, 2)), "permutation must be an element of C4, got"),
        (lambda: cyclic(4).index((3, 2, 1, 0)), "permutation must be an element of C4, got"),
        (lambda: cyclic(4).index((0, 1, 2)), "permutation must be an element of C4, got"),
    ],
)
def test_what_is_no_group_or_no_element_is_refused_in_one_line(build, message):
    with refused(message):
        build()

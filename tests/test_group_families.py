"""The groups that have a name: the elements that their docstrings promise, and what is refused."""

import subprocess
import sys
from itertools import permutations, product

import numpy as np
import pytest

from refusal import refused
from torsor.groups import (
    alternating,
    cyclic,
    dihedral,
    direct_product,
    from_cycles,
    generated_by,
    heisenberg,
    named,
    quaternion,
    special_linear_2_3,
    symmetric,
)


@pytest.mark.parametrize("n", range(1, 8))
def test_the_symmetric_group_is_all_permutations_in_lexicographic_order(n):
    assert [tuple(row) for row in symmetric(n).permutations.tolist()] == list(permutations(range(n)))


@pytest.mark.parametrize("n", range(1, 8))
def test_the_alternating_group_is_the_permutations_with_evenly_many_inversions(n):
    even = [p for p in permutations(range(n)) if sum(a > b for i, b in enumerate(p) for a in p[:i]) % 2 == 0]
    assert [tuple(row) for row in alternating(n).permutations.tolist()] == even


def test_the_generators_are_the_standard_ones_in_their_order():
    def letters(group):
        return [tuple(group.permutations[x].tolist()) for x in group.generators]

    assert letters(alternating(5)) == [from_cycles(5, (0, 1, 2, 3, 4)), from_cycles(5, (0, 1, 2))]
    assert letters(alternating(4)) == [from_cycles(4, (1, 2, 3)), from_cycles(4, (0, 1, 2))]
    assert letters(symmetric(5)) == [from_cycles(5, (0, 1)), from_cycles(5, (0, 1, 2, 3, 4))]
    assert letters(symmetric(3)) == [from_cycles(3, (0, 1)), from_cycles(3, (0, 1, 2))]
    assert letters(dihedral(4)) == [(1, 2, 3, 0), (0, 3, 2, 1)]


def spheres(group):
    """How many elements are a product of 0, 1, 2, ... generators and of no fewer."""
    met, sphere, sizes = {0}, {0}, []
    while sphere:
        sizes.append(len(sphere))
        sphere = {group.compose(g, x) for g in sphere for x in group.generators} - met
        met |= sphere
    return sizes


def test_words_in_the_generators_of_a5_and_s5_reach_as_many_elements_as_in_the_literature():
    assert spheres(alternating(5)) == [1, 2, 4, 7, 12, 14, 11, 6, 3]
    assert spheres(symmetric(5)) == [1, 2, 3, 5, 8, 12, 15, 20, 22, 19, 11, 2]


@pytest.mark.parametrize("n", [1, 2, 12, 300])  # 300: a point takes more than one byte
def test_the_cyclic_group_adds_modulo_n(n):
    k = np.arange(n)
    assert np.array_equal(cyclic(n).table, (k[:, None] + k) % n)


@pytest.mark.parametrize("n", [3, 4, 7])
def test_the_dihedral_group_has_order_2n_and_sends_corner_0_to_every_corner_twice(n):
    group = dihedral(n)
    turn, flip = group.generators
    assert group.order == 2 * n
    assert group.permutations[:, 0].tolist() == [k // 2 for k in range(2 * n)]
    assert group.compose(flip, flip) == 0
    assert group.compose(group.compose(flip, turn), flip) == group.inverse(turn)


def test_the_quaternion_group_multiplies_unit_quaternions():
    def hamilton(a, b):
        (a0, a1, a2, a3), (b0, b1, b2, b3) = a, b
        return (
            a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3,
            a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2,
            a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1,
            a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0,
        )

    units = [tuple(sign * int(i == k) for i in range(4)) for sign in (1, -1) for k in range(4)]
    table = [[units.index(hamilton(a, b)) for b in units] for a in units]
    assert quaternion().table.tolist() == table


def test_the_special_linear_group_is_the_matrices_of_determinant_1_acting_on_row_vectors():
    vectors = list(product(range(3), repeat=2))[1:]
    matrices = [m for m in product(range(3), repeat=4) if (m[0] * m[3] - m[1] * m[2]) % 3 == 1]
    images = [
        tuple(vectors.index(((x * a + y * c) % 3, (x * b + y * d) % 3)) for x, y in vectors) for a, b, c, d in matrices
    ]
    group = special_linear_2_3()
    assert [tuple(row) for row in group.permutations.tolist()] == sorted(images)
    by_index = sorted(zip(images, matrices, strict=True))
    assert [by_index[x][1] for x in group.generators] == [(0, 2, 1, 0), (1, 1, 0, 1)]


@pytest.mark.parametrize("p", [2, 3, 4, 5])
def test_the_heisenberg_group_multiplies_unitriangular_matrices(p):
    a, b, c = (index.ravel() for index in np.indices((p, p, p)))
    matrices = np.zeros((p**3, 3, 3), int) + np.eye(3, dtype=int)
    matrices[:, 0, 1], matrices[:, 1, 2], matrices[:, 0, 2] = a, b, c
    products = matrices[:, None] @ matrices[None, :] % p
    index = (products[..., 0, 1] * p + products[..., 1, 2]) * p + products[..., 0, 2]
    group = heisenberg(p)
    assert np.array_equal(group.table, index)
    assert group.generators == (p * p, p)
    assert len(group.commutator_subgroup()) == p


def test_the_direct_product_multiplies_factor_by_factor_and_its_index_is_g_times_order_of_h_plus_h():
    first, second = symmetric(3), quaternion()
    both = direct_product(first, second)
    g, h = np.divmod(np.arange(48), 8)
    expected = first.table[g[:, None], g] * 8 + second.table[h[:, None], h]
    assert np.array_equal(both.table, expected)
    assert np.array_equal(both.permutations[:, :3], first.permutations[g])
    assert np.array_equal(both.permutations[:, 3:], 3 + second.permutations[h])
    assert both.generators == (2 * 8, 3 * 8, 1, 2)


def test_the_index_of_a_longer_product_is_a_number_of_mixed_radix():
    both = direct_product(cyclic(2), cyclic(3), cyclic(4))
    i, j, k = np.unravel_index(np.arange(24), (2, 3, 4))
    expected = [np.add.outer(x, x) % n for x, n in ((i, 2), (j, 3), (k, 4))]
    assert np.array_equal(both.table, np.ravel_multi_index(expected, (2, 3, 4)))


def test_generators_may_be_given_as_an_array():
    rows = symmetric(4).permutations[[9, 6]]
    assert generated_by(rows, "S4").generators == (9, 6)
    assert generated_by(rows.tolist(), "S4").order == 24


def test_repeated_generators_are_one_letter():
    assert generated_by([(1, 0), (1, 0), (0, 1)], "C2").generators == (1, 0)


@pytest.mark.parametrize("cycles", [[(0, 1, 2)], [(0, 3), (1, 2)], [], [(4,)]])
def test_a_cycle_sends_each_point_to_the_next(cycles):
    images = from_cycles(5, *cycles)
    moved = {a: b for cycle in cycles for a, b in zip(cycle, cycle[1:] + cycle[:1], strict=True)}
    assert images == tuple(moved.get(i, i) for i in range(5))


@pytest.mark.parametrize(
    "name", ["S1", "S3", "S5", "A5", "C6", "D4", "Q8", "SL(2,3)", "H3", "S3xS3", "A4xC5", "C2xQ8xSL(2,3)"]
)
def test_a_group_is_named_as_it_is_found(name):
    assert named(name).name == name


def test_z_is_another_name_for_c_and_d_n_has_order_2n():
    assert named("Z6").name == "C6"
    assert named("A4xZ5").order == 60
    assert named("D4").order == 8


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("s3", "S3"), ("B5", "A5"), ("SL23", "SL(2,3)"), ("S3x", "S3"), ("Q9", "Q8"), ("S3xq8", "Q8"), ("S-3", "S3")],
)
def test_an_unknown_name_is_answered_with_the_admissible_ones_and_the_nearest(name, nearest):
    with pytest.raises(ValueError, match=r"S1 \.\. S7, A1 \.\. A7, C1 \.\. C10000") as caught:
        named(name)
    message = str(caught.value)
    assert f"got {name!r}" in message
    assert "\n" not in message
    assert message.endswith(f": {nearest}") or name in {"B5", "S3x", "Q9"}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: symmetric(8), "n must be in 1 .. 7 for the symmetric group S_n.*, got 8"),
        (lambda: symmetric(0), "n must be in 1 .. 7 for the symmetric group S_n.*, got 0"),
        (lambda: alternating(10**9), "n must be in 1 .. 7 for the alternating group A_n.*, got 1000000000"),
        (lambda: cyclic(10**12), "n must be in 1 .. 10000 for the cyclic group C_n"),
        (lambda: dihedral(2), "n must be in 3 .. 5000 for the dihedral group D_n.*, got 2"),
        (lambda: heisenberg(1), "p must be in 2 .. 21 for the Heisenberg group modulo p.*, got 1"),
        (lambda: named("S99999"), "n must be in 1 .. 7"),
        (lambda: named("S6xS6"), "order of a finite group must be at most 10000, got at least 518400 for S6xS6"),
        (lambda: direct_product(), "factors must be one or more groups"),
        (lambda: generated_by([from_cycles(12, (0, 1)), from_cycles(12, range(12))], "S12"), "at most 10000, got at"),
        (lambda: generated_by([], "x"), "permutations must be one or more of one degree"),
        (lambda: generated_by([()], "x"), r"exactly once, got \(\)"),
        (lambda: generated_by([(0, 1), (0, 1, 2)], "x"), "permutations must be one or more of one degree"),
        (lambda: generated_by([(0, 0)], "x"), r"must hold each of 0 .. degree - 1 exactly once, got \(0, 0\)"),
        (lambda: generated_by([(1, 2)], "x"), r"must hold each of 0 .. degree - 1 exactly once, got \(1, 2\)"),
        (lambda: from_cycles(3, (0, 1), (1, 2)), "cycles must be disjoint and hold points in 0 .. 2"),
        (lambda: from_cycles(3, (0, 3)), "cycles must be disjoint and hold points in 0 .. 2"),
    ],
)
def test_what_is_no_group_or_too_large_is_refused_in_one_line(build, message):
    with refused(message):
        build()


def test_finite_groups_do_not_import_torch():
    code = "import sys; from torsor.groups import named; named('S3xQ8').table; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

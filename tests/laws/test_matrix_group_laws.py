"""Laws of every matrix group in the register; dense complex matrices and finite differences are the oracles."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import expm, helmert
from torch import nn

from cases import MATRIX_GROUPS
from closeness import assert_close
from refusal import refused
from register import concrete_subclasses
from torsor.groups import MatrixGroup, Orthogonal, SpecialOrthogonal, SpecialUnitary, Torus, Unitary

every_group = pytest.mark.parametrize("name", MATRIX_GROUPS)
seeds = st.integers(0, 2**16)


def drawn(seed=0):
    return torch.Generator().manual_seed(seed)


def ambient(group, *batch, seed=0):
    """Any matrices of the space that the group lies in."""
    return torch.randn(*batch, *group.shape, dtype=group.element_dtype(torch.float64), generator=drawn(seed))


def tangents(group, *batch, seed=0):
    return group.from_coordinates(torch.randn(*batch, group.algebra_dim, generator=drawn(seed)))


def dense(group, x):
    """The complex matrix of an element or of any other point, whatever it is stored as."""
    x = x.resolve_conj().to(torch.complex128)
    return torch.diag_embed(x) if isinstance(group, Torus) else x


def inner(group, x, y):
    """Re tr(X* Y), entry by entry of the dense matrices."""
    return (dense(group, x).conj() * dense(group, y)).sum((-2, -1)).real


def in_algebra(group, x):
    """How far a dense matrix is from the Lie algebra."""
    x = dense(group, x)
    missed = [(x + x.mH).abs().max()]
    if isinstance(group, SpecialUnitary):
        missed.append(x.diagonal(dim1=-2, dim2=-1).sum(-1).abs().max())
    if not group.is_complex:
        missed.append(x.imag.abs().max())
    return max(missed)


def test_every_matrix_group_is_in_the_register():
    assert {type(case()) for case in MATRIX_GROUPS.values()} == concrete_subclasses(MatrixGroup)


# A group


@every_group
@given(seed=seeds)
def test_products_are_associative_and_inverses_undo_on_both_sides(name, seed):
    group = MATRIX_GROUPS[name]()
    g, h, k = group.random((3, 2), drawn(seed))
    product, inverse, one = group.compose, group.inverse, group.identity
    assert_close(product(product(g, h), k), product(g, product(h, k)))
    assert torch.equal(product(one, g), g)
    assert torch.equal(product(g, one), g)
    for each in (product(g, inverse(g)), product(inverse(g), g)):
        assert_close(each, group.identity_like(g).expand_as(g))
    for each in (one, product(g, h), inverse(g)):
        assert group.distance(each).max() < 1e-12


@every_group
def test_the_product_is_that_of_the_matrices_and_the_inverse_the_adjoint(name):
    group = MATRIX_GROUPS[name]()
    g, h = group.random((2,), drawn())
    assert_close(dense(group, group.compose(g, h)), dense(group, g) @ dense(group, h))
    assert_close(dense(group, group.inverse(g)), dense(group, g).conj().transpose(-2, -1))
    row = torch.randn(1, g.shape[-1], dtype=torch.complex128)  # a state that is a row: first g, then h
    assert_close(row @ dense(group, group.compose(g, h)), (row @ dense(group, g)) @ dense(group, h))


@every_group
def test_batches_broadcast(name):
    group = MATRIX_GROUPS[name]()
    g, h = group.random((3, 1), drawn(0)), group.random((2,), drawn(1))
    product, relative = group.compose(g, h), group.relative(g, h)
    assert product.shape == (3, 2, *group.shape)
    assert relative.shape == (3, 2, group.algebra_dim)
    bracket = group.bracket(relative, relative[0])
    for i in range(3):
        for j in range(2):
            assert_close(product[i, j], group.compose(g[i, 0], h[j]))
            assert_close(relative[i, j], group.relative(g[i, 0], h[j]), 1e-11)
            assert_close(bracket[i, j] + 1, group.bracket(relative[i, j], relative[0, j]) + 1)
    assert group.exp(group.from_coordinates(relative)).shape == (3, 2, *group.shape)
    empty = torch.zeros(0, group.algebra_dim)
    assert group.exp(group.from_coordinates(empty)).shape == (0, *group.shape)
    assert group.element(torch.zeros(0, *group.raw_shape)).shape == (0, *group.shape)


@pytest.mark.parametrize(
    ("group", "algebra", "shape", "components", "ambient_dim"),
    [
        (Orthogonal(5), 10, (5, 5), 2, 25),
        (SpecialOrthogonal(5), 10, (5, 5), 1, 25),
        (Unitary(5), 25, (5, 5), 1, 50),
        (SpecialUnitary(5), 24, (5, 5), 1, 50),
        (Torus(5), 5, (5,), 1, 10),
    ],
)
def test_the_dimensions_are_those_of_the_group(group, algebra, shape, components, ambient_dim):
    assert (group.dim, group.algebra_dim, group.shape) == (5, algebra, shape)
    assert (group.components, group.ambient_dim) == (components, ambient_dim)
    raw = torch.randn(*group.raw_shape, generator=drawn())
    jacobian = torch.autograd.functional.jacobian(lambda raw: group.flatten(group.element(raw)), raw / 4)
    rank = torch.linalg.matrix_rank(jacobian.reshape(ambient_dim, -1), rtol=1e-9)
    assert rank == algebra  # the elements around one fill as many dimensions as the algebra has


def test_two_groups_of_one_kind_and_dim_are_one_value():
    assert Orthogonal(3) == Orthogonal(3) != Orthogonal(4)
    assert Orthogonal(3) != SpecialOrthogonal(3)
    assert len({Torus(2), Torus(2), Unitary(2)}) == 2
    assert repr(SpecialUnitary(3)) == "SpecialUnitary(dim=3)"


# The algebra


@every_group
@given(seed=seeds)
def test_the_projection_is_onto_the_algebra_idempotent_self_adjoint_and_orthogonal(name, seed):
    group = MATRIX_GROUPS[name]()
    a, b = ambient(group, 2, seed=seed)
    x = tangents(group, seed=seed + 1)
    assert in_algebra(group, group.project(a)) < 1e-14
    assert in_algebra(group, x) < 1e-14
    assert_close(group.project(x), x)
    assert_close(group.project(group.project(a)), group.project(a))
    assert_close(inner(group, group.project(a), b), inner(group, a, group.project(b)), 1e-11)
    assert abs(inner(group, a - group.project(a), x)) < 1e-12
    assert_close(group.project(a + 2 * b), group.project(a) + 2 * group.project(b))


@every_group
def test_the_projection_is_the_nearest_point_of_the_algebra(name):
    group = MATRIX_GROUPS[name]()
    a = ambient(group)
    basis = group.from_coordinates(torch.eye(group.algebra_dim))
    matrix = torch.stack([torch.view_as_real(dense(group, each)).flatten() for each in basis], dim=1)
    nearest = matrix @ torch.linalg.lstsq(matrix, torch.view_as_real(dense(group, a)).flatten()[:, None]).solution
    assert_close(torch.view_as_real(dense(group, group.project(a))).flatten(), nearest[:, 0])
    assert torch.linalg.matrix_rank(matrix) == group.algebra_dim


@every_group
@given(seed=seeds)
def test_coordinates_and_algebra_are_one_and_the_same_both_ways(name, seed):
    group = MATRIX_GROUPS[name]()
    u = torch.randn(3, group.algebra_dim, generator=drawn(seed))
    x = group.from_coordinates(u)
    assert_close(group.to_coordinates(x), u, 1e-14)
    assert_close(group.from_coordinates(group.to_coordinates(x)), x, 1e-14)
    a = ambient(group, 3, seed=seed)
    assert_close(group.from_coordinates(group.to_coordinates(a)), group.project(a), 1e-14)
    if not isinstance(group, SpecialUnitary):
        assert torch.equal(group.to_coordinates(x), u)


def test_the_coordinates_of_skew_symmetric_matrices_are_the_entries_above_the_diagonal():
    for group in (Orthogonal(4), SpecialOrthogonal(4)):
        x = group.from_coordinates(torch.arange(1.0, 7.0))
        assert x.tolist() == [[0, 1, 2, 3], [-1, 0, 4, 5], [-2, -4, 0, 6], [-3, -5, -6, 0]]


def test_the_coordinates_of_skew_hermitian_matrices_are_upper_real_upper_imaginary_and_diagonal():
    x = Unitary(3).from_coordinates(torch.arange(1.0, 10.0))
    assert x.tolist() == [[7j, 1 + 4j, 2 + 5j], [-1 + 4j, 8j, 3 + 6j], [-2 + 5j, -3 + 6j, 9j]]
    y = SpecialUnitary(3).from_coordinates(torch.arange(1.0, 9.0))
    assert_close(y.triu(1), x.triu(1))
    diagonal = torch.tensor([7.0, 8.0]) @ torch.from_numpy(helmert(3))
    assert_close(y.diagonal().imag, diagonal)
    assert torch.equal(y.diagonal().real, torch.zeros(3))


def test_the_coordinates_of_a_torus_are_its_phases():
    x = Torus(3).from_coordinates(torch.arange(1.0, 4.0))
    assert x.tolist() == [1j, 2j, 3j]


@every_group
@given(seed=seeds)
def test_the_bracket_is_that_of_the_matrices(name, seed):
    group = MATRIX_GROUPS[name]()
    u, v = torch.randn(2, 3, group.algebra_dim, generator=drawn(seed))
    x, y = (dense(group, group.from_coordinates(each)) for each in (u, v))
    bracket = group.bracket(u, v)
    scale = (x @ y).abs().max()
    assert ((x @ y - y @ x) - dense(group, group.from_coordinates(bracket))).abs().max() < 1e-13 * scale
    assert (bracket + group.bracket(v, u)).abs().max() < 1e-13 * scale
    assert group.bracket(u, u).abs().max() < 1e-13 * scale
    if group.algebra_dim == 1 or isinstance(group, Torus):
        assert bracket.abs().max() == 0
    else:
        assert bracket.abs().max() > 1e-3


# The charts


@every_group
@given(seed=seeds, size=st.sampled_from([1e-9, 0.3, 3.0, 30.0]))
def test_the_exponential_of_the_algebra_lies_on_the_group(name, seed, size):
    group = MATRIX_GROUPS[name]()
    x = size * tangents(group, 3, seed=seed)
    h = group.exp(x)
    assert group.distance(h).max() < 1e-12
    assert_close(dense(group, h), torch.linalg.matrix_exp(dense(group, x)), 1e-12 * max(1, size))
    assert_close(dense(group, h)[0], torch.from_numpy(expm(dense(group, x)[0].numpy())), 1e-12 * max(1, size))


@every_group
@given(seed=seeds, size=st.sampled_from([1e-9, 0.3, 3.0, 3e3]))
def test_the_cayley_transform_of_the_algebra_lies_on_the_group(name, seed, size):
    group = MATRIX_GROUPS[name]()
    x = size * tangents(group, 3, seed=seed)
    h = group.cayley(x)
    assert group.distance(h).max() < 1e-12 * max(1, size)
    assert_close(group.cayley(-x), group.inverse(h), 1e-12 * max(1, size))
    one = torch.eye(dense(group, x).shape[-1])
    expected = torch.linalg.inv(one - dense(group, x) / 2) @ (one + dense(group, x) / 2)
    if isinstance(group, SpecialUnitary):  # where a root of the determinant is left out
        root = torch.linalg.svd(expected.mH @ dense(group, h))
        assert_close(root.S, torch.ones_like(root.S), 1e-11 * max(1, size))
        expected = expected * ((expected.mH @ dense(group, h)).diagonal(dim1=-2, dim2=-1).mean(-1))[:, None, None]
    assert_close(dense(group, h), expected, 1e-11 * max(1, size))
    assert torch.equal(group.cayley(torch.zeros_like(x)), group.identity.expand_as(x))


@every_group
def test_cayley_and_the_exponential_agree_up_to_second_order(name):
    group = MATRIX_GROUPS[name]()
    x = tangents(group)
    apart = [
        torch.linalg.vector_norm(group.flatten(group.cayley(step * x) - group.exp(step * x))).item() / step**3
        for step in (0.02, 0.01)
    ]
    assert apart[0] > 1e-4  # in third order they do not
    assert apart[1] == pytest.approx(apart[0], rel=0.02)


def test_the_plain_cayley_transform_leaves_the_special_unitary_group_from_three_dimensions_on():
    for dim, leaves in ((2, False), (3, True)):
        x = tangents(SpecialUnitary(dim))
        assert (SpecialUnitary(dim).distance(Unitary(dim).cayley(x)) > 1e-2) == leaves
        assert SpecialUnitary(dim).distance(SpecialUnitary(dim).cayley(x)) < 1e-13


@every_group
def test_the_gradients_of_both_charts_pass_finite_differences(name):
    group = MATRIX_GROUPS[name]()
    u = torch.randn(2, group.algebra_dim, requires_grad=True)
    for chart in (group.exp, group.cayley):
        assert torch.autograd.gradcheck(lambda u, chart=chart: group.flatten(chart(group.from_coordinates(u))), u)


@every_group
def test_a_product_with_an_exponential_keeps_the_determinant(name):
    group = MATRIX_GROUPS[name]()
    h = group.random((8,), drawn())
    moved = group.compose(h, group.exp(tangents(group, 8)))
    before, after = (torch.linalg.det(dense(group, each)) for each in (h, moved))
    if isinstance(group, Orthogonal | SpecialOrthogonal | SpecialUnitary):
        assert_close(after, before)
    else:  # where determinants form a circle it is turned by the trace
        turn = dense(group, tangents(group, 8)).diagonal(dim1=-2, dim2=-1).sum(-1).exp()
        assert_close(after, before * turn)
        assert (after - before).abs().max() > 0.1


@every_group
def test_the_exponential_of_the_negative_is_the_inverse(name):
    group = MATRIX_GROUPS[name]()
    x = tangents(group, 3)
    assert_close(group.exp(-x), group.inverse(group.exp(x)))
    assert torch.equal(group.exp(torch.zeros_like(x)), group.identity.expand_as(x))


@every_group
@given(seed=seeds)
def test_relative_is_the_riemannian_gradient_of_the_inner_product_with_the_context(name, seed):
    group = MATRIX_GROUPS[name]()
    h, c = group.random((), drawn(seed)), ambient(group, seed=seed)
    x = tangents(group, seed=seed + 1)
    gradient = group.from_coordinates(group.relative(h, c))
    eps = 1e-5

    def similarity(step):
        return inner(group, c, group.compose(h, group.exp(step * x)))

    slope = (8 * (similarity(eps) - similarity(-eps)) - (similarity(2 * eps) - similarity(-2 * eps))) / (12 * eps)
    assert abs(slope - inner(group, gradient, x)) < 1e-9 * (1 + inner(group, x, x))
    assert_close(gradient, group.project(group.compose(group.inverse(h), c)))


@every_group
def test_relative_is_zero_at_the_context_and_linear_in_it(name):
    group = MATRIX_GROUPS[name]()
    h, (c, d) = group.random((), drawn()), ambient(group, 2)
    assert group.relative(h, h).abs().max() < 1e-14
    assert_close(group.relative(h, c - 3 * d) + 1, group.relative(h, c) - 3 * group.relative(h, d) + 1)
    moved = group.random((), drawn(1))  # and the same seen from anywhere
    assert_close(group.relative(group.compose(moved, h), group.compose(moved, c)) + 1, group.relative(h, c) + 1)


# Real numbers


@every_group
def test_flatten_keeps_the_inner_product_and_unflatten_undoes_it(name):
    group = MATRIX_GROUPS[name]()
    a, b = ambient(group, 2, 3)
    flat = group.flatten(a)
    assert flat.shape == (3, group.ambient_dim)
    assert flat.dtype == torch.float64
    assert_close((flat * group.flatten(b)).sum(-1), inner(group, a, b))
    assert torch.equal(group.unflatten(flat), a)
    assert_close((group.flatten(group.inverse(a)) * group.flatten(b)).sum(-1), inner(group, group.inverse(a), b))


@every_group
def test_an_element_is_the_exponential_of_the_projection_of_its_raw_numbers(name):
    group = MATRIX_GROUPS[name]()
    raw = torch.randn(6, *group.raw_shape, generator=drawn())
    a = torch.complex(raw[..., 0], raw[..., 1]) if raw.ndim == 4 else raw
    if isinstance(group, Torus):
        a = 1j * raw
    expected = group.exp(group.project(a))
    assert_close(group.element(raw), expected)
    assert torch.equal(group.element(raw, component=False), group.element(raw))
    assert group.distance(group.element(raw)).max() < 1e-13


@every_group
def test_parameters_are_real_so_that_half_precision_never_drops_an_imaginary_part(name):
    group = MATRIX_GROUPS[name]()
    module = nn.ParameterList([torch.randn(group.raw_shape)])
    assert not module[0].is_complex()
    module.to(torch.bfloat16)
    with refused("raw must be float32 or float64, got bfloat16"):
        group.element(module[0])
    module.to(torch.float32)
    assert group.element(module[0]).dtype == group.element_dtype(torch.float32)
    assert group.distance(group.element(module[0])) < 1e-5


def test_the_orthogonal_group_reaches_both_components_by_the_reflection_from_the_left():
    group = Orthogonal(5)
    raw = torch.randn(4, 2, 5, 5)
    component = torch.tensor([[True, False], [False, True], [True, True], [False, False]])
    h = group.element(raw, component)
    assert_close(torch.linalg.det(h), 1.0 - 2.0 * component)
    mirror = torch.diag(torch.tensor([-1.0, 1, 1, 1, 1]))
    for i, j in np.ndindex(4, 2):
        connected = torch.linalg.matrix_exp((raw[i, j] - raw[i, j].T) / 2)
        assert_close(h[i, j], mirror @ connected if component[i, j] else connected)
    assert torch.equal(group.element(raw, component=True)[0, 0], h[0, 0])
    assert torch.equal(group.element(raw, component=torch.tensor(True))[2], h[2])
    assert torch.equal(group.element(raw, component=False)[3], h[3])


# Distance and the Haar measure


@every_group
def test_the_distance_is_the_larger_of_what_the_adjoint_and_the_determinant_miss(name):
    group = MATRIX_GROUPS[name]()
    a = ambient(group, 3)
    matrix = dense(group, a)
    expected = (matrix.mH @ matrix - torch.eye(matrix.shape[-1])).abs().square().sum((-2, -1)).sqrt()
    if isinstance(group, SpecialOrthogonal | SpecialUnitary):
        expected = torch.maximum(expected, (torch.linalg.det(matrix) - 1).abs())
    assert_close(group.distance(a), expected)
    assert group.distance(group.identity) == 0
    assert group.distance(a.to(group.element_dtype(torch.float32))).dtype == torch.float64


def test_a_reflection_is_not_special_and_a_phase_is_not_either():
    reflection = torch.diag(torch.tensor([-1.0, 1, 1]))
    assert Orthogonal(3).distance(reflection) == 0
    assert SpecialOrthogonal(3).distance(reflection) == 2
    phase = torch.diag(torch.polar(torch.ones(3), torch.tensor([math.pi / 3, 0, 0])))
    assert Unitary(3).distance(phase) < 1e-15
    assert SpecialUnitary(3).distance(phase).item() == pytest.approx(1)


# The first moments of the trace: E tr, E |tr|^2, E |tr|^4 and E tr^2.
MOMENTS = {
    Orthogonal(5): (0, 1, 3, 1),
    SpecialOrthogonal(5): (0, 1, 3, 1),
    SpecialOrthogonal(2): (0, 2, 6, 2),
    Unitary(1): (0, 1, 1, 0),
    Unitary(4): (0, 1, 2, 0),
    SpecialUnitary(2): (0, 1, 2, 1),
    SpecialUnitary(4): (0, 1, 2, 0),
    Torus(5): (0, 5, 45, 0),
}


@pytest.mark.parametrize("group", MOMENTS, ids=repr)
def test_random_elements_have_the_moments_of_the_haar_measure(group):
    count = 20_000
    h = group.random((count,), drawn(3))
    assert group.distance(h).max() < 1e-12
    trace = dense(group, h).diagonal(dim1=-2, dim2=-1).sum(-1)
    for sample, expected in zip((trace, trace.abs() ** 2, trace.abs() ** 4, trace**2), MOMENTS[group], strict=True):
        error = 4 * math.sqrt(sample.abs().square().mean() / count)
        assert abs(sample.mean() - expected) < error, (sample.mean(), expected)
    for entry in dense(group, h)[:, 0, 0], dense(group, h)[:, -1, -1]:
        assert abs(entry.mean()) < 4 / math.sqrt(count)


@every_group
def test_random_elements_depend_on_their_generator_alone_and_on_no_type(name):
    group = MATRIX_GROUPS[name]()
    h = group.random((2, 3), drawn(5))
    assert h.shape == (2, 3, *group.shape)
    assert h.dtype == group.element_dtype(torch.float64)
    narrow = group.random((2, 3), drawn(5), dtype=torch.float32)
    assert narrow.dtype == group.element_dtype(torch.float32)
    assert_close(narrow.to(h.dtype), h, 1e-7)
    assert not torch.equal(group.random((2, 3), drawn(6)), h)
    assert group.random().shape == group.shape


def test_the_orthogonal_group_draws_from_both_components_alike():
    positive = (torch.linalg.det(Orthogonal(3).random((4000,), drawn())) > 0).double().mean()
    assert positive.item() == pytest.approx(0.5, abs=0.04)


# Types


@every_group
@pytest.mark.parametrize("real", [torch.float32, torch.float64])
def test_every_method_keeps_the_type_and_autocast_changes_nothing(name, real):
    group = MATRIX_GROUPS[name]()
    kind = group.element_dtype(real)
    h, c = group.random((2, 3), drawn(), dtype=real)

    def everything():
        u = group.relative(h, c)
        x = group.from_coordinates(u)
        raw = torch.ones(group.raw_shape, dtype=real)
        elements = [x, group.compose(h, c), group.inverse(h), group.exp(x), group.project(h), group.identity_like(h)]
        elements.append(group.cayley(x))
        elements += [group.element(raw), group.unflatten(group.flatten(h))]
        return elements, [u, group.bracket(u, u.flip(0)), group.to_coordinates(x), group.flatten(h)]

    elements, numbers = everything()
    assert {each.dtype for each in elements} == {kind}
    assert {each.dtype for each in numbers} == {real}
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = everything()
    for left, right in zip([*elements, *numbers], [*again[0], *again[1]], strict=True):
        assert torch.equal(left, right)
    torch.set_default_dtype(real)
    assert group.identity.dtype == kind


def test_the_identity_is_never_in_half_precision():
    torch.set_default_dtype(torch.bfloat16)
    assert Orthogonal(3).identity.dtype == Orthogonal(3).random().dtype == torch.float32
    assert Torus(3).identity.dtype == torch.complex64


# What is refused


@pytest.mark.parametrize(
    ("build", "least"), [(Orthogonal, 2), (SpecialOrthogonal, 2), (SpecialUnitary, 2), (Unitary, 1), (Torus, 1)]
)
def test_a_dim_without_an_algebra_is_refused_in_one_line(build, least):
    build(least)
    for dim in (least - 1, -3, 2.0, True, "3"):
        with refused(f"dim of {build.__name__} must be an integer of at least {least}, got {dim!r}"):
            build(dim)


@every_group
@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_half_precision_is_refused_in_one_line(name, half):
    group = MATRIX_GROUPS[name]()
    right = "complex64 or complex128" if group.is_complex else "float32 or float64"
    word = str(half).removeprefix("torch.")
    low, good = torch.ones(group.shape, dtype=half), group.identity
    u, flat = torch.ones(group.algebra_dim, dtype=half), torch.ones(group.ambient_dim, dtype=half)
    for call, argument in [
        (lambda: group.compose(low, good), "g"),
        (lambda: group.compose(good, low), "h"),
        (lambda: group.inverse(low), "g"),
        (lambda: group.project(low), "matrix"),
        (lambda: group.exp(low), "tangent"),
        (lambda: group.cayley(low), "tangent"),
        (lambda: group.to_coordinates(low), "tangent"),
        (lambda: group.relative(low, good), "element"),
        (lambda: group.relative(good, low), "context"),
        (lambda: group.flatten(low), "matrix"),
        (lambda: group.distance(low), "matrix"),
        (lambda: group.identity_like(low), "element"),
    ]:
        with refused(f"^{argument} must be {right}, got {word}$"):
            call()
    for call, argument in [
        (lambda: group.from_coordinates(u), "coordinates"),
        (lambda: group.bracket(u, u.double()), "u"),
        (lambda: group.bracket(u.double(), u), "v"),
        (lambda: group.unflatten(flat), "vector"),
        (lambda: group.element(torch.ones(group.raw_shape, dtype=half)), "raw"),
        (lambda: group.element_dtype(half), "real_dtype"),
        (lambda: group.random((), dtype=half), "real_dtype"),
    ]:
        with refused(f"^{argument} must be float32 or float64, got {word}$"):
            call()


@every_group
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_tangent_that_is_not_finite_is_refused_in_one_line_save_on_a_torus(name, value):
    group = MATRIX_GROUPS[name]()
    raw = torch.randn(3, *group.raw_shape)
    raw[1].view(-1)[-2 if raw[1].numel() > 1 else 0] = value
    if isinstance(group, Torus):
        assert not group.element(raw)[1].isfinite().all()
        assert group.element(raw)[0].isfinite().all()
        return
    with refused("tangent must be finite and of a norm below [0-9]+, got a bound of (nan|inf)"):
        group.element(raw)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Orthogonal(3).exp(torch.zeros(4, 4)), r"the last axes of tangent must be \(3, 3\), got .*\(4, 4\)"),
        (lambda: Torus(3).compose(torch.ones(2) + 0j, torch.ones(3) + 0j), r"the last axes of g must be \(3,\)"),
        (lambda: Orthogonal(3).from_coordinates(torch.zeros(2, 4)), r"the last axes of coordinates must be \(3,\)"),
        (lambda: Unitary(3).element(torch.zeros(3, 3)), r"the last axes of raw must be \(3, 3, 2\), got .*\(3, 3\)"),
        (lambda: Unitary(3).unflatten(torch.zeros(9)), r"the last axes of vector must be \(18,\), got shape \(9,\)"),
        (lambda: Unitary(3).project(torch.zeros(3, 3)), "matrix must be complex64 or complex128, got float64"),
        (lambda: Orthogonal(3).project(torch.zeros(3, 3) + 0j), "matrix must be float32 or float64, got complex128"),
        (lambda: SpecialOrthogonal(3).element(torch.zeros(3, 3), True), "component must be None, since .* only one"),
        (lambda: Orthogonal(3).element(torch.zeros(3, 3), -1), "component must be True or False, .* got -1"),
        (lambda: Orthogonal(3).exp(torch.zeros(3, 3).numpy()), "tangent must be a tensor, got "),
        (lambda: Torus(3).element(torch.zeros(3), torch.tensor(False)), "component must be None, since .* only one"),
    ],
)
def test_what_does_not_fit_the_group_is_refused_in_one_line(call, message):
    with refused(message):
        call()

"""Laws of every linear map in the register; the dense matrix is the oracle."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from cases import MAPS
from closeness import assert_close
from conftest import TOLERANCE
from register import concrete_subclasses
from torsor.maps import Dense, Diagonal, Householder, LinearMap, Permutation, ScaledRotation

EPSILON = torch.finfo(torch.float64).eps
PAIRS = [(first, second) for first in MAPS for second in MAPS if MAPS[first]().dim == MAPS[second]().dim]
every_map = pytest.mark.parametrize("name", MAPS)
seeds = st.integers(0, 2**16)
numbers = st.floats(-3, 3)


def states(linear_map, seed=1):
    """Two random states for each of the map's batch axes."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, *linear_map.dense().shape[:-1], generator=generator)


def numbers_of(linear_map):
    """The floating-point fields that a map is made of."""
    held = {entry.name: getattr(linear_map, entry.name) for entry in fields(linear_map) if entry.init}
    return {
        name: value for name, value in held.items() if isinstance(value, torch.Tensor) and value.is_floating_point()
    }


def distance_of_multisets(left, right):
    cost = np.abs(left[:, None] - right[None, :])
    return cost[linear_sum_assignment(cost)].max()


def test_the_register_holds_every_kind_of_map():
    assert {type(case()) for case in MAPS.values()} == concrete_subclasses(LinearMap)


@every_map
@given(a=numbers, b=numbers, seed=seeds)
def test_a_map_is_linear(name, a, b, seed):
    m = MAPS[name]()
    x, y = states(m, seed)
    assert_close(m(a * x + b * y), a * m(x) + b * m(y), 1e-11)


@every_map
@given(seed=seeds)
def test_the_fast_form_equals_the_dense_matrix(name, seed):
    m = MAPS[name]()
    x = states(m, seed)
    assert m.dense().shape[-2:] == (m.dim, m.dim)
    assert_close(m(x), torch.einsum("...ij,...j->...i", m.dense(), x))


@every_map
def test_a_map_without_batch_axes_carries_rows(name):
    m = MAPS[name]()
    if m.dense().ndim > 2:
        m = MAPS[name.split(",")[0]]()
    rows = torch.randn(3, 5, m.dim)
    assert_close(m(rows), rows @ m.dense().T)
    assert_close(m(rows.transpose(0, 1)), (rows @ m.dense().T).transpose(0, 1))  # a strided state


@every_map
def test_a_state_may_start_anywhere_in_memory(name):
    m = MAPS[name]()
    shape = states(m).shape
    x = torch.randn(1 + math.prod(shape))[1:].view(shape)  # an odd offset cannot be viewed as complex numbers
    assert_close(m(x), m(x.clone()))


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_composition_equals_the_product_of_the_matrices(first, second):
    m, n = MAPS[first](), MAPS[second]()
    product = m @ n
    assert_close(product.dense(), m.dense() @ n.dense())
    x = torch.randn(3, m.dim)
    assert_close(product(x), m(n(x)))


@every_map
def test_two_maps_of_one_kind_keep_their_structure(name):
    assert type(MAPS[name]() @ MAPS[name]()) is type(MAPS[name]())


def test_scaled_rotations_that_pair_other_coordinates_become_dense():
    adjacent, halves, grouped = (
        MAPS[f"scaled rotation{kind}"]() for kind in ("", ", half-split, one group", ", half-split")
    )
    assert type(adjacent @ halves) is Dense
    assert type(halves @ grouped) is Dense


def test_a_product_has_the_blocks_that_neither_factor_mixes_nor_treats_apart():
    two, four = (Diagonal(torch.rand(groups).repeat_interleave(8 // groups), groups=groups) for groups in (2, 4))
    assert (two @ four).blocks == (four @ two).blocks == four.blocks
    turning = [ScaledRotation(torch.rand(n).repeat_interleave(12 // n), torch.randn(12), groups=n) for n in (2, 3)]
    assert len((turning[0] @ turning[1]).blocks) == 6
    halves, whole = Dense(torch.block_diag(*torch.randn(2, 4, 4)), groups=2), Dense(torch.randn(8, 8))
    assert (halves @ halves).blocks == halves.blocks
    assert (halves @ whole).blocks == (whole @ halves).blocks == whole.blocks


@every_map
def test_composition_is_associative(name):
    m, n, k = (MAPS[name]() for _ in range(3))
    assert_close(((m @ n) @ k).dense(), (m @ (n @ k)).dense())


@every_map
@given(seed=seeds)
def test_the_adjoint_moves_to_the_other_side_of_the_inner_product(name, seed):
    m = MAPS[name]()
    x, y = states(m, seed)
    assert_close((m(x) * y).sum(-1), (x * m.adjoint()(y)).sum(-1), 1e-11)
    assert_close(m.adjoint().dense(), m.dense().mT)
    assert type(m.adjoint()) is type(m)


@every_map
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 7, 32, 1000])
def test_a_power_equals_that_many_applications(name, exponent):
    m = MAPS[name]()
    x = states(m)
    carried = x
    for _ in range(exponent):
        carried = m(carried)
    angle = m.spectrum().angle().abs().max().item()
    assert_close(m.power(exponent)(x), carried, 1e-13 + 8 * EPSILON * exponent * (1 + angle))
    # a power of reflections is that many times as many reflections, of which a matrix is the short form
    assert type(m.power(exponent)) is (Dense if isinstance(m, Householder) else type(m))


@given(scale=st.floats(0.5, 1), angle=st.floats(-1e4, 1e4), exponent=st.integers(0, 1000))
def test_the_power_of_a_scaled_rotation_multiplies_the_angle(scale, angle, exponent):
    power = ScaledRotation(torch.tensor([scale]), torch.tensor([angle])).power(exponent)
    direction = torch.tensor([math.cos(angle * exponent), math.sin(angle * exponent)])
    error = 2 * EPSILON * (1 + abs(angle) * exponent + exponent)
    assert_close(power(torch.tensor([1.0, 0.0])), scale**exponent * direction, 4 * error)


def test_the_rounding_error_of_a_power_grows_with_the_exponent_times_the_angle():
    angle = torch.linspace(0.5, 3, 64, dtype=torch.float32)
    rotation = ScaledRotation(torch.ones_like(angle), angle)
    x = torch.randn(128, dtype=torch.float32)
    error = {k: (rotation.power(k)(x) - rotation.to(torch.float64).power(k)(x.double())).abs().max() for k in (1, 1000)}
    assert error[1] < 1e-6
    assert 1e-5 < error[1000] < 1000 * 1e-6  # the converse: no better is promised


@every_map
def test_the_spectrum_holds_the_eigenvalues_of_the_matrix(name):
    m = MAPS[name]()
    spectrum, matrix = m.spectrum(), m.dense()
    assert spectrum.dtype == torch.complex128
    assert spectrum.shape == matrix.shape[:-1]
    for power in (1, 2, 3):  # traces of powers do not know about eigenvalue routines
        trace = torch.linalg.matrix_power(matrix, power).diagonal(dim1=-2, dim2=-1).sum(-1)
        torch.testing.assert_close((spectrum**power).sum(-1), trace.to(torch.complex128), rtol=0, atol=1e-11)
    for row, one in zip(spectrum.reshape(-1, m.dim), matrix.reshape(-1, m.dim, m.dim), strict=True):
        assert distance_of_multisets(row.numpy(), np.linalg.eigvals(one.double().numpy())) < 1e-10


@every_map
def test_the_blocks_hold_every_coordinate_once_and_are_not_mixed(name):
    m = MAPS[name]()
    assert [i for block in m.blocks for i in range(m.dim)[block]] == list(range(m.dim))
    outside = m.dense().clone()
    for block in m.blocks:
        outside[..., block, block] = 0
    assert torch.equal(outside, torch.zeros_like(outside))


@every_map
def test_a_half_precision_state_is_carried_in_float32(name):
    m = MAPS[name]().to(torch.float32)
    x = states(m).bfloat16()
    # a permutation has no numbers, hence no precision to widen to
    expected = torch.bfloat16 if isinstance(m, Permutation) else torch.float32
    assert m(x).dtype == expected
    assert torch.equal(m(x).float(), m(x.float()))


@every_map
def test_a_double_precision_state_stays_double(name):
    m = MAPS[name]().to(torch.float32)
    assert m(states(m).double()).dtype == torch.float64


@every_map
def test_float32_agrees_with_float64(name):
    m = MAPS[name]()
    x = states(m)
    narrow = m.to(torch.float32)
    assert_close(narrow(x.float()).double(), m(x), TOLERANCE[torch.float32])
    assert_close(narrow.dense().double(), m.dense(), TOLERANCE[torch.float32])
    assert narrow.to(torch.float64)(x).dtype == torch.float64


@every_map
def test_autocast_changes_nothing(name):
    m = MAPS[name]().to(torch.float32)
    x = states(m).float()
    uses = [lambda: m(x), lambda: (m @ m).dense(), lambda: (m @ Diagonal(torch.ones(m.dim).float())).dense()]
    uses += [lambda: m.power(3).dense(), lambda: m.adjoint().dense(), lambda: m.spectrum()]
    plain = [use() for use in uses]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(torch.equal(use(), expected) for use, expected in zip(uses, plain, strict=True))


@every_map
def test_the_gradient_through_a_map_is_that_of_finite_differences(name):
    m = MAPS[name]()
    held = numbers_of(m)

    def carry(x, *values):
        return replace(m, **dict(zip(held, values, strict=True)))(x)

    inputs = [states(m)[0], *held.values()]
    assert torch.autograd.gradcheck(carry, [value.clone().requires_grad_() for value in inputs])


@every_map
def test_the_gradient_through_a_map_is_that_of_its_dense_form(name):
    m = MAPS[name]()
    held = {key: value.clone().requires_grad_() for key, value in numbers_of(m).items()}
    x = states(m)[0].requires_grad_()
    weight = torch.randn_like(x)
    m = replace(m, **held)
    inputs = [x, *held.values()]
    fast = torch.autograd.grad((m(x) * weight).sum(), inputs, retain_graph=True)
    dense = torch.autograd.grad(((m.dense() @ x.unsqueeze(-1)).squeeze(-1) * weight).sum(), inputs)
    for left, right in zip(fast, dense, strict=True):
        assert_close(left, right)


@every_map
def test_a_first_use_without_gradient_does_not_lose_the_gradient_of_the_second(name):
    held = {key: value.clone().requires_grad_() for key, value in numbers_of(MAPS[name]()).items()}
    m = replace(MAPS[name](), **held)
    x = states(m)[0]
    with torch.no_grad():
        m(x), m.dense(), m.spectrum()
    if held:
        m(x).square().sum().backward()
    assert all(value.grad is not None and value.grad.abs().sum() > 0 for value in held.values())


@given(scale=st.floats(0.1, 2), angle=st.floats(-10, 10))
def test_the_eigenvalues_are_the_scale_times_e_to_the_plus_or_minus_i_angle(scale, angle):
    matrix = ScaledRotation(torch.tensor([scale]), torch.tensor([angle])).dense().numpy()
    expected = scale * np.exp(1j * angle * np.array([1, -1]))
    assert distance_of_multisets(np.linalg.eigvals(matrix), expected) < 1e-14


@given(scale=st.floats(0.1, 2), angle=st.floats(-10, 10))
def test_a_positive_angle_turns_counterclockwise(scale, angle):
    carried = ScaledRotation(torch.tensor([scale]), torch.tensor([angle]))(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    cosine, sine = scale * math.cos(angle), scale * math.sin(angle)
    assert_close(carried, torch.tensor([[cosine, sine], [-sine, cosine]]))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_half_split_and_adjacent_planes_differ_by_a_permutation_of_the_coordinates(groups):
    scale, angle = torch.rand(8), torch.randn(8)
    adjacent = ScaledRotation(scale, angle, groups=groups)
    halves = ScaledRotation(scale, angle, groups=groups, pairing="half-split")
    width = 16 // groups
    place = [g * width + side * width // 2 + i for g in range(groups) for i in range(width // 2) for side in range(2)]
    move = Permutation(torch.tensor(place))
    assert_close(halves.dense(), (move @ adjacent @ move.adjoint()).dense())
    assert not torch.equal(halves.dense(), adjacent.dense())


@given(left=st.permutations(range(5)), right=st.permutations(range(5)))
def test_the_permutation_of_a_product_read_left_to_right_is_the_composition_in_reverse(left, right):
    product = [right[image] for image in left]  # (g h)(i) = h(g(i))
    composed = Permutation(torch.tensor(right)) @ Permutation(torch.tensor(left))
    assert composed.images.tolist() == product
    basis = torch.eye(5)
    assert torch.equal(composed(basis), basis[product])  # e_i goes to e_p(i)


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_a_permutation_takes_integers_of_any_size(dtype):
    m = Permutation(torch.tensor([2, 0, 1]).to(dtype))
    assert torch.equal((m @ m).dense(), m.power(2).dense())


# Print


def widened(linear_map, dim):
    """A map of the same kind, options and batch axes, ``dim`` wide."""
    match linear_map:
        case Dense(matrix=matrix):
            return replace(linear_map, matrix=torch.randn(*matrix.shape[:-2], dim, dim) / math.sqrt(dim))
        case Diagonal(values=values):
            return replace(linear_map, values=torch.rand(*values.shape[:-1], dim))
        case ScaledRotation(scale=scale):
            shape = (*scale.shape[:-1], dim // 2)
            return replace(linear_map, scale=torch.rand(shape), angle=torch.rand(shape))
        case Householder(vectors=vectors):
            return replace(linear_map, vectors=torch.randn(*vectors.shape[:-1], dim))
        case Permutation(images=images):
            return Permutation(torch.argsort(torch.rand(*images.shape[:-1], dim)))
    raise AssertionError(f"widen {type(linear_map).__name__} here too")


@every_map
@pytest.mark.parametrize("dim", [8, 512])
def test_a_map_is_printed_in_one_short_line_without_its_tensors(name, dim):
    m = MAPS[name]() if dim == 8 else widened(MAPS[name](), dim)
    said = repr(m)
    assert said.startswith(f"{type(m).__name__}(dim={dim}, ")
    assert len(said) < 200, said
    assert "tensor" not in said
    assert "\n" not in said
    assert "gain=" in said
    assert "norm error=" in said


@every_map
def test_the_printed_gain_and_norm_error_are_those_of_the_matrix(name):
    m = MAPS[name]()
    matrix = m.dense().double()
    gain = torch.linalg.det(matrix).abs() ** (1 / m.dim)
    error = 1 - gain / (torch.linalg.matrix_norm(matrix) / math.sqrt(m.dim))
    said = repr(m).partition(" gain=")[2].removesuffix(")")
    gains, _, errors = said.partition(", norm error=")
    for shown, values, tolerance in ((gains, gain, 1e-3), (errors, error, 1e-1)):
        ends = [float(word) for word in shown.split(" to ")]
        assert min(ends) == pytest.approx(values.min().item(), rel=tolerance, abs=1e-14)
        assert max(ends) == pytest.approx(values.max().item(), rel=tolerance, abs=1e-14)


def test_the_norm_error_is_zero_exactly_for_maps_that_scale_every_state_alike():
    alike = ScaledRotation(torch.full((4,), 0.5), torch.arange(4.0))
    for m in (alike, Dense(alike.dense()), Permutation(torch.tensor([1, 0])), Diagonal(torch.tensor([-0.5, 0.5]))):
        assert float(repr(m).partition("norm error=")[2].removesuffix(")")) < 1e-14
    apart = ScaledRotation(torch.tensor([0.5, 0.6]), torch.zeros(2))
    assert float(repr(apart).partition("norm error=")[2].removesuffix(")")) > 1e-3


def test_a_map_without_numbers_or_too_large_to_reckon_is_printed_all_the_same():
    assert repr(Dense(torch.empty(2, 2, device="meta"))) == "Dense(dim=2, matrix=float64 (2, 2), groups=1)"
    assert repr(Dense(torch.zeros(1025, 1025))) == "Dense(dim=1025, matrix=float64 (1025, 1025), groups=1)"
    assert "gain=0, norm error=1.0e+00" in repr(Diagonal(torch.tensor([0.0, 1.0])))
    assert "gain=nan" in repr(Diagonal(torch.tensor([math.nan, 1.0])))

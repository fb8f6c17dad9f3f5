"""What the charts of the orthogonal group and the product of reflections promise, and maps for which it fails."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import logm
from torch import nn
from torch.nn.functional import softplus
from torch.nn.utils.parametrizations import orthogonal

from closeness import assert_close
from refusal import refused
from torsor.diagnostics import readability_defect, toeplitz_defect
from torsor.experiments.rotate_the_loop import word_problem
from torsor.maps import Dense
from torsor.maps import Householder as Reflections
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Exponential, Free, Householder, Uniform
from torsor.transitions.skew_symmetric import skew_matrices

CHARTS = (Cayley, Householder, Exponential)
every_chart = pytest.mark.parametrize("chart", CHARTS)
seeds = st.integers(0, 2**16)


def trained(chart, *arguments, seed=0, by=0.3, **options):
    """A transition as training might leave it: every parameter elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    moved = chart(*arguments, **options)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += by * torch.randn(parameter.shape, generator=generator)
    return moved.requires_grad_(False)


def scales(transition):
    return torch.exp(-softplus(transition.contraction.raw_timestep) * transition.contraction.log_rate.exp())


def skew_of(transition):
    """The skew matrices, entry by entry."""
    numbers = iter(transition.coordinates.tolist())
    skew = torch.zeros(transition.groups, transition.width, transition.width)
    for g in range(transition.groups):
        for i in range(transition.width):
            for j in range(i + 1, transition.width):
                skew[g, i, j] = next(numbers)
                skew[g, j, i] = -skew[g, i, j]
    return skew


def distance_from_orthogonal(q):
    return (q.mT @ q - torch.eye(q.shape[-1], dtype=q.dtype)).abs().max().item()


def turns(q):
    return torch.linalg.eigvals(q).angle()


def rms(x):
    return x.square().mean().sqrt().item()


@pytest.fixture
def in_float32():
    torch.set_default_dtype(torch.float32)


# Every chart


@every_chart
@given(seed=seeds, groups=st.sampled_from([1, 2, 3]))
def test_the_matrices_are_orthogonal(chart, seed, groups):
    q = trained(chart, 12, groups, seed=seed).orthogonal()
    assert q.shape == (groups, 12 // groups, 12 // groups)
    assert distance_from_orthogonal(q) < 1e-13
    assert distance_from_orthogonal(trained(chart, 12, groups, seed=seed, by=2.0).orthogonal()) < 1e-12


@every_chart
@pytest.mark.parametrize("groups", [1, 2])
def test_the_matrices_are_orthogonal_in_float32(chart, groups, in_float32):
    for transition in (chart(64, groups), trained(chart, 64, groups, by=0.05)):
        q = transition.orthogonal()
        assert q.dtype == torch.float32
        assert distance_from_orthogonal(q) < 1e-5
        assert distance_from_orthogonal(q.double()) < 3e-6


@every_chart
@given(seed=seeds)
def test_the_map_is_one_rate_times_one_orthogonal_matrix_in_every_group(chart, seed):
    transition = trained(chart, 12, 3, seed=seed)
    matrix = transition().dense()
    expected = torch.zeros(12, 12)
    for g, block in enumerate(transition().blocks):
        expected[block, block] = scales(transition)[g] * transition.orthogonal()[g]
    assert_close(matrix, expected)
    assert transition().blocks == transition.input_map().blocks == (slice(0, 4), slice(4, 8), slice(8, 12))
    gain = softplus(transition.contraction.raw_timestep).repeat_interleave(4)
    assert torch.equal(transition.input_map().dense(), gain.diag())  # Euler's rule


@every_chart
@given(seed=seeds)
def test_readable_and_toeplitz_on_the_whole_vector_with_one_group(chart, seed):
    m = trained(chart, 8, seed=seed)()
    assert m.blocks == (slice(0, 8),)
    defect = readability_defect(m)
    assert max(defect.own, defect.whole) < 1e-14
    defect = toeplitz_defect(m, probes=8)
    assert max(defect.own.mean, defect.whole.mean) < 5e-14


@every_chart
def test_readable_and_toeplitz_inside_every_group_and_beyond_where_the_rates_are_equal(chart):
    m = chart(12, 2, initial_scale=(0.4, 0.6))()
    assert readability_defect(m).own < 1e-14 < 0.1 < readability_defect(m).whole
    assert toeplitz_defect(m).own.mean < 1e-14 < 0.01 < toeplitz_defect(m).whole.mean
    tied = chart(12, 2, initial_scale=0.6)()
    assert max(readability_defect(tied).whole, toeplitz_defect(tied).whole.mean) < 1e-14


@every_chart
@given(seed=seeds)
def test_the_eigenvalues_of_a_group_lie_on_the_circle_of_its_rate(chart, seed):
    transition = trained(chart, 12, 2, seed=seed)
    for c, block in zip(scales(transition), transition().blocks, strict=True):
        values = torch.linalg.eigvals(transition().dense()[block, block])
        assert_close(values.abs(), c.expand(6), 1e-13)
    assert 0 < scales(transition).min() <= scales(transition).max() < 1


@every_chart
def test_under_autocast_and_in_a_model_cast_to_half_precision_the_matrices_are_those_without(chart, in_float32):
    transition = trained(chart, 12, 2)
    before = transition.orthogonal(), transition().dense()
    nn.Sequential(transition).bfloat16()
    for _ in range(2):
        assert torch.equal(transition.orthogonal(), before[0])
        assert torch.equal(transition().dense(), before[1])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(transition.orthogonal(), before[0])
            assert torch.equal(transition().dense(), before[1])
        nn.Sequential(transition).half()


@every_chart
def test_half_precision_numbers_are_refused_where_they_are_forced_in(chart, in_float32):
    transition = chart(6)
    forced = {key: value.bfloat16() for key, value in transition.named_parameters()}
    with refused("must be float32 or float64, got bfloat16"):
        torch.func.functional_call(transition, forced)


@pytest.mark.parametrize(
    ("chart", "number", "dimensions"),
    [(Cayley, 15, 15), (Exponential, 15, 15), (Householder, 36, 15)],
)
def test_the_parameters_have_one_axis_and_that_many_numbers_for_each_group(chart, number, dimensions):
    transition = trained(chart, 12, 2)
    (name,) = {name for name, _ in transition.named_parameters(recurse=False)}
    parameter = getattr(transition, name)
    assert parameter.shape == (2 * number,)

    def first_group(numbers):
        changed = torch.cat([numbers, parameter[number:]])
        return torch.func.functional_call(transition, {name: changed}).matrix[:6, :6]

    directions = torch.func.jacrev(first_group)(parameter[:number]).reshape(36, number)
    assert torch.linalg.matrix_rank(directions, rtol=1e-9) == dimensions  # of the orthogonal group in six dimensions


# The independent reference: PyTorch's own parametrisations


def torch_orthogonal(kind, raw):
    layer = nn.Linear(*raw.shape, bias=False)
    orthogonal(layer, orthogonal_map=kind, use_trivialization=kind != "householder")
    with torch.no_grad():
        if kind != "householder":
            layer.parametrizations.weight[0].base = torch.eye(len(raw))
        layer.parametrizations.weight.original.copy_(raw)
        return layer.weight.clone()


@given(seed=seeds, width=st.integers(2, 8))
def test_the_exponential_is_that_of_pytorch(seed, width):
    transition = trained(Exponential, width, seed=seed)
    assert_close(transition.orthogonal()[0], torch_orthogonal("matrix_exp", skew_of(transition)[0].tril()))


@given(seed=seeds, width=st.integers(2, 8))
def test_cayley_is_that_of_pytorch_at_minus_twice_the_coordinates(seed, width):
    transition = trained(Cayley, width, seed=seed)
    assert_close(transition.orthogonal()[0], torch_orthogonal("cayley", -2 * skew_of(transition)[0].tril()))


@given(seed=seeds, width=st.integers(2, 8))
def test_householder_is_that_of_pytorch_with_zeros_above_and_ones_on_the_diagonal(seed, width):
    raw = torch.randn(width, width, generator=torch.Generator().manual_seed(seed)).tril(-1) + torch.eye(width)
    transition = Householder(width)
    with torch.no_grad():
        transition.vectors.copy_(raw.T.flatten())
    assert_close(transition.orthogonal()[0], torch_orthogonal("householder", raw))


# Cayley


@given(seed=seeds, width=st.integers(2, 9))
def test_cayley_and_the_exponential_are_rotations(seed, width):
    for chart in (Cayley, Exponential):
        q = trained(chart, width, seed=seed).orthogonal()
        assert_close(torch.linalg.det(q), torch.ones(1), 1e-11)


@given(seed=seeds, width=st.integers(2, 9), by=st.sampled_from([0.3, 3.0, 30.0]))
def test_no_eigenvalue_of_cayley_is_minus_one(seed, width, by):
    transition = trained(Cayley, width, seed=seed, by=by)
    skew = skew_of(transition)[0]
    frequencies = torch.linalg.eigvals(skew).imag
    q = transition.orthogonal()[0]
    eigenvalues = torch.polar(torch.ones(width), -2 * frequencies.atan())
    assert (torch.linalg.eigvals(q)[:, None] - eigenvalues).abs().amin(0).max() < 1e-10
    # |1 + lambda| = 2 / sqrt(1 + s^2), whose smallest is that of the largest frequency
    smallest = torch.linalg.svdvals(torch.eye(width) + q)[-1]
    assert smallest.item() == pytest.approx(2 / math.hypot(1, frequencies.abs().max()), rel=1e-6)


def test_a_half_turn_is_the_limit_of_large_coordinates():
    cayley, exponential = Cayley(2), Exponential(2)
    with torch.no_grad():
        exponential.coordinates.fill_(math.pi)
    assert_close(exponential.orthogonal()[0], -torch.eye(2))  # a half turn, which has the eigenvalue -1
    for size in (1e2, 1e4, 1e6):
        with torch.no_grad():
            cayley.coordinates.fill_(size)
        assert 1 / size < (cayley.orthogonal()[0] + torch.eye(2)).abs().max() < 3 / size


@given(seed=seeds, width=st.integers(2, 8))
def test_a_rotation_without_a_half_turn_has_exactly_one_skew_matrix(seed, width):
    q = trained(Exponential, width, seed=seed, by=0.2).orthogonal()[0]
    identity = torch.eye(width)
    only = torch.linalg.solve(identity + q, identity - q)
    cayley = Cayley(width)
    with torch.no_grad():
        cayley.coordinates.copy_(only[tuple(torch.triu_indices(width, width, 1))])
    assert_close(cayley.orthogonal()[0], q, 1e-10)
    assert_close(only, -only.T, 1e-10)


# The exponential


def test_a_rotation_has_more_than_one_logarithm():
    first, second = Exponential(2), Exponential(2)
    with torch.no_grad():
        second.coordinates.copy_(first.coordinates + 2 * math.pi)
    assert_close(first.orthogonal(), second.orthogonal())


@given(seed=seeds, width=st.integers(2, 8))
def test_every_rotation_is_an_exponential(seed, width):
    generator = torch.Generator().manual_seed(seed)
    q = torch.linalg.qr(torch.randn(width, width, generator=generator)).Q
    q[:, 0] *= torch.linalg.det(q).sign()
    exponential = Exponential(width)
    with torch.no_grad():
        logarithm = torch.from_numpy(logm(q.numpy()).real)
        exponential.coordinates.copy_(logarithm[tuple(torch.triu_indices(width, width, 1))])
    assert_close(exponential.orthogonal()[0], q, 1e-9)


@given(seed=seeds, groups=st.sampled_from([1, 2, 3]))
def test_block_conformal_is_the_exponential_of_blocks_of_two(seed, groups):
    conformal = trained(BlockConformal, 12, groups, seed=seed, frequencies=Uniform(seed=seed))
    exponential = Exponential(12, groups)
    exponential.contraction.load_state_dict(conformal.contraction.state_dict())
    width = 12 // groups
    skew = torch.zeros(groups, width, width)
    for plane, angle in enumerate(conformal().angle.tolist()):
        group, first = divmod(2 * plane, width)
        skew[group, first, first + 1] = -angle  # counterclockwise
    rows, columns = torch.triu_indices(width, width, 1)
    with torch.no_grad():
        exponential.coordinates.copy_(skew[:, rows, columns].flatten())
    assert_close(exponential().dense(), conformal().dense())
    assert torch.equal(exponential.input_map().dense(), conformal.input_map().dense())


def test_in_float32_the_error_of_the_exponential_grows_with_the_turns_and_that_of_cayley_does_not(in_float32):
    error = {
        (chart, spread): distance_from_orthogonal(chart(64, spread=spread).orthogonal().double())
        for chart in (Cayley, Exponential)
        for spread in (0.2, 40.0)
    }
    assert error[Exponential, 0.2] < 2e-7
    assert 7e-7 < error[Exponential, 40.0] < 2e-6
    assert max(error[Cayley, 0.2], error[Cayley, 40.0]) < 5e-6


def test_only_a_matrix_of_positive_determinant_may_have_a_real_logarithm():
    turn, mirror = (chart(3).orthogonal()[0].detach().numpy() for chart in (Exponential, Householder))
    assert abs(logm(turn).imag).max() < 1e-12
    assert abs(logm(mirror).imag).max() > 0.1


def test_skew_matrices_are_skew_and_hold_the_coordinates_row_by_row():
    s = skew_matrices(torch.arange(1.0, 13.0), groups=2, width=4)
    assert torch.equal(s, -s.mT)
    assert s[0].tolist() == [[0, 1, 2, 3], [-1, 0, 4, 5], [-2, -4, 0, 6], [-3, -5, -6, 0]]
    assert s[1, 2, 3] == 12


# Reflections


@given(seed=seeds, width=st.integers(2, 7))
def test_the_determinant_of_as_many_reflections_as_coordinates_is_minus_one_to_the_width(seed, width):
    q = trained(Householder, width, seed=seed).orthogonal()
    assert_close(torch.linalg.det(q), torch.full((1,), (-1.0) ** width), 1e-11)


def mirror(v):
    return torch.eye(len(v)) - 2 * torch.outer(v, v) / (v @ v)


@given(seed=seeds, reflections=st.integers(1, 6))
def test_the_map_is_the_product_of_its_reflections_one_after_the_other(seed, reflections):
    vectors = torch.randn(reflections, 6, generator=torch.Generator().manual_seed(seed))
    m = Reflections(vectors, torch.tensor(0.7))
    expected = 0.7 * torch.eye(6)
    for v in vectors:
        expected = expected @ mirror(v)
    assert_close(m.dense(), expected)
    x = torch.randn(5, 6)
    assert_close(m(x), x @ expected.T)
    assert_close(m.adjoint()(x), x @ expected)
    assert_close(m.dense().T @ m.dense(), 0.49 * torch.eye(6))
    assert torch.linalg.det(m.dense() / 0.7).item() == pytest.approx((-1) ** reflections)
    if reflections > 1:  # the order of the reflections counts
        assert (m.dense() - m.adjoint().dense()).abs().max() > 1e-3


@given(seed=seeds, width=st.integers(2, 7))
def test_the_chart_is_the_product_of_as_many_reflections_as_coordinates(seed, width):
    transition = trained(Householder, 2 * width, 2, seed=seed)
    for g, vectors in enumerate(transition.vectors.view(2, width, width)):
        assert_close(transition.orthogonal()[g], Reflections(vectors, torch.tensor(1.0)).dense())


@given(seed=seeds, width=st.integers(2, 7))
def test_with_zeros_before_the_diagonal_it_is_the_factor_of_a_qr_decomposition(seed, width):
    matrix = torch.randn(width, width, generator=torch.Generator().manual_seed(seed))
    raw = torch.geqrf(matrix)[0].tril(-1) + torch.eye(width)
    transition = Householder(width)
    with torch.no_grad():
        transition.vectors.copy_(raw.T.flatten())
    last_flipped = torch.ones(width)
    last_flipped[-1] = -1  # the last vector has one entry, which LAPACK leaves alone
    assert_close(transition.orthogonal()[0] * last_flipped, torch.linalg.qr(matrix).Q)


@given(seed=seeds)
def test_only_the_directions_of_the_vectors_count(seed):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(6, 6, generator=generator)
    length = 10 ** (400 * torch.rand(6, 1, generator=generator) - 200)  # their squares would leave the range of floats
    short_and_long = Reflections(vectors * length, torch.tensor(1.0))
    assert_close(short_and_long.dense(), Reflections(vectors, torch.tensor(1.0)).dense(), 1e-11)
    assert distance_from_orthogonal(short_and_long.dense()) < 1e-13


def test_a_vector_of_length_zero_has_no_mirror():
    assert Reflections(torch.zeros(1, 4), torch.tensor(1.0)).dense().isnan().all()


def test_a_product_keeps_its_reflections_up_to_as_many_as_coordinates():
    two, four, five = (Reflections(torch.randn(k, 6), torch.tensor(0.9)) for k in (2, 4, 5))
    assert (two @ four).vectors.shape == (6, 6)
    assert type(two @ five) is Dense
    for product, matrix in [(two @ four, two.dense() @ four.dense()), (two @ five, two.dense() @ five.dense())]:
        assert_close(product.dense(), matrix)
    each = Reflections(torch.randn(3, 2, 6), torch.rand(3))
    assert_close((each @ two).dense(), each.dense() @ two.dense())
    assert_close((two @ each).dense(), two.dense() @ each.dense())


# Where they start


@every_chart
def test_the_initial_rates_are_the_published_ones(chart):
    transition = chart(8, 2)
    assert_close(transition().dense()[:4, :4].T @ transition().dense()[:4, :4], torch.eye(4) / 5)
    gain = math.log(math.sqrt(5))
    for other in (transition, Free(8), BlockDecay(8, 8)):
        assert_close(other.input_map().dense(), gain * torch.eye(8))


@every_chart
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("spread", [0.05, 0.2, 0.5])
def test_spread_is_the_root_mean_square_turn_at_the_start(chart, groups, spread):
    turned = turns(chart(128 * groups, groups, spread=spread).orthogonal())
    assert rms(turned) == pytest.approx(spread, rel=0.1)


def test_the_turns_of_cayley_fall_short_of_the_spread_as_an_arc_tangent_does():
    cayley, exponential = (chart(64, spread=3.0) for chart in (Cayley, Exponential))
    assert_close(2 * cayley.coordinates, exponential.coordinates)
    assert rms(2 * (torch.linalg.eigvals(skew_of(cayley)).imag).atan()) == pytest.approx(
        rms(turns(cayley.orthogonal())), rel=1e-6
    )
    assert rms(turns(cayley.orthogonal())) < 2.4


def test_the_default_spread_is_what_the_geometric_frequencies_turn_at_base_10_000():
    turned = rms(BlockConformal(512, 2)().angle)
    assert turned == pytest.approx(0.2, abs=0.02)
    for chart in CHARTS:
        assert rms(turns(chart(128).orthogonal())) == pytest.approx(turned, rel=0.12)


@every_chart
def test_without_spread_the_matrix_starts_at_the_identity(chart):
    assert_close(chart(8, 2, spread=0.0).orthogonal(), torch.eye(4).expand(2, 4, 4))


def test_at_an_odd_width_the_product_of_reflections_starts_near_the_last_one():
    transition = Householder(5, spread=0.0)
    assert_close(transition.orthogonal()[0], mirror(transition.vectors.view(5, 5)[4]))


def test_at_a_spread_of_pi_the_vectors_are_drawn_independently():
    near, random = (Householder(128, spread=spread).vectors.view(64, 2, 128) for spread in (0.2, math.pi))
    cosine = torch.nn.functional.cosine_similarity
    assert_close(cosine(near[:, 0], near[:, 1], dim=-1).mean(), torch.tensor(math.cos(0.1)), 1e-2)
    assert cosine(random[:, 0], random[:, 1], dim=-1).mean().abs() < 0.03
    assert rms(torch.linalg.vector_norm(near, dim=-1)) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("chart", [*CHARTS, Free])
def test_the_initial_values_depend_on_their_seed_alone(chart):
    state = torch.get_rng_state()
    first = chart(8, seed=5)().dense()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(99)
    assert torch.equal(chart(8, seed=5)().dense(), first)
    assert not torch.equal(chart(8, seed=6)().dense(), first)


# The free matrix


def test_a_free_matrix_starts_near_a_multiple_of_the_identity():
    for spread in (0.0, 0.2):
        m = Free(64, initial_scale=0.7, spread=spread)()
        distance = torch.linalg.matrix_norm(m.dense() - 0.7 * torch.eye(64)) / torch.linalg.matrix_norm(
            0.7 * torch.eye(64)
        )
        assert distance.item() == pytest.approx(spread, rel=0.05, abs=1e-12)


def test_a_free_matrix_is_not_readable_and_its_norm_and_spectral_radius_have_no_bound():
    m = trained(Free, 8)()
    assert readability_defect(m).own > 0.1
    assert toeplitz_defect(m).own.mean > 0.01
    assert distance_from_orthogonal(m.dense()) > 0.1
    moduli = torch.linalg.eigvals(m.dense()).abs()
    assert moduli.max() / moduli.min() > 1.5
    grown = trained(Free, 8, by=10.0)()
    assert grown.spectrum().abs().max() > 10
    assert grown.power(48)(torch.ones(8)).norm() > 1e48


# Where they are chosen


@pytest.mark.parametrize(
    ("kind", "label", "transition"),
    [
        ("cayley", "Cayley, 2 groups", Cayley),
        ("householder", "Householder, 2 groups", Householder),
        ("exponential", "exponential, 2 groups", Exponential),
        ("free", "free matrix", Free),
    ],
)
def test_an_experiment_names_its_chart_and_its_gradient_reaches_it(kind, label, transition, in_float32):
    study = word_problem(transition=kind, width=8, heads=2, length=4)
    assert (study.label, type(study.transition)) == (label, transition)
    logits = study.model(study.task.batch(update=0, size=2).tokens, steps=3)
    (logits * torch.randn_like(logits)).sum().backward()
    assert all(parameter.grad is not None for parameter in study.transition.parameters())


# What is refused


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((10, 4), {}, "dim, the width, must be groups = 4 times a width of at least 2, got 10"),
        ((4, 4), {}, "dim, the width, must be groups = 4 times a width of at least 2, got 4"),
        ((1,), {}, "dim, the width, must be groups = 1 times a width of at least 2, got 1"),
        ((8, 0), {}, "dim, the width, must be groups = 0 times a width of at least 2, got 8"),
        ((8,), {"spread": -0.1}, "spread must be .*, got -0.1"),
        ((8,), {"spread": math.nan}, "spread must be .*, got nan"),
        ((8,), {"spread": math.inf}, "spread must be .*, got inf"),
        ((8,), {"initial_scale": 1.0}, "initial_scale must lie strictly between 0 and 1"),
        ((8, 2), {"initial_scale": (0.5,)}, "initial_scale must hold one number for each of 2 groups"),
    ],
)
def test_an_inadmissible_chart_is_refused_in_one_line(chart, arguments, options, message):
    with refused(message):
        chart(*arguments, **options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Householder(8, spread=3.2), "spread must be from 0 to 3.1416, got 3.2"),
        (lambda: Cayley(8, spread=-1.0), "spread must be finite and at least 0, got -1.0"),
        (lambda: Free(0), "dim, the width, must be at least 1, got 0"),
        (lambda: Free(8, initial_scale=1.5), "initial_scale must lie strictly between 0 and 1, got 1.5"),
        (lambda: Free(8, spread=-1.0), "spread must be finite and at least 0, got -1.0"),
    ],
)
def test_an_inadmissible_start_is_refused_in_one_line(build, message):
    with refused(message):
        build()

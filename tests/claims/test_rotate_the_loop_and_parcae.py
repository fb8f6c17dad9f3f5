"""What "Rotate the Loop" says of its map beside the published diagonal one: R8 to R10, and where both start."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import rms_norm, softplus

from closeness import assert_close
from torsor.diagnostics import lag_cosine, readability_defect
from torsor.maps import Diagonal, ScaledRotation
from torsor.transitions import BlockConformal, BlockDecay, Geometric, Still, Uniform


def parcae(x, e, dt_bias, a_log):
    """The published injection with B = I, written independently of this package."""
    return torch.exp(-softplus(dt_bias) * torch.exp(a_log)) * x + softplus(dt_bias) * e


def step(transition, x, e):
    return transition()(x) + transition.input_map()(e)


def with_product(product, transition=BlockDecay, **options):
    """A transition whose every group has the product of time step and rate that is asked for."""
    built = transition(4, 2, initial_scale=math.exp(-1), **options)
    with torch.no_grad():
        built.contraction.log_rate.fill_(math.log(product))
    return built


@pytest.fixture
def in_float32():
    torch.set_default_dtype(torch.float32)


# R8: reductions


@pytest.mark.parametrize("groups", [1, 2, 16])
def test_at_parcaes_initial_values_a_conformal_map_that_stands_still_is_parcaes_injection_bit_for_bit(
    groups, in_float32
):
    x, e = torch.randn(2, 5, 32)
    dt_bias = torch.log(torch.expm1(-torch.log(torch.sqrt(torch.tensor(1 / 5, dtype=torch.float64))))).float()
    expected = parcae(x, e, dt_bias.expand(32), torch.zeros(32))
    assert torch.equal(step(BlockConformal(32, groups, frequencies=Still()), x, e), expected)
    assert torch.equal(step(BlockDecay(32, groups), x, e), expected)
    assert torch.equal(step(BlockDecay(32, 32), x, e), expected)


def test_the_diagonal_operator_is_parcaes_injection_at_any_parameters_bit_for_bit(in_float32):
    x, e, dt_bias, a_log = torch.randn(4, 32)
    transition = BlockDecay(32, groups=32)
    transition.contraction.load_state_dict({"raw_timestep": dt_bias, "log_rate": a_log})
    assert torch.equal(step(transition, x, e), parcae(x, e, dt_bias, a_log))


def test_a_conformal_map_that_turns_is_not_parcaes_injection():
    x, e = torch.randn(2, 32)
    assert (step(BlockConformal(32, 2), x, e) - step(BlockDecay(32, 2), x, e)).abs().max() > 0.1


def test_one_group_per_plane_that_stands_still_is_a_diagonal_with_tied_pairs():
    c = (0.2, 0.5, 0.8)
    still = BlockConformal(6, groups=3, frequencies=Still(), initial_scale=c)
    assert_close(still().dense(), torch.tensor(c).repeat_interleave(2).diag())
    assert_close(still().dense(), BlockDecay(6, groups=3, initial_scale=c)().dense())


def test_one_group_that_stands_still_is_a_multiple_of_the_identity():
    still = BlockConformal(6, groups=1, frequencies=Still(), initial_scale=0.7)
    assert_close(still().dense(), 0.7 * torch.eye(6))
    assert not torch.allclose(BlockConformal(6, groups=1, initial_scale=0.7)().dense(), 0.7 * torch.eye(6))


def test_at_the_initial_values_the_diagonal_map_is_a_multiple_of_the_identity_until_the_rates_spread():
    transition = BlockDecay(8, groups=8)
    assert_close(transition().dense(), math.sqrt(1 / 5) * torch.eye(8))
    assert readability_defect(transition()).own < 1e-15
    with torch.no_grad():
        transition.contraction.log_rate += 0.1 * torch.randn(8)
    assert readability_defect(transition()).own > 0.01


def test_a_unitary_matrix_turns_the_map_into_a_complex_diagonal_with_free_phases_and_tied_magnitudes():
    c, angle = torch.tensor([0.4, 0.4, 0.9, 0.9]), torch.tensor([0.3, 2.0, -1.0, 0.5])
    m = ScaledRotation(c, angle, groups=2)
    plane = torch.tensor([[1, 1j], [1, -1j]], dtype=torch.complex128) / math.sqrt(2)
    u = torch.block_diag(*[plane] * 4)
    assert_close((u @ u.mH).abs(), torch.eye(8))
    phases = torch.stack([angle, -angle], dim=-1).flatten()
    expected = torch.diag(torch.polar(c.repeat_interleave(2), phases))
    assert_close(torch.view_as_real(u @ m.dense().to(torch.complex128) @ u.mH), torch.view_as_real(expected))
    # the counter-example: the same matrix does not diagonalise a map that treats a plane's two coordinates apart
    apart = Diagonal(torch.linspace(0.2, 0.9, 8)).dense().to(torch.complex128)
    mixed = u @ apart @ u.mH
    assert (mixed - mixed.diagonal().diag()).abs().max() > 0.01


# R9: stability


@given(raw=st.floats(-15, 15), log_rate=st.floats(-15, 3), other=st.floats(-15, 3))
def test_the_spectral_radius_is_the_largest_scale_and_below_one_for_any_parameters(raw, log_rate, other):
    transition = BlockConformal(8, groups=2, frequencies=Uniform(seed=2))
    with torch.no_grad():
        transition.contraction.raw_timestep.fill_(raw)
        transition.contraction.log_rate.copy_(torch.tensor([log_rate, other]))
    c = [math.exp(-math.log1p(math.exp(raw)) * math.exp(rate)) for rate in (log_rate, other)]
    radius = torch.linalg.eigvals(transition().dense()).abs().max().item()
    assert radius == pytest.approx(max(c), rel=1e-12)
    assert transition().spectrum().abs().max().item() == pytest.approx(max(c), rel=1e-12)
    assert 0 < transition().scale.min() <= transition().scale.max() < 1


def test_a_free_scale_has_no_such_bound():
    assert ScaledRotation(torch.tensor([1.2]), torch.tensor([0.3])).spectrum().abs().max() > 1


@pytest.mark.parametrize("transition", [BlockDecay, partial(BlockConformal, frequencies=Still())])
def test_in_float32_a_scale_rounds_to_one_below_3e_8_and_to_zero_above_104(transition, in_float32):
    def largest(product):
        return with_product(product, transition)().dense().abs().max().item()

    assert largest(2.9e-8) == 1
    assert 0 < largest(4e-8) < 1
    assert 0 < largest(86.0) < 1
    assert largest(104.1) == 0


def test_in_bfloat16_a_slow_scale_would_be_one(in_float32):
    slow = with_product(1e-3)()
    assert slow.values.max() < 1
    assert slow.values.bfloat16().max() == 1


def test_at_extreme_parameters_the_maps_stay_finite(in_float32):
    for raw, log_rate in [(-200.0, 0.0), (200.0, 5.0), (0.0, 60.0), (0.0, -60.0), (-90.0, -60.0)]:
        transition = BlockConformal(8, groups=2)
        with torch.no_grad():
            transition.contraction.raw_timestep.fill_(raw)
            transition.contraction.log_rate.fill_(log_rate)
        for m in (transition(), transition.input_map()):
            assert m.dense().isfinite().all()


# R10: the pre-norm of a block removes a common scale and no other


@given(c=st.floats(1e-2, 1e2))
def test_a_normalised_block_does_not_see_a_common_scale(c):
    y = torch.randn(4, 16)
    assert_close(rms_norm(c * y, (16,), eps=0.0), rms_norm(y, (16,), eps=0.0))
    exact, with_eps = rms_norm(y, (16,)), rms_norm(c * y, (16,), eps=1e-5)
    assert (exact - with_eps).abs().max() < 10 * 1e-5 / min(c, 1) ** 2


def test_a_normalised_block_sees_a_scale_that_depends_on_the_group():
    y = torch.randn(4, 16)
    scaled = Diagonal(torch.tensor([0.4, 0.6]).repeat_interleave(8))(y)
    assert (rms_norm(scaled, (16,)) - rms_norm(y, (16,))).abs().max() > 0.1


# Where both start


def test_the_initial_values_are_the_published_ones(in_float32):
    for transition in (BlockDecay(8, 8), BlockConformal(8, 2)):
        contraction = transition.contraction
        assert contraction.timestep().tolist() == pytest.approx([0.8047] * contraction.groups, abs=5e-5)
        assert contraction.rate().tolist() == [1.0] * contraction.groups
        assert transition().dense()[0].norm().item() == pytest.approx(math.sqrt(1 / 5), rel=1e-6)
        assert torch.equal(transition.input_map().dense(), contraction.timestep()[0] * torch.eye(8))


def test_without_a_block_the_loop_starts_as_a_geometric_series_towards_1_456_times_the_input():
    transition = BlockDecay(8, 8)
    x, e = torch.randn(2, 8)
    for _ in range(60):
        x = step(transition, x, e)
    assert_close(x, 1.45575 * e, 1e-5)


LAG_COSINES = {  # mean cosine of a direction with itself 1, 2, 4, 8, 16, 32 steps later, width 512 in one group
    10_000.0: (0.982, 0.935, 0.812, 0.735, 0.662, 0.586),
    1_000.0: (0.977, 0.914, 0.750, 0.647, 0.549, 0.449),
    100.0: (0.965, 0.872, 0.628, 0.471, 0.324, 0.177),
    10.0: (0.932, 0.748, 0.270, -0.014, -0.183, -0.101),
}


@pytest.mark.parametrize("base", LAG_COSINES)
def test_the_frequency_presets_turn_directions_as_tabulated(base):
    m = BlockConformal(512, groups=1, frequencies=Geometric(base))()
    lags = (1, 2, 4, 8, 16, 32)
    exact = [(m.power(lag).spectrum() / m.spectrum().abs() ** lag).real.mean().item() for lag in lags]
    assert exact == pytest.approx(LAG_COSINES[base], abs=6e-4)
    sampled = lag_cosine(m, steps=33).own
    assert [sampled[lag] for lag in lags] == pytest.approx(exact, abs=0.01)


def test_base_10_000_leaves_half_of_the_planes_nearly_still_over_48_steps_and_base_100_does_not():
    slow, fast = (BlockConformal(512, 1, frequencies=Geometric(base))().angle for base in (10_000.0, 100.0))
    assert (48 * slow < math.pi / 4).double().mean() > 0.45
    assert (48 * fast < math.pi / 4).double().mean() < 0.25
    periods = 2 * math.pi / fast
    assert periods.min().item() == pytest.approx(7.8, abs=0.1)
    assert 700 < periods.max().item() < 800

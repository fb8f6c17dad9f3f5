"""What "Rotate the Loop" says of its linear map, R1 to R10, and for each claim a map for which it fails.

All of this concerns the linear map alone; nothing here speaks of the loop with its nonlinear block.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import softplus

from closeness import assert_close
from torsor.diagnostics import gram_matrix, lag_cosine, readability_defect, toeplitz_defect
from torsor.maps import Dense, Diagonal, ScaledRotation
from torsor.transitions import BlockConformal, BlockDecay, Uniform
from torsor.transitions.hold import exact_hold

seeds = st.integers(0, 2**16)


def trained(dim=12, groups=2, seed=0, transition=BlockConformal, **options):
    """A transition as training might leave it: every parameter elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    moved = transition(dim, groups, **options)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter += 0.5 * torch.randn(parameter.shape, generator=generator)
    return moved.requires_grad_(False)


def scales(transition):
    return torch.exp(-softplus(transition.contraction.raw_timestep) * transition.contraction.log_rate.exp())


def directions(m, x, steps):
    states = [x / x.norm()]
    for _ in range(steps - 1):
        carried = m(states[-1])
        states.append(carried / carried.norm())
    return torch.stack(states)


def one_plane_untied(m, plane=1, by=1.1):
    scale = m.scale.clone()
    scale[plane] *= by
    return ScaledRotation(scale, m.angle, groups=m.groups)


# R1: <Mx, My> = c^2 <x, y> for all x, y, exactly when M'M = c^2 I


@given(seed=seeds, groups=st.sampled_from([1, 2, 3, 6]))
def test_readable_inside_every_group(seed, groups):
    transition = trained(groups=groups, seed=seed)
    m = transition()
    x, y = torch.randn(2, 12, generator=torch.Generator().manual_seed(seed))
    for block, c in zip(m.blocks, scales(transition), strict=True):
        matrix = m.dense()[block, block]
        assert torch.linalg.matrix_norm(matrix.T @ matrix - c**2 * torch.eye(len(matrix))) <= 1e-14
        assert_close(m(x)[block] @ m(y)[block], c**2 * (x[block] @ y[block]), 1e-11)
    assert readability_defect(m).own < 1e-15


@given(seed=seeds)
def test_a_readable_matrix_is_a_scaled_orthogonal_one(seed):
    # by polarisation, what inner products of basis vectors become is M'M
    m = trained(groups=1, seed=seed)()
    basis = torch.eye(12)
    kept = torch.stack([torch.stack([m(x) @ m(y) for y in basis]) for x in basis])
    c = m.scale[0]
    assert_close(kept, c**2 * basis)
    assert_close(m.dense().T @ m.dense() / c**2, basis)


def test_two_different_rates_on_the_whole_vector_are_not_readable():
    m = BlockDecay(2, groups=2, initial_scale=(0.9, 0.3))()
    e = torch.eye(2)
    assert (m(e[0]) @ m(e[0])) > 8 * (m(e[1]) @ m(e[1]))  # yet both vectors have length one
    assert readability_defect(m).own > 0.1


def test_one_plane_with_a_rate_of_its_own_breaks_readability():
    m = trained(groups=2)()
    assert readability_defect(m).own < 1e-15
    assert readability_defect(one_plane_untied(m)).own > 0.01


# R2: repeated application of a normal map collapses directions onto its dominant eigenspace


@given(seed=seeds)
def test_directions_collapse_at_the_ratio_of_the_two_largest_moduli(seed):
    generator = torch.Generator().manual_seed(seed)
    moduli = torch.tensor([0.9, 0.9, 0.6, 0.5, 0.2])
    basis = torch.linalg.qr(torch.randn(5, 5, generator=generator)).Q
    m = Dense(basis @ moduli.diag() @ basis.T)
    x = torch.randn(5, generator=generator)
    dominant = basis[:, :2] @ basis[:, :2].T
    ratio = [(y - dominant @ y).norm() / (dominant @ y).norm() for y in (m.power(t)(x) for t in range(20))]
    for t in range(20):
        assert ratio[t] <= (0.6 / 0.9) ** t * ratio[0] * (1 + 1e-9) + 1e-14
    assert ratio[19] < 1e-2 * ratio[0]


def test_the_directions_collapse_onto_the_slowest_group():
    m = BlockDecay(8, groups=2, initial_scale=(0.5, 0.9))()
    p = directions(m, torch.randn(8), 60)
    assert p[-1, 4:].norm() > 1 - 1e-12
    assert (
        gram_matrix(BlockDecay(8, 8, initial_scale=tuple(torch.linspace(0.2, 0.9, 8).tolist()))(), 200)
        .whole[150:, 150:]
        .min()
        > 1 - 1e-3
    )


def test_directions_do_not_collapse_under_a_conformal_map():
    m = trained(groups=1, frequencies=Uniform(seed=1))()
    share = directions(m, torch.randn(12), 200).unflatten(-1, (-1, 2)).norm(dim=-1)
    assert_close(share, share[:1].expand_as(share), 1e-12)  # every plane keeps its part of the length
    assert lag_cosine(m, 200).whole[-1] < 0.9


# R3: a conformal map keeps directions moving


@given(seed=seeds)
def test_under_a_conformal_map_the_direction_moves_equally_far_at_every_step(seed):
    p = directions(trained(groups=1, seed=seed)(), torch.randn(12), 64)
    moved = (p[1:] - p[:-1]).norm(dim=-1)
    assert_close(moved, moved[:1].expand_as(moved), 1e-12)


def test_under_two_rates_the_direction_comes_to_rest():
    p = directions(Diagonal(torch.tensor([0.9, 0.5, 0.3])), torch.ones(3), 64)
    moved = (p[1:] - p[:-1]).norm(dim=-1)
    assert moved[-1] < 1e-12 < 0.1 < moved[0]


# R4: depth invariance


@given(seed=seeds, groups=st.sampled_from([1, 2, 3]))
def test_toeplitz_inside_every_group(seed, groups):
    m = trained(groups=groups, seed=seed)()
    for block in m.blocks:
        p = directions(Dense(m.dense()[block, block]), torch.randn(12 // groups), 24)
        gram = p @ p.T
        for later in (1, 5, 11):
            assert_close(gram[later:, later:], gram[:-later, :-later])
    assert toeplitz_defect(m, probes=8).own.mean < 1e-14


def test_two_rates_rewrite_the_geometry_at_every_step():
    assert toeplitz_defect(BlockDecay(8, 2, initial_scale=(0.9, 0.5))(), blocks=(slice(0, 8),)).own.mean > 0.05
    assert toeplitz_defect(one_plane_untied(trained(groups=1)(), by=0.7)).own.mean > 0.01


# R5: inside a group one scale, across groups norms drift apart


@given(seed=seeds)
def test_norms_of_two_groups_drift_apart_as_the_power_of_the_ratio_of_their_rates(seed):
    transition = trained(groups=2, seed=seed)
    c, m = scales(transition), transition()
    x = torch.randn(12)
    for t in range(1, 20):
        carried = m.power(t)(x)
        first, second = (carried[block].norm() / x[block].norm() for block in m.blocks)
        assert_close(first, c[0] ** t)
        assert_close(first / second, (c[0] / c[1]) ** t, 1e-11)


def test_across_groups_of_unequal_rates_nothing_is_promised():
    m = BlockConformal(8, 2, initial_scale=(0.4, 0.6))()
    assert readability_defect(m).own < 1e-15 < 0.1 < readability_defect(m).whole
    assert toeplitz_defect(m).own.mean < 1e-14 < 0.01 < toeplitz_defect(m).whole.mean
    tied = BlockConformal(8, 2, initial_scale=(0.6, 0.6))()
    assert max(readability_defect(tied).whole, toeplitz_defect(tied).whole.mean) < 1e-14


# R6: the spectrum


@given(seed=seeds, groups=st.sampled_from([1, 2, 3, 6]))
def test_the_spectrum_is_one_modulus_inside_a_group(seed, groups):
    transition = trained(groups=groups, seed=seed)
    m, c = transition(), scales(transition)
    angle = softplus(transition.contraction.raw_timestep)[:, None] * transition.frequency.view(groups, -1)
    expected = torch.polar(c[:, None].expand_as(angle).contiguous(), angle)
    for g, block in enumerate(m.blocks):
        values = torch.linalg.eigvals(m.dense()[block, block])
        assert (values.abs() - c[g]).abs().max() <= 1e-14
        for eigenvalue in (expected[g], expected[g].conj()):
            assert (values[:, None] - eigenvalue).abs().amin(0).max() <= 1e-14


def test_the_spectrum_of_an_untied_plane_has_two_moduli():
    moduli = torch.linalg.eigvals(one_plane_untied(trained(groups=1)()).dense()).abs()
    assert moduli.max() / moduli.min() == pytest.approx(1.1)


# R7: the map of a group is an exponential, and its powers are closed


@given(seed=seeds, groups=st.sampled_from([1, 2, 3]))
def test_the_map_of_a_group_is_the_exponential_of_its_generator(seed, groups):
    transition = trained(groups=groups, seed=seed)
    timestep, rate = softplus(transition.contraction.raw_timestep), transition.contraction.log_rate.exp()
    for g, block in enumerate(transition().blocks):
        frequency = transition.frequency.view(groups, -1)[g]
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        generator = torch.block_diag(*[w * turn for w in frequency]) - rate[g] * torch.eye(2 * len(frequency))
        matrix = torch.linalg.matrix_exp(timestep[g] * generator)
        assert_close(transition().dense()[block, block], matrix, 1e-14)
        power = torch.linalg.matrix_exp(17 * timestep[g] * generator)
        assert_close(transition().power(17).dense()[block, block], power)


def test_the_phase_is_tied_to_the_time_step_of_the_group():
    transition = trained(groups=2)
    twice = trained(groups=2)
    timestep = softplus(transition.contraction.raw_timestep)
    twice.contraction.raw_timestep.copy_((2 * timestep).expm1().log())
    assert_close(twice().dense(), transition().power(2).dense())
    only_scale = transition() @ Diagonal(transition().scale.repeat_interleave(2))
    assert (twice().dense() - only_scale.dense()).abs().max() > 0.1


@pytest.mark.parametrize("transition", [BlockConformal, BlockDecay])
def test_the_exact_hold_is_the_flow_under_a_constant_input(transition):
    held, euler = (trained(8, 2, transition=transition, **options) for options in ({"hold": exact_hold}, {}))
    timestep = softplus(held.contraction.raw_timestep).repeat_interleave(4)[:, None]
    log_map = -timestep * held.contraction.log_rate.exp().repeat_interleave(4)[:, None] * torch.eye(8)
    if transition is BlockConformal:
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        log_map = log_map + timestep * torch.block_diag(*[w * turn for w in held.frequency])
    flow = torch.linalg.matrix_exp(torch.cat([torch.cat([log_map, timestep * torch.eye(8)], 1), torch.zeros(8, 16)]))
    assert_close(held().dense(), flow[:8, :8])
    assert_close(held.input_map().dense(), flow[:8, 8:])
    assert_close(euler.input_map().dense(), timestep * torch.eye(8))  # the published rule does not see the rates
    assert (euler.input_map().dense() - flow[:8, 8:]).abs().max() > 0.05


def test_the_exact_hold_of_a_generator_of_zero_is_not_a_number():
    near, zero = torch.tensor([-1e-12, 0.0])
    assert_close(exact_hold(torch.tensor(0.8), near), torch.tensor(0.8))  # the limit
    assert exact_hold(torch.tensor(0.8), zero).isnan()

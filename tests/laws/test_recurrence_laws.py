"""The equalities that make one idea of scan and loop."""

import math

import pytest
import torch
from scipy import stats

from cases import MAPS
from refusal import refused
from torsor.maps import ScaledRotation
from torsor.recurrence import loop, scan
from torsor.recurrence.depth import Fixed, Poisson, Uniform
from torsor.recurrence.ramp import Ramp, linear, one_minus_sqrt


@pytest.fixture
def step():
    weight = torch.randn(6, 6) / 3
    return lambda state, given: torch.tanh(state @ weight) + given


def test_a_loop_is_a_scan_over_a_constant_input(step):
    state, given = torch.randn(3, 6), torch.randn(3, 6)
    states, last = scan(step, state, given[:, None].expand(3, 7, 6))
    looped = loop(lambda x: step(x, given), state, 7)
    assert torch.equal(looped, last)
    assert torch.equal(looped, states[:, -1])


def test_a_loop_over_another_input_at_each_step_is_not_that_loop(step):
    state, given = torch.randn(3, 6), torch.randn(3, 7, 6)
    assert not torch.allclose(loop(lambda x: step(x, given[:, 0]), state, 7), scan(step, state, given)[1])


@pytest.mark.parametrize("name", [name for name in MAPS if "batch" not in name])
def test_a_linear_loop_is_a_geometric_series(name):
    carry, write = MAPS[name](), torch.randn(3, 8)
    series = sum(write @ torch.linalg.matrix_power(carry.dense(), t).T for t in range(9))
    torch.testing.assert_close(loop(lambda x: carry(x) + write, torch.zeros(3, 8), 9), series, rtol=1e-12, atol=1e-12)


def test_several_depths_in_one_pass_equal_separate_passes(step):
    state, given = torch.randn(3, 6), torch.randn(3, 6)
    calls = []

    def counted(x):
        calls.append(1)
        return step(x, given)

    together = loop(counted, state, (5, 2, 9, 2))
    assert len(calls) == 9
    for each, depth in zip(together, (5, 2, 9, 2), strict=True):
        assert torch.equal(each, loop(lambda x: step(x, given), state, depth))


def test_a_depth_per_sequence_equals_each_sequence_alone(step):
    state, given = torch.randn(4, 6), torch.randn(4, 6)
    together = loop(step, state, torch.tensor([3, 1, 8, 3]), given=(given,))
    for row, depth in enumerate((3, 1, 8, 3)):
        alone = loop(lambda x, row=row: step(x, given[row : row + 1]), state[row : row + 1], depth)
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("grad_steps", [None, 1, 3])
def test_a_depth_per_sequence_computes_the_sum_of_the_depths_and_no_more(step, grad_steps):
    depths = Poisson(mean=6, high=20).per_sequence(seed=0, update=0, batch=32)
    computed = []

    def counted(x, given):
        computed.append(x.shape[0])
        return step(x, given)

    loop(counted, torch.randn(32, 6), depths, grad_steps, given=(torch.randn(32, 6),))
    assert sum(computed) == depths.sum() < 0.7 * len(computed) * 32
    # without a truncation, as many calls as the deepest has steps; with one, the two parts may overlap
    assert len(computed) == depths.max() if grad_steps is None else len(computed) >= depths.max()


def test_a_step_that_reads_a_sequence_from_elsewhere_is_refused():
    outside = torch.randn(3, 6)
    with pytest.raises(ValueError, match="read all else of a sequence from given"):
        loop(lambda x: x[:1] + outside, torch.randn(3, 6), torch.tensor([2, 1, 3]))


def test_a_depth_per_sequence_sends_back_each_sequence_s_own_gradient(step):
    given = torch.randn(4, 6)
    depths, limit = torch.tensor([5, 1, 3, 2]), 2
    state = torch.randn(4, 6)
    together, first = given.clone().requires_grad_(), state.clone().requires_grad_()
    loop(step, first, depths, grad_steps=limit, given=(together,)).sum().backward()
    for row in range(4):
        alone = given[row : row + 1].clone().requires_grad_()
        start = state[row : row + 1].clone().requires_grad_()
        loop(lambda x, alone=alone: step(x, alone), start, int(depths[row]), grad_steps=limit).sum().backward()
        torch.testing.assert_close(together.grad[row : row + 1], alone.grad, rtol=1e-12, atol=1e-12)
        reached = torch.zeros_like(start) if start.grad is None else start.grad
        torch.testing.assert_close(first.grad[row : row + 1], reached, rtol=1e-12, atol=1e-12)
    assert first.grad[[1, 3]].ne(0).all()
    assert first.grad[[0, 2]].eq(0).all()


def test_the_gradient_passes_the_last_steps_alone(step):
    state = torch.randn(2, 6)
    given = torch.randn(2, 6, requires_grad=True)
    loop(lambda x: step(x, given), state, 6, grad_steps=2).sum().backward()
    truncated = given.grad.clone()
    given.grad = None
    with torch.no_grad():
        before = loop(lambda x: step(x, given), state, 4)
    loop(lambda x: step(x, given), before, 2).sum().backward()
    assert torch.equal(truncated, given.grad)
    given.grad = None
    loop(lambda x: step(x, given), state, 6).sum().backward()
    assert not torch.allclose(truncated, given.grad)


def test_steps_before_the_last_ones_keep_no_graph():
    state = torch.randn(1, 4, requires_grad=True)
    result = loop(lambda x: 2 * x, state, 3, grad_steps=2)
    assert result.requires_grad is False, "the state enters before the truncation, so nothing of it remains"
    carry = ScaledRotation(torch.full((2,), 0.5, requires_grad=True), torch.zeros(2))
    assert loop(carry, torch.randn(1, 4), 3, grad_steps=1).requires_grad


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (0, "at least 1, or a tuple of such, got 0"),
        (-3, "at least 1, or a tuple of such, got -3"),
        (2.0, "integer of at least 1, or a tuple of such, got 2.0"),
        (True, "integer of at least 1, or a tuple of such, got True"),
        ((), "empty tuple"),
        ((4, 0), "at least 1, or a tuple of such, got 0"),
        (torch.tensor([1, 0]), "at least 1, got 0"),
        (torch.tensor([1, 2, 3]), "each of 2 sequences"),
        (torch.tensor([1.0, 2.0]), "got float"),
    ],
)
def test_what_is_no_number_of_steps_is_refused(steps, words):
    with refused(words):
        loop(lambda x: x, torch.zeros(2, 4), steps)


@pytest.mark.parametrize(("steps", "grad_steps"), [(3, 0), ((1, 2), 1)])
def test_a_truncation_that_means_nothing_is_refused(steps, grad_steps):
    with pytest.raises(ValueError, match="grad_steps"):
        loop(lambda x: x, torch.zeros(2, 4), steps, grad_steps=grad_steps)


def test_a_scan_over_nothing_is_refused(step):
    with pytest.raises(ValueError, match="length at least 1"):
        scan(step, torch.zeros(2, 6), torch.zeros(2, 0, 6))


def test_uniform_depths_cover_their_range_and_depend_on_seed_and_update_alone():
    depth = Uniform(4, 8)
    drawn = [depth.at(seed=0, update=update) for update in range(500)]
    assert set(drawn) == {4, 5, 6, 7, 8}
    assert min(drawn.count(steps) for steps in range(4, 9)) > 60
    assert drawn == [depth.at(seed=0, update=update) for update in range(500)]
    assert drawn != [depth.at(seed=1, update=update) for update in range(500)]
    assert depth.largest == 8


def test_a_fixed_depth_is_fixed():
    assert {Fixed(3).at(seed=0, update=update) for update in range(9)} == {Fixed(3).largest}


def test_poisson_depths_are_a_poisson_number_held_between_one_and_the_largest():
    drawn = torch.cat([Poisson(2.5, high=5).per_sequence(seed=0, update=update, batch=500) for update in range(40)])
    below, inside = stats.poisson.cdf(1, 2.5), stats.poisson.pmf([2, 3, 4], 2.5)
    expected = [below, *inside, 1 - below - inside.sum()]
    for steps, share in enumerate(expected, start=1):
        spread = math.sqrt(share * (1 - share) / drawn.numel())
        assert (drawn == steps).double().mean().item() == pytest.approx(share, abs=5 * spread)
    assert set(drawn.tolist()) == {1, 2, 3, 4, 5}
    assert set(Poisson(0, high=5).per_sequence(seed=0, update=0, batch=99).tolist()) == {1}


DEPTHS = {
    "fixed": Fixed(8),
    "uniform": Uniform(4, 8),
    "poisson": Poisson(8, high=24),
    "ramp": Ramp(Poisson(8, high=24), updates=50),
}


@pytest.mark.parametrize("name", DEPTHS)
def test_the_depths_of_a_larger_batch_begin_with_those_of_a_smaller_one(name):
    whole = DEPTHS[name].per_sequence(seed=0, update=60, batch=200)
    for size in (1, 2, 3, 63, 64, 65, 199):
        assert torch.equal(DEPTHS[name].per_sequence(seed=0, update=60, batch=size), whole[:size])


@pytest.mark.parametrize("name", DEPTHS)
def test_depths_per_sequence_are_integers_that_seed_update_and_batch_decide(name):
    depth = DEPTHS[name]
    drawn = depth.per_sequence(seed=0, update=60, batch=64)
    assert drawn.shape == (64,)
    assert not drawn.is_floating_point()
    assert 1 <= drawn.min() <= drawn.max() <= depth.largest
    assert torch.equal(drawn, depth.per_sequence(seed=0, update=60, batch=64))
    assert depth.at(seed=0, update=60) == depth.per_sequence(seed=0, update=60, batch=1)
    if name != "fixed":
        assert not torch.equal(drawn, depth.per_sequence(seed=1, update=60, batch=64))
        assert not torch.equal(drawn, depth.per_sequence(seed=0, update=61, batch=64))


@pytest.mark.parametrize("rise", [linear, one_minus_sqrt])
def test_a_ramp_multiplies_the_mean_until_it_reaches_the_depth_inside(rise):
    inner = Poisson(40, high=10**6)
    ramp = Ramp(inner, updates=10, start=0.2, rise=rise)
    for update in range(10):
        progress = update / 10 if rise is linear else 1 - (1 - update / 10) ** 0.5
        mean = 40 * (0.2 + 0.8 * progress)
        drawn = ramp.per_sequence(seed=0, update=update, batch=4000)
        assert drawn.double().mean().item() == pytest.approx(mean, abs=5 * math.sqrt(mean / 4000))
    for update in (10, 11, 500):
        assert torch.equal(ramp.per_sequence(0, update, 64), inner.per_sequence(0, update, 64))
    assert ramp.largest == inner.largest


def test_a_ramp_of_whole_depths_rounds_up_and_stays_inside_them():
    assert [Ramp(Fixed(3), updates=3).at(0, update) for update in range(5)] == [1, 1, 2, 3, 3]
    assert [Ramp(Fixed(8), updates=4, rise=one_minus_sqrt).at(0, update) for update in range(5)] == [1, 2, 3, 4, 8]
    assert Ramp(Fixed(7), updates=2, start=1.0).at(0, 0) == 7
    halfway = Ramp(Uniform(4, 8), updates=2).per_sequence(seed=0, update=1, batch=200)
    assert set(halfway.tolist()) == {2, 3, 4}
    assert Fixed(10).scaled(0.1 + 0.2).steps == 3, "which is a little more than 0.3"
    nested = Ramp(Ramp(Fixed(8), updates=2), updates=4)
    assert [nested.at(0, update) for update in range(5)] == [1, 1, 4, 6, 8]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Fixed(0), "steps must be at least 1, got 0"),
        (lambda: Uniform(0, 3), "depths must satisfy"),
        (lambda: Uniform(4, 3), "depths must satisfy"),
        (lambda: Poisson(-1.0, high=3), "mean must be finite and not negative, got -1.0"),
        (lambda: Poisson(math.inf, high=3), "mean must be finite and not negative, got inf"),
        (lambda: Poisson(8, high=0), "high must be at least 1, got 0"),
        (lambda: Ramp(Fixed(3), updates=0), "updates must be at least 1, got 0"),
        (lambda: Ramp(Fixed(3), updates=5, start=1.5), r"start must be in \[0, 1\], got 1.5"),
    ],
)
def test_depths_out_of_range_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()

"""The equalities that make one idea of scan and loop."""

import pytest
import torch

from cases import MAPS
from refusal import refused
from torsor.maps import ScaledRotation
from torsor.recurrence import loop, scan
from torsor.recurrence.depth import Fixed, Uniform


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
    together = loop(lambda x: step(x, given), state, torch.tensor([3, 1, 8, 3]))
    for row, depth in enumerate((3, 1, 8, 3)):
        alone = loop(lambda x, row=row: step(x, given[row : row + 1]), state[row : row + 1], depth)
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-13, atol=1e-13)


def test_a_depth_per_sequence_sends_back_each_sequence_s_own_gradient(step):
    given = torch.randn(3, 6)
    depths, limit = torch.tensor([5, 1, 3]), 2
    state = torch.randn(3, 6)
    together = given.clone().requires_grad_()
    loop(lambda x: step(x, together), state, depths, grad_steps=limit).sum().backward()
    for row in range(3):
        alone = given[row : row + 1].clone().requires_grad_()
        start = state[row : row + 1]
        loop(lambda x, alone=alone: step(x, alone), start, int(depths[row]), grad_steps=limit).sum().backward()
        torch.testing.assert_close(together.grad[row : row + 1], alone.grad, rtol=1e-12, atol=1e-12)


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
        (0, "at least 1, got 0"),
        (-3, "at least 1, got -3"),
        (2.0, "integer of at least 1, got 2.0"),
        (True, "integer of at least 1, got True"),
        ((), "empty tuple"),
        ((4, 0), "at least 1, got 0"),
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


@pytest.mark.parametrize("make", [lambda: Fixed(0), lambda: Uniform(0, 3), lambda: Uniform(4, 3)])
def test_depths_out_of_range_are_refused(make):
    with pytest.raises(ValueError, match=r"steps must be|depths must satisfy"):
        make()

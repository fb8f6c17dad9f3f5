"""Laws of the scan whose steps are linear: its definition, its hand-over, its numbers and its cost."""

import math
from itertools import pairwise

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from closeness import assert_close
from refusal import refused
from torsor.groups import cyclic
from torsor.maps import Dense, Diagonal, Permutation, ScaledRotation
from torsor.recurrence import linear_scan, scan
from torsor.recurrence.linear_scan import linear_scan_reference
from torsor.tasks import WordProblem


def between(low, high, *shape):
    return low + (high - low) * torch.rand(*shape)


# What a map is made of, for a batch of 2 and a length of 90, and how: every kind that a scan takes, of 8 coordinates.
CARRIES = {
    "rotations": (lambda: [between(0, 1, 4), between(-9, 9, 4)], ScaledRotation),
    "slow rotations": (lambda: [between(0.99, 1, 4), between(-9, 9, 4)], ScaledRotation),
    "rotations, half-split": (
        lambda: [between(0.9, 1, 4), between(-9, 9, 4)],
        lambda *of: ScaledRotation(*of, groups=2, pairing="half-split"),
    ),
    "rotations of each token": (lambda: [between(0.5, 1, 2, 90, 4), between(-9, 9, 2, 90, 4)], ScaledRotation),
    "rotations of each token, half-split": (
        lambda: [between(0.5, 1, 2, 90, 4), between(-9, 9, 2, 90, 4)],
        lambda *of: ScaledRotation(*of, groups=2, pairing="half-split"),
    ),
    "rotations of each position": (lambda: [between(0.5, 1, 90, 4), between(-9, 9, 90, 4)], ScaledRotation),
    "rotations of each sequence": (lambda: [between(0.5, 1, 2, 1, 4), between(-9, 9, 2, 1, 4)], ScaledRotation),
    "rotations, axes of size one": (lambda: [between(0.5, 1, 1, 1, 4), between(-9, 9, 1, 1, 4)], ScaledRotation),
    "diagonal": (lambda: [between(-1, 1, 8)], Diagonal),
    "diagonal of each token": (lambda: [between(-1, 1, 2, 90, 8)], Diagonal),
}
each_carry = pytest.mark.parametrize("name", CARRIES)
SHARED = [name for name in CARRIES if " of each " not in name and "axes" not in name]


def results_of(function, made_of, build, inputs, state, weights):
    leaves = [each.clone().requires_grad_() for each in (*made_of, inputs, state)]
    outputs = function(build(*leaves[:-2]), *leaves[-2:])
    return *outputs, *torch.autograd.grad(outputs, leaves, weights)


@each_carry
def test_the_fast_scan_is_the_slow_scan_in_its_outputs_and_in_all_gradients(name):
    make, build = CARRIES[name]
    given = make(), build, torch.randn(2, 90, 8), torch.randn(2, 8), (torch.randn(2, 90, 8), torch.randn(2, 8))
    for fast, slow in zip(results_of(linear_scan, *given), results_of(linear_scan_reference, *given), strict=True):
        assert fast.dtype == slow.dtype == torch.float64
        assert_close(fast, slow)


@pytest.mark.parametrize("name", SHARED)
def test_the_slow_scan_is_a_sum_of_powers_of_the_dense_matrix_and_a_scan_of_the_map(name):
    make, build = CARRIES[name]
    carry, inputs, state = build(*make()), torch.randn(2, 9, 8), torch.randn(2, 8)
    states, last = linear_scan_reference(carry, inputs, state)
    powers = [torch.linalg.matrix_power(carry.dense(), t) for t in range(10)]
    for t in range(9):
        expected = state @ powers[t + 1].mT + sum(inputs[:, s] @ powers[t - s].mT for s in range(t + 1))
        assert_close(states[:, t], expected)
    assert torch.equal(last, scan(lambda x, new: carry(x) + new, state, inputs)[1])


def test_a_map_of_each_token_is_applied_when_its_token_is_read():
    scale, angle = between(0.5, 1, 2, 3, 4), between(-3, 3, 2, 3, 4)
    inputs, state = torch.randn(2, 3, 8), torch.randn(2, 8)
    states, _ = linear_scan(ScaledRotation(scale, angle), inputs, state)
    for t in range(3):
        carry = ScaledRotation(scale[:, t], angle[:, t]).dense()
        state = (carry @ state[..., None])[..., 0] + inputs[:, t]
        assert_close(states[:, t], state)


@each_carry
def test_without_a_state_it_starts_at_zero_and_the_last_state_is_the_last_of_the_states(name):
    make, build = CARRIES[name]
    carry, inputs = build(*make()), torch.randn(2, 90, 8)
    states, last = linear_scan(carry, inputs)
    assert torch.equal(states, linear_scan(carry, inputs, torch.zeros(2, 8))[0])
    assert torch.equal(states[:, -1], last)


@pytest.mark.parametrize("cuts", [(0, 1, 300), (0, 64, 300), (0, 7, 8, 255, 300)])
@pytest.mark.parametrize("name", SHARED)
def test_the_state_hands_over_between_the_pieces_of_a_sequence(name, cuts):
    make, build = CARRIES[name]
    inputs, state = torch.randn(2, 300, 8, requires_grad=True), torch.randn(2, 8, requires_grad=True)
    carry = build(*make())
    whole, end = linear_scan(carry, inputs, state)
    pieces, last = [], state
    for start, stop in pairwise(cuts):
        piece, last = linear_scan(carry, inputs[:, start:stop], last)
        pieces.append(piece)
    weights = torch.randn_like(whole), torch.randn_like(end)
    found = torch.cat(pieces, dim=1), last
    for one, other in zip(found, (whole, end), strict=True):
        assert_close(one, other)
    grads = (torch.autograd.grad(each, (inputs, state), weights) for each in (found, (whole, end)))
    for one, other in zip(*grads, strict=True):
        assert_close(one, other)


def test_without_the_state_a_piece_is_another():
    carry, inputs = ScaledRotation(torch.full((4,), 0.9), torch.ones(4)), torch.randn(2, 20, 8)
    assert not torch.allclose(linear_scan(carry, inputs)[0][:, 10:], linear_scan(carry, inputs[:, 10:])[0])


@each_carry
def test_causal_an_input_changes_no_state_before_it_not_by_one_bit(name):
    make, build = CARRIES[name]
    carry, inputs = build(*make()), torch.randn(2, 90, 8)
    for position in (1, 15, 16, 89):
        changed = inputs.clone()
        changed[:, position] += 1e6
        before, after = linear_scan(carry, inputs)[0], linear_scan(carry, changed)[0]
        assert torch.equal(before[:, :position], after[:, :position])
        assert not torch.allclose(before[:, position], after[:, position])


# Its numbers.

SCALES = (0.0, 1e-45, 1e-38, 1e-3, 0.5, 1 - 1e-7, 1.0)
ANGLES = (0.0, 1e6, -1e30, math.pi)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_finite_for_every_scale_from_0_to_1_and_every_finite_angle(dtype, own):
    scale, angle = torch.cartesian_prod(torch.tensor(SCALES), torch.tensor(ANGLES)).to(dtype).unbind(1)
    if own:
        scale, angle = (each.expand(1, 700, -1).clone() for each in (scale, angle))
    inputs, state = torch.randn(1, 700, 56, dtype=dtype), torch.randn(1, 56, dtype=dtype)
    weights = torch.randn(1, 700, 56, dtype=dtype), torch.randn(1, 56, dtype=dtype)
    given = [scale, angle], ScaledRotation, inputs, state, weights
    for fast, slow in zip(results_of(linear_scan, *given), results_of(linear_scan_reference, *given), strict=True):
        assert fast.isfinite().all()
        # an undamped float32 state after 700 steps may be wrong by 700 roundings
        assert_close(fast, slow, 1e-12 if dtype == torch.float64 else 3e-5)


def test_the_form_that_divides_by_powers_is_not_finite_where_they_vanish():
    inputs = torch.randn(1, 700)
    states, _ = linear_scan(Diagonal(torch.tensor([1e-3])), inputs[..., None])
    powers = torch.tensor(1e-3) ** torch.arange(700)
    divided = powers * torch.cumsum(inputs / powers, dim=1)
    assert_close(divided[:, :50], states[:, :50, 0], 1e-9)
    assert not divided.isfinite().all()


def test_the_error_in_float32_is_that_of_the_loop():
    carry = ScaledRotation(between(0.9, 0.999, 16).float(), between(0, 6.28, 16).float())
    inputs = torch.randn(2, 4096, 32)
    exact, _ = linear_scan_reference(_rounded(carry), inputs)
    errors = [
        (function(carry, inputs.float())[0].double() - exact).abs().max()
        for function in (linear_scan, linear_scan_reference)
    ]
    assert errors[0] < 2 * errors[1]
    assert errors[0] < 1e-5 * exact.abs().max()


def _rounded(carry):
    """The map of the same multipliers, as rounded to float32, in float64."""
    multiplier = torch.complex(carry.scale * carry.angle.cos(), carry.scale * carry.angle.sin())
    multiplier = multiplier.to(torch.complex128)
    return ScaledRotation(multiplier.abs().clamp(max=1), multiplier.angle())


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inputs_in_half_precision_are_computed_and_returned_in_the_type_of_the_map(dtype, half):
    carry = ScaledRotation(torch.full((4,), 0.99, dtype=dtype), torch.ones(4, dtype=dtype))
    inputs = torch.randn(2, 90, 8).to(half)
    states, last = linear_scan(carry, inputs)
    assert states.dtype == last.dtype == dtype
    assert torch.equal(states, linear_scan(carry, inputs.to(dtype))[0])
    assert linear_scan(carry, inputs, last)[0].dtype == dtype


def test_autocast_changes_nothing():
    carry = ScaledRotation(torch.full((4,), 0.99).float(), torch.ones(4).float())
    inputs = torch.randn(2, 90, 8).float().requires_grad_()
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            states, _ = linear_scan(carry, inputs)
            results.append((states, *torch.autograd.grad(states.square().sum(), inputs)))
    assert all(torch.equal(*pair) for pair in zip(*results, strict=True))


def test_the_gradient_passes_finite_differences():
    def run(scale, angle, inputs, state):
        return linear_scan(ScaledRotation(scale, angle), inputs, state)

    given = between(0.5, 0.9, 2), between(-3, 3, 2), torch.randn(1, 70, 4), torch.randn(1, 4)
    assert torch.autograd.gradcheck(run, [each.requires_grad_() for each in given])


@pytest.mark.parametrize("loss", [lambda states: states.square().sum(), lambda states: states.sum()])
def test_a_derivative_of_the_gradient_is_refused(loss):
    inputs, scale = torch.randn(1, 5, 4, requires_grad=True), torch.full((4,), 0.5, requires_grad=True)
    states, _ = linear_scan(Diagonal(scale), inputs)
    (grad,) = torch.autograd.grad(loss(states), scale, create_graph=True)
    with pytest.raises(NotImplementedError, match="linear_scan has no second derivative: use linear_scan_reference"):
        grad.sum().backward()


# Its cost.


class Counted(TorchDispatchMode):
    """How many operations there are that compute, and of how many numbers."""

    def __init__(self):
        super().__init__()
        self.operations = self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if "mul" in func.name():
            self.operations += 1
            self.numbers += result.numel()
        return result


def cost(carry, inputs):
    with Counted() as counted, torch.no_grad():
        linear_scan(carry, inputs)
    return counted


def test_the_work_grows_as_the_length_in_fewer_than_150_operations_for_4096_tokens_of_512_coordinates():
    carry = ScaledRotation(torch.full((64,), 0.9), torch.ones(64))
    assert cost(carry, torch.randn(4, 4096, 128)).operations < 150
    assert cost(carry, torch.randn(1, 4096, 128)).operations < 150
    work = {length: cost(carry, torch.randn(1, length, 128)).numbers / length for length in (1024, 4096, 65536)}
    assert max(work.values()) < 2.4 * 64, "two numbers for each that is wanted, and a little"
    assert max(work.values()) < 1.2 * min(work.values())


@each_carry
def test_for_its_gradient_it_keeps_the_map_the_first_state_and_the_states_which_are_returned_in_any_case(name):
    make, build = CARRIES[name]
    made_of = [each.requires_grad_() for each in make()]
    inputs, state = torch.randn(2, 90, 8, requires_grad=True), torch.randn(2, 8, requires_grad=True)
    carry = build(*made_of)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        states, _ = linear_scan(carry, inputs, state)
    sizes = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in kept}
    for each in (*made_of, state):
        sizes.pop(each.untyped_storage().data_ptr(), None)
    if "half-split" in name:  # the states a second time, and so the first
        sizes = {place: size for place, size in sizes.items() if size != state.untyped_storage().nbytes()}
    assert list(sizes.values()) == [states.untyped_storage().nbytes()]
    assert (states.untyped_storage().data_ptr() in sizes) == ("half-split" not in name)


# What it is good for.


def test_a_turn_for_each_letter_solves_the_word_problem_of_a_cyclic_group():
    group, length = cyclic(5), 400
    batch = WordProblem(group, length=length, alphabet="all").batch(0, 3)
    angle = 2 * math.pi / 5 * batch.tokens[:, 1:, None].double()
    start = torch.tensor([[1.0, 0.0]]).expand(3, 2)
    states, _ = linear_scan(ScaledRotation(torch.ones_like(angle), angle), torch.zeros(3, length, 2), start)
    turned = torch.atan2(states[..., 1], states[..., 0]) * 5 / (2 * math.pi)
    assert torch.equal(turned.round().long() % 5, batch.targets[:, 1:])


# A user's mistakes.


def carry_of(scale=0.9, angle=1.0, dtype=torch.float64, leading=()):
    return ScaledRotation(torch.full((*leading, 4), scale, dtype=dtype), torch.full((*leading, 4), angle, dtype=dtype))


@pytest.mark.parametrize(
    ("carry", "inputs", "state", "words"),
    [
        (lambda: Dense(torch.eye(8)), (2, 5, 8), None, "carry must be a ScaledRotation or a Diagonal, got Dense"),
        (lambda: Permutation(torch.arange(8)), (2, 5, 8), None, "ScaledRotation or a Diagonal, got Permutation"),
        (lambda: carry_of(scale=1.5), (2, 5, 8), None, r"carry must have scales in \[0, 1\], got 1.5"),
        (lambda: carry_of(scale=-0.1), (2, 5, 8), None, r"carry must have scales in \[0, 1\], got -0.1"),
        (lambda: carry_of(scale=math.nan), (2, 5, 8), None, r"carry must have scales in \[0, 1\], got nan"),
        (lambda: carry_of(angle=math.inf), (2, 5, 8), None, "carry must have finite angles, got inf"),
        (lambda: carry_of(angle=math.nan), (2, 5, 8), None, "carry must have finite angles, got nan"),
        (lambda: Diagonal(torch.full((8,), -1.5)), (2, 5, 8), None, r"carry must have values in \[-1, 1\], got -1.5"),
        (lambda: carry_of(leading=(3, 5)), (2, 5, 8), None, r"no leading axes, or \(batch, length\) = \(2, 5\), got"),
        (lambda: carry_of(leading=(4,)), (2, 5, 8), None, r"or \(batch, length\) = \(2, 5\), got \(4,\)"),
        (lambda: carry_of(leading=(1, 2, 5)), (2, 5, 8), None, r"= \(2, 5\), got \(1, 2, 5\)"),
        (carry_of, (2, 0, 8), None, r"\(batch, length, dim = 8\) with at least one token, got \(2, 0, 8\)"),
        (carry_of, (0, 5, 8), None, r"with at least one token, got \(0, 5, 8\)"),
        (carry_of, (2, 5, 6), None, r"\(batch, length, dim = 8\) with at least one token, got \(2, 5, 6\)"),
        (carry_of, (5, 8), None, r"with at least one token, got \(5, 8\)"),
        (lambda: carry_of(dtype=torch.float32), (2, 5, 8), None, "inputs must be float32 like carry, .* got float64"),
        (carry_of, (2, 5, 8), torch.zeros(2, 8).float(), r"state must be float64 of shape \(2, 8\), got float32"),
        (carry_of, (2, 5, 8), (3, 8), r"state must be float64 of shape \(2, 8\), got float64 of \(3, 8\)"),
        (carry_of, (2, 5, 8), (2, 6), r"state must be float64 of shape \(2, 8\), got float64 of \(2, 6\)"),
    ],
)
def test_what_cannot_be_scanned_is_refused_in_one_line(carry, inputs, state, words):
    state = torch.zeros(state) if isinstance(state, tuple) else state
    with refused(words):
        linear_scan(carry(), torch.zeros(inputs), state)

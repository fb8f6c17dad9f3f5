"""What is never narrowed, in float64, float32 and bfloat16 autocast: maps, transitions, groups, scans."""

import pytest
import torch

from cases import MAPS, MATRIX_GROUPS, TRANSITIONS
from closeness import assert_close
from precisions import PRECISIONS, Precision, assert_near, exactly, in_every_precision, widened
from tolerances import FLOAT32
from torsor.groups import polish
from torsor.maps import Diagonal, ScaledRotation
from torsor.recurrence import linear_scan, m2rnn, scan
from torsor.recurrence.linear_scan import linear_scan_reference

every_map = pytest.mark.parametrize("name", MAPS)
every_transition = pytest.mark.parametrize("name", TRANSITIONS)
every_group = pytest.mark.parametrize("name", MATRIX_GROUPS)


@pytest.fixture(autouse=True)
def of_this_type(request):
    """New numbers are of the precision's type."""
    if "precision" in request.fixturenames:
        torch.set_default_dtype(request.getfixturevalue("precision").dtype)


# Maps.


def laws_of(m, x, y):
    """Pairs that must be equal, of a map and two states."""
    dense = m.dense()
    twice = m @ m
    return {
        "the fast form is the dense matrix": (m(x), torch.einsum("...ij,...j->...i", dense, x)),
        "it is linear": (m(2 * x - 3 * y), 2 * m(x) - 3 * m(y)),
        "the product is one after the other": (twice(x), m(m(x))),
        "the third power is three products": (m.power(3)(x), m(m(m(x)))),
        "the adjoint moves to the other side": ((m(x) * y).sum(-1), (x * m.adjoint()(y)).sum(-1)),
    }


@every_map
@in_every_precision
def test_the_laws_of_a_map_hold(name, precision):
    m = MAPS[name]()
    x, y = torch.randn(2, 2, *m.dense().shape[:-1])
    with precision.scope():
        found = {law: left for law, (left, _) in laws_of(m, x, y).items()}
    for law, (exact, expected) in exactly(laws_of, m.to(torch.float64), x.double(), y.double()).items():
        assert found[law].dtype == precision.dtype, law
        size = max(1.0, (x * y).sum(-1).abs().max().item()) if "adjoint" in law else 1.0  # a sum that may cancel
        assert_near(found[law], expected, precision.island * size)
        assert_near(exact, expected, PRECISIONS["float64"].island * size)


def test_half_precision_would_break_the_laws_of_a_map_by_far():
    torch.set_default_dtype(torch.float32)
    m, x = MAPS["dense"](), torch.randn(2, 8)
    narrowed = (x.bfloat16() @ m.dense().bfloat16().mT).float()
    with pytest.raises(AssertionError):
        assert_near(narrowed, m(x), 100 * FLOAT32.bound)


# Transitions.


def moved(name):
    """A transition away from its initial values."""
    transition = TRANSITIONS[name]()
    with torch.no_grad():
        for parameter in transition.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return transition


def one_step(transition, x, e, precision=PRECISIONS["float64"]):
    """A step without a block, and its gradients, which are taken outside of autocast as training does."""
    transition.zero_grad()
    with precision.scope():
        stepped = transition()(x) + transition.input_map()(e)
    stepped.sin().sum().backward()
    return stepped.detach(), {name: p.grad.clone() for name, p in transition.named_parameters() if p.grad is not None}


@every_transition
@in_every_precision
def test_a_step_and_its_gradients_are_those_of_the_same_numbers_in_float64(name, precision):
    transition, x, e = moved(name), *torch.randn(2, 4, TRANSITIONS[name]().dim)
    stepped, gradients = one_step(transition, x, e, precision)
    expected, exact = exactly(one_step, widened(transition), x.double(), e.double())
    assert stepped.dtype == precision.dtype
    assert_near(stepped, expected, precision.island)
    assert gradients.keys() == exact.keys()
    for parameter, gradient in gradients.items():
        assert_near(gradient, exact[parameter], precision.island_gradient)


@every_transition
def test_a_step_and_its_gradients_under_autocast_are_those_without_bit_for_bit(name):
    torch.set_default_dtype(torch.float32)
    transition, x, e = moved(name), *torch.randn(2, 4, TRANSITIONS[name]().dim)
    stepped, gradients = one_step(transition, x, e)
    narrowed, narrow_gradients = one_step(transition, x, e, PRECISIONS["bfloat16 autocast"])
    assert torch.equal(narrowed, stepped)
    assert all(torch.equal(narrow_gradients[parameter], gradients[parameter]) for parameter in gradients)


# Groups of matrices.


def group_laws(group, g, h, k, coordinates):
    """Pairs that must be equal."""
    product, inverse = group.compose, group.inverse
    tangent = group.from_coordinates(coordinates)
    one = group.identity_like(g).expand_as(g)
    return {
        "products are associative": (product(product(g, h), k), product(g, product(h, k))),
        "an inverse undoes": (product(g, inverse(g)), one),
        "opposite tangents undo each other": (product(group.exp(tangent), group.exp(-tangent)), one),
        "twice a tangent is its element twice": (group.exp(2 * tangent), product(*[group.exp(tangent)] * 2)),
        "coordinates come back": (group.to_coordinates(tangent), coordinates),
        "a projection is one": (group.project(group.project(g)) + one, group.project(g) + one),
        "an element does not move when it is polished": (polish(group, g), g),
        "Cayley leads into the group": (product(group.cayley(tangent), inverse(group.cayley(tangent))), one),
    }


@every_group
@in_every_precision
def test_the_laws_of_a_matrix_group_hold(name, precision: Precision):
    group = MATRIX_GROUPS[name]()
    g, h, k = group.random((3, 2), dtype=precision.dtype)
    coordinates = torch.randn(2, group.algebra_dim)
    with precision.scope():
        pairs = group_laws(group, g, h, k, coordinates)
        away = group.distance(group.compose(group.compose(g, h), group.exp(group.from_coordinates(coordinates))))
    assert away.max() < precision.island
    for law, (found, expected) in pairs.items():
        assert found.dtype.to_real() == precision.dtype, law
        assert_near(found, expected, precision.island)
    outside = group_laws(group, g, h, k, coordinates)
    assert all(torch.equal(pairs[law][0], outside[law][0]) for law in pairs)


# Scans.

CARRIES = {
    "rotations": lambda: ScaledRotation(torch.rand(4), 9 * torch.randn(4)),
    "slow rotations of each token": lambda: ScaledRotation(1 - 0.01 * torch.rand(2, 40, 4), torch.randn(2, 40, 4)),
    "diagonal": lambda: Diagonal(2 * torch.rand(8) - 1),
}


def scanned(function, carry, inputs, state):
    """Outputs and gradients of a scan."""
    leaves = [each.detach().clone().requires_grad_() for each in (inputs, state)]
    states, last = function(carry, *leaves)
    return states.detach(), last.detach(), *torch.autograd.grad(states.sin().sum() + last.sum(), leaves)


@pytest.mark.parametrize("name", CARRIES)
@in_every_precision
def test_a_linear_scan_and_its_gradients_are_those_of_the_same_numbers_in_float64(name, precision):
    carry, inputs, state = CARRIES[name](), torch.randn(2, 40, 8), torch.randn(2, 8)
    with precision.scope():
        found = scanned(linear_scan, carry, inputs, state)
        halves = linear_scan(carry, inputs, state)[0]
    expected = exactly(scanned, linear_scan_reference, carry.to(torch.float64), inputs.double(), state.double())
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == precision.dtype
        assert_near(one, other, 4 * precision.island)  # of 40 steps, hardly damped
    assert torch.equal(halves, linear_scan(carry, inputs, state)[0])


@in_every_precision
def test_a_scan_of_a_map_hands_its_state_over(precision):
    carry, inputs, state = CARRIES["rotations"](), torch.randn(2, 40, 8), torch.randn(2, 8)

    def step(x, new):
        return carry(x) + new

    with precision.scope():
        whole, end = scan(step, state, inputs)
        first, between = scan(step, state, inputs[:, :17])
        second, last = scan(step, between, inputs[:, 17:])
    assert torch.equal(torch.cat([first, second], 1), whole)
    assert torch.equal(last, end)
    assert_near(whole, linear_scan(carry, inputs, state)[0], precision.island)


@in_every_precision
def test_an_m2rnn_recurrence_is_that_of_the_same_numbers_in_float64(precision):
    given = [torch.randn(2, 30, 3, 4), torch.randn(2, 30, 3, 4), torch.randn(2, 30, 3, 5), torch.randn(3, 5, 5) / 3]
    given.append(torch.rand(2, 30, 3))
    with precision.scope():
        found = m2rnn(*given)
    for one, other in zip(found, exactly(m2rnn, *(each.double() for each in given)), strict=True):
        assert one.dtype == precision.dtype
        assert_near(one, other, 10 * precision.island)  # the matrix inside the tanh is free, and stretches
    assert_close(found[1], m2rnn(*given)[1], 0)

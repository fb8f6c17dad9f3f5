"""What a polish promises, and how far a long product of float32 elements leaves its group with and without it."""

import pytest
import torch

from cases import MATRIX_GROUPS
from closeness import assert_close
from tolerances import DRIFT
from torsor.groups import Orthogonal, departure, kept_near, polish
from torsor.models import GroupRNN
from torsor.models.group_rnn import CHECK_EVERY, POLISH_BEYOND


@pytest.fixture(params=MATRIX_GROUPS, ids=str)
def group(request):
    return MATRIX_GROUPS[request.param]()


def _off(group, size):
    """Elements, and the same with singular values off by up to a size."""
    elements = group.random((4,))
    stretch = 1 + size * (2 * torch.rand(4, *group.shape[-1:]) - 1)
    return elements, elements * stretch[..., None] if len(group.shape) == 2 else elements * stretch


def test_what_an_element_misses_is_squared(group):
    _, off = _off(group, 1e-3)
    missed, left = departure(group, off), departure(group, polish(group, off))
    assert (missed > 1e-4).any()
    assert (left <= group.dim * missed**2 + 1e-15).all()
    assert departure(group, polish(group, polish(group, off))).max() < 1e-10


def test_an_element_of_the_group_does_not_move(group):
    elements = group.random((4,))
    assert_close(polish(group, elements), elements)


def test_the_nearest_unitary_matrix_stays_the_nearest(group):
    elements, off = _off(group, 0.1)  # stretched from the left: the elements are the unitary polar factors
    for _ in range(6):
        off = polish(group, off)
    assert_close(off, elements)


def test_one_element_without_a_batch_keeps_its_shape_near_and_far():
    group = Orthogonal(3)
    element = group.random(dtype=torch.float64)
    for off in (element, 1.001 * element):
        assert kept_near(group, off, 1e-4).shape == (3, 3)
    assert_close(kept_near(group, 1.001 * element, 1e-4), polish(group, 1.001 * element))


def test_a_polish_keeps_the_component():
    group = Orthogonal(4)
    reflected = group.element(torch.randn(group.raw_shape), component=True)
    assert torch.linalg.det(polish(group, 1.01 * reflected)) < 0


def test_the_departure_is_the_largest_entry_of_what_the_gram_matrix_misses(group):
    _, off = _off(group, 0.1)
    dense = off if len(group.shape) == 2 else torch.diag_embed(off)
    missed = dense.mH @ dense - torch.eye(group.dim)
    assert_close(departure(group, off), missed.abs().flatten(1).amax(1))


@pytest.mark.long
@torch.no_grad()
def test_over_a_million_products_in_float32_a_polished_element_stays_within_the_bound_and_another_does_not(group):
    steps, moves = 1_000_000, group.random((1000,), dtype=torch.float32)
    # Where all of them make a reflection of the plane, twice all is nothing, and roundings soon repeat bit for bit.
    while group.shape == (2, 2) and not moves.is_complex() and torch.linalg.det(moves).prod() < 0:
        moves = group.random((1000,), dtype=torch.float32)
    state = group.random((2,), dtype=torch.float32)  # the first is kept near, the second never
    largest = 0.0
    for number in range(1, steps + 1):
        state = group.compose(state, moves[number % len(moves)])
        if number % CHECK_EVERY == 0:
            largest = max(largest, departure(group, state[0]).item())
            state = torch.cat([kept_near(group, state[:1], POLISH_BEYOND), state[1:]])
    other = departure(group, state[1]).item()
    print(f"{group}, {steps:,} products: {largest:.1e} at most polished, {other:.1e} at the end without")
    assert largest < DRIFT.bound
    assert state.isfinite().all()
    assert other > 2 * largest


# The recurrent model.


def test_in_float32_the_departure_stays_below_its_bound_however_long_the_sequence():
    model = GroupRNN(Orthogonal(8), vocabulary=7).float()
    tokens = torch.randint(0, 7, (2, 1536))

    def largest(beyond):
        state, found = None, []
        with torch.no_grad():
            for piece in tokens.split(128, dim=1):
                _, state = model(piece, state, polish_beyond=beyond)
                found.append(departure(model.group, state).max().item())
        return max(found)

    assert largest(3e-6) < 6e-6 < largest(torch.inf)


def test_a_window_of_some_hundred_tokens_has_the_numbers_of_one_without_a_polish():
    model, tokens = GroupRNN(Orthogonal(8), vocabulary=7).float(), torch.randint(0, 7, (2, 300))
    results = []
    for beyond in (POLISH_BEYOND, torch.inf):
        logits, state = model(tokens, polish_beyond=beyond)
        logits.square().sum().backward()
        results.append((logits, state, model.mixing.weights[0].grad.clone()))
        model.zero_grad()
    for left, right in zip(*results, strict=True):
        assert torch.equal(left, right)


def test_a_state_that_is_handed_over_off_the_group_is_polished_and_the_others_of_its_batch_are_not():
    model, tokens = GroupRNN(Orthogonal(4), vocabulary=7), torch.randint(0, 7, (2, 1))
    start = model.group.random((2,))
    off = start * torch.tensor([1.0, 1.001])[:, None, None]
    _, state = model(tokens, off)
    assert departure(model.group, state).max() < 1e-5
    _, unpolished = model(tokens, off, polish_beyond=torch.inf)
    assert departure(model.group, unpolished)[1] > 1e-3
    assert torch.equal(state[0], unpolished[0])
    assert departure(model.group, model.step(tokens[:, 0], off)[1]).max() < 1e-5

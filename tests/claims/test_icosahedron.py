"""A state on SO(3) holds A5: the rotations of an icosahedron, and the model that multiplies them."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from refusal import refused
from torsor.groups import alternating, icosahedral_rotations
from torsor.models import icosahedral_tracker
from torsor.tasks import WordProblem, score

GOLDEN = (1 + 5**0.5) / 2


def test_a_homomorphism_of_a5_into_so3_one_to_one():
    group, rotations = alternating(5), icosahedral_rotations()
    products = np.einsum("gij,hjk->ghik", rotations, rotations)
    assert np.abs(products - rotations[group.table]).max() < 1e-14
    assert np.abs(np.einsum("gij,gkj->gik", rotations, rotations) - np.eye(3)).max() < 1e-14
    assert np.linalg.det(rotations).min() > 0.999
    gaps = np.abs(rotations[:, None] - rotations[None]).max(axis=(2, 3)) + np.eye(60)
    assert gaps.min() > 0.1


def test_the_traces_are_those_of_the_character_table():
    group, rotations = alternating(5), icosahedral_rotations()
    traces = np.trace(rotations, axis1=1, axis2=2)
    for members in group.conjugacy_classes():
        assert np.ptp(traces[list(members)]) < 1e-14
    sizes = {len(members): round(traces[members[0]], 12) for members in group.conjugacy_classes()}
    assert (sizes[1], sizes[15], sizes[20]) == (3, -1, 0)
    fives = sorted(traces[members[0]] for members in group.conjugacy_classes() if len(members) == 12)
    assert np.allclose(fives, [1 - GOLDEN, GOLDEN])
    # 72 degrees: no other prototype comes nearer than that
    inner = np.einsum("gij,hij->gh", rotations, rotations)
    assert np.isclose(np.max(inner - 4 * np.eye(60)), GOLDEN)


@pytest.fixture(params=["generators", "all"])
def task(request):
    return WordProblem(alternating(5), length=1024, alphabet=request.param, seed=7)


@torch.no_grad()
def test_set_by_hand_it_answers_every_word_of_1024_letters_in_float32_and_its_state_stays_near_the_rotation(task):
    model = icosahedral_tracker(task.letters).float()
    rotations = torch.from_numpy(icosahedral_rotations()).float()
    batch, state = task.evaluation(4), None
    for start, stop in pairwise((0, 2, 300, 700, 1025)):
        logits, state = model(batch.tokens[:, start:stop], state)
        targets = batch.targets[:, start:stop]
        assert score(logits, targets).joint.value == 1
        assert state.dtype == torch.float32
        assert (state - rotations[targets[:, -1]]).abs().max() < 1e-3


@torch.no_grad()
def test_a_drive_that_is_off_by_a_few_degrees_is_seen(task):
    model = icosahedral_tracker(task.letters)
    model.drive += 0.06 * torch.randn_like(model.drive)
    batch = task.evaluation(4, 512)
    assert score(model(batch.tokens)[0], batch.targets).joint.value == 0


def test_a_letter_that_is_no_element_is_refused():
    with refused("letters must be some of 0 .. 59, got \\(1, 60\\)"):
        icosahedral_tracker((1, 60))
    with refused("letters must be some of 0 .. 59, got \\(\\)"):
        icosahedral_tracker(())

"""A newcomer's likeliest slips: a list for a tuple, a map for a transition, a state for a map, a word for a value."""

import numpy as np
import pytest
import torch

from refusal import refused
from torsor.diagnostics import (
    gram_matrix,
    lag_cosine,
    readability_defect,
    spectral_summary,
    toeplitz_defect,
)
from torsor.models import parcae_transformer
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Free


def transition() -> BlockConformal:
    return BlockConformal(8, groups=2)


@pytest.mark.parametrize("sequence", [list, tuple])
def test_a_scale_for_each_group_is_a_list_or_a_tuple(sequence):
    scales = BlockConformal(8, groups=2, initial_scale=sequence([0.4, 0.8]))().scale
    assert torch.allclose(scales, torch.tensor([0.4, 0.4, 0.8, 0.8], dtype=scales.dtype))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BlockConformal("64", groups=2), "dim must be an integer, got '64'"),
        (lambda: BlockConformal(64.0, groups=2), r"dim must be an integer, got 64\.0"),
        (lambda: BlockConformal(64, groups=2.0), r"groups must be an integer, got 2\.0"),
        (lambda: BlockConformal(64, groups=True), "groups must be an integer, got True"),
        (lambda: BlockDecay(64.0, groups=2), r"dim must be an integer, got 64\.0"),
        (lambda: Cayley(64, groups=2.0), r"groups must be an integer, got 2\.0"),
        (lambda: Free("8"), "dim must be an integer, got '8'"),
        (
            lambda: BlockConformal(8, groups=2, frequencies="geometric"),
            r"frequencies must be a Frequencies such as Geometric\(\) or Still\(\), got 'geometric'",
        ),
        (
            lambda: parcae_transformer(transition()(), vocabulary=3, heads=2),
            r"transition must be a transition, which learns, such as BlockConformal\(64, 2\), got a ScaledRotation",
        ),
        (
            lambda: transition()(torch.ones(8)),
            r"BlockConformal builds a map and takes no state: transition\(\) is the map, transition\(\)\(x\) carries x",
        ),
        (lambda: transition()()(torch.ones(8, dtype=torch.complex128)), "a tensor of real numbers, got complex128"),
        (lambda: transition()()(np.ones(8)), "a tensor of real numbers, got numpy.ndarray: torch.as_tensor makes one"),
        (lambda: transition()()([1.0] * 8), "a tensor of real numbers, got a list"),
    ],
)
def test_a_slip_is_answered_by_what_would_be_right(make, message):
    with refused(message):
        make()


@pytest.mark.parametrize("diagnostic", [gram_matrix, lag_cosine, readability_defect, spectral_summary, toeplitz_defect])
def test_a_diagnostic_of_a_transition_asks_for_its_map(diagnostic):
    with refused(r"map must be a linear map, got a BlockConformal: of a transition it is transition\(\)"):
        diagnostic(transition())

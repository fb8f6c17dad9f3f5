"""The statements of "Subgroups of U(d) Induce Natural RNN and Transformer Architectures"."""

import pytest
import torch

from torsor.groups import Orthogonal
from torsor.layers import (
    BCHMixing,
    IdentityMixing,
    LinearMixing,
    ParallelBlock,
    SerialBlock,
    TangentNetworkBlock,
    TwoHeadBlock,
    move_by_drive,
    move_from_token,
    move_then_multiply,
    move_to_token,
)
from torsor.models import LSTM, GroupRNN, GroupTransformer, Transformer

SHAKESPEARE, TREEBANK = 65, 50  # characters of the two vocabularies

PUBLISHED = [
    *[("group transformer", SHAKESPEARE, d, n) for d, n in ((16, 91429), (22, 277357), (24, 380757), (26, 511749))],
    *[("group transformer", TREEBANK, d, n) for d, n in ((17, 103482), (23, 310002), (25, 423754), (26, 491454))],
    ("group transformer, no mixing", SHAKESPEARE, 28, 103501),
    ("group transformer, BCH", SHAKESPEARE, 28, 103503),
    ("group RNN", SHAKESPEARE, 16, 55545),
    *[("transformer", SHAKESPEARE, d, n) for d, n in ((76, 104111), (132, 299047), (152, 392987), (172, 499727))],
    *[("transformer", TREEBANK, d, n) for d, n in ((76, 101816), (132, 295072), (156, 408616), (172, 494552))],
    ("LSTM", SHAKESPEARE, 80, 52305),
]

BUILD = {
    "group transformer": lambda v, d: GroupTransformer(Orthogonal(d), v),
    "group transformer, no mixing": lambda v, d: GroupTransformer(Orthogonal(d), v, mixing=IdentityMixing),
    "group transformer, BCH": lambda v, d: GroupTransformer(Orthogonal(d), v, mixing=BCHMixing),
    "group RNN": lambda v, d: GroupRNN(Orthogonal(d), v),
    "transformer": Transformer,
    "LSTM": LSTM,
}


def _count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize(("kind", "vocabulary", "size", "parameters"), PUBLISHED)
def test_the_models_have_the_published_numbers_of_parameters(kind, vocabulary, size, parameters):
    with torch.device("meta"):
        assert _count(BUILD[kind](vocabulary, size)) == parameters


def test_all_twenty_published_numbers_are_compared():
    assert len({row[-1] for row in PUBLISHED}) == 20


@pytest.mark.parametrize("block", [SerialBlock, ParallelBlock, TwoHeadBlock, TangentNetworkBlock])
@pytest.mark.parametrize(("mixing", "size", "parameters"), [(LinearMixing, 16, 91429), (BCHMixing, 28, 103503)])
def test_every_reading_of_the_layer_has_the_published_number(block, mixing, size, parameters):
    with torch.device("meta"):
        assert _count(GroupTransformer(Orthogonal(size), SHAKESPEARE, mixing=mixing, block=block)) == parameters


@pytest.mark.parametrize("move", [move_to_token, move_from_token, move_then_multiply, move_by_drive])
def test_every_reading_of_the_recurrence_has_the_published_number(move):
    with torch.device("meta"):
        assert _count(GroupRNN(Orthogonal(16), SHAKESPEARE, recurrence=move)) == 55545


@pytest.mark.parametrize(("size", "parameters"), [(15, 47165), (16, 55545), (17, 64971)])
def test_the_width_of_the_recurrent_model_is_the_nearest_to_the_lstm(size, parameters):
    with torch.device("meta"):
        assert _count(GroupRNN(Orthogonal(size), SHAKESPEARE)) == parameters
    assert abs(55545 - 52305) <= abs(parameters - 52305)


def test_a_move_is_a_unit_step_along_the_gradient_of_the_similarity_to_the_context():
    group = Orthogonal(5)
    state, context, direction = group.random(), torch.randn(5, 5), torch.randn(10)
    size = torch.zeros((), requires_grad=True)
    moved = group.compose(state, group.exp(group.from_coordinates(size * direction)))
    (slope,) = torch.autograd.grad((context * moved).sum(), size)
    tangent = group.from_coordinates(group.relative(state, context))
    torch.testing.assert_close(slope, (tangent * group.from_coordinates(direction)).sum())


def test_similarity_of_random_elements_has_mean_zero_and_variance_one_at_every_width():
    for dim in (3, 16):
        group = Orthogonal(dim)
        left, right = group.random((2, 4000))
        similarity = (left * right).sum((-2, -1))
        assert similarity.mean().item() == pytest.approx(0, abs=0.08)
        assert similarity.var().item() == pytest.approx(1, abs=0.1)


def test_with_its_trace_divided_by_the_width_a_readout_could_not_be_sure_of_a_character():
    group = Orthogonal(16)
    prototypes = group.flatten(group.random((SHAKESPEARE,)))
    logits = prototypes @ prototypes.T  # of states that lie on a prototype
    assert logits.softmax(-1).diagonal().min() > 0.99
    # logits from -1 to 1 leave a probability of e / (e + 64 / e) at most: 3.27 bits, and 2.3 were published
    assert (logits / group.dim).softmax(-1).max() < torch.tensor([1.0] + [-1.0] * 64).softmax(0)[0] < 2**-3.2

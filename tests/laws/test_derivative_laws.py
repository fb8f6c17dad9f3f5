"""A backward pass of our own refuses a second derivative, also where the first one's comes in as a constant."""

import pytest
import torch

from torsor.layers.attention import causal_attention
from torsor.layers.feedforward import feedforward
from torsor.layers.group_attention import trace_attention
from torsor.layers.norm import unit_rms
from torsor.maps import Diagonal
from torsor.recurrence import linear_scan, m2rnn


def wanting(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float32).requires_grad_()


def attention():
    joined = wanting(2, 8, 3, 2, 4)
    return causal_attention(joined, torch.polar(torch.ones(8, 2), torch.rand(8, 2))), joined


def position_wise():
    up = wanting(16, 8)
    return feedforward(wanting(2, 4, 8), wanting(2, 4, 8), up, wanting(8, 16)), up


def group_attention():
    states = wanting(2, 8, 9)
    return trace_attention(states, states, torch.ones(()), torch.ones(())), states


def norm():
    x = wanting(2, 8)
    return unit_rms(x, 1e-6), x


def scan():
    scale = torch.full((4,), 0.5, dtype=torch.float32).requires_grad_()
    return linear_scan(Diagonal(scale), torch.ones(1, 5, 4))[0], scale


def matrix_states():
    weight = wanting(2, 4, 4)
    key, value, forget = (torch.randn(1, 5, 2, 4) for _ in range(3))
    return m2rnn(key, key, value, weight, forget[..., 0].sigmoid())[0], weight


@pytest.mark.parametrize("made", [attention, position_wise, group_attention, norm, scan, matrix_states])
@pytest.mark.parametrize("loss", [torch.sum, lambda outputs: outputs.square().sum()], ids=["a sum", "squares"])
def test_a_second_derivative_is_refused_and_no_part_of_it_left_out(made, loss):
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    outputs, given = made()
    (gradient,) = torch.autograd.grad(loss(outputs), given, create_graph=True)
    with pytest.raises(NotImplementedError, match=r"^(\w+) has no second derivative: use \1_reference$"):
        (gradient.square().sum() + given.sum()).backward()


@pytest.mark.parametrize("made", [attention, position_wise, group_attention, norm, scan, matrix_states])
def test_a_graph_of_the_gradient_that_nobody_follows_changes_no_gradient(made):
    torch.set_default_dtype(torch.float32)
    found = []
    for graph in (False, True):
        torch.manual_seed(0)
        outputs, given = made()
        (gradient,) = torch.autograd.grad(outputs.square().sum(), given, create_graph=graph)
        found.append(gradient.detach())
    assert torch.equal(*found)

"""What stands beside M²RNN and RotRNN: the linear recurrence that fades without turning, in RotRNN's own block."""

import math
from functools import partial

import pytest
import torch
from scipy.stats import kstest
from torch.nn.functional import gelu

from closeness import assert_close
from refusal import refused
from torsor.layers import DecayLayer, RotationStart, RotRNNBlock, RotRNNLayer
from torsor.models import RotRNN


def layer(seed=0, **arguments) -> DecayLayer:
    made = DecayLayer(3, dim=8, generator=torch.Generator().manual_seed(seed), **arguments)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return made


def test_it_is_the_documented_recurrence_step_by_step():
    made, x, state = layer(), torch.randn(2, 40, 3), torch.randn(2, 8)
    outputs, (last,) = made(x, (state,))
    contraction = made.decay.contraction
    rate = torch.exp(-contraction.raw_timestep.exp().log1p() * contraction.log_rate.exp())
    unit = made.write / made.write.square().sum(1, keepdim=True).sqrt()
    expected = []
    for each in x.unbind(1):
        state = rate * state + (1 - rate**2).sqrt() * (each @ unit.mT)
        expected.append(state @ made.read.mT + made.skip * each)
    assert_close(outputs, torch.stack(expected, dim=1))
    assert_close(last, state)


def test_white_inputs_hold_every_coordinate_at_the_documented_variance():
    # the variance of a linear recurrence, from the responses to every input of every time
    made = layer()
    with torch.no_grad():
        impulses = torch.zeros(3, 30, 3)
        impulses[torch.arange(3), 0, torch.arange(3)] = 1
        states = torch.stack([made(impulses[:, :length])[1][0] for length in range(1, 31)])
        variance = states.square().sum(1).cumsum(0)
        rate = made.decay().values
        times = torch.arange(1, 31)[:, None]
        assert_close(variance, 1 - rate ** (2 * times))
        made.write.mul_(7)
        assert_close(torch.stack([made(impulses[:, :1])[1][0]]), states[:1])


def test_an_impulse_fades_without_a_change_of_sign_where_rotrnn_s_turns():
    impulse = torch.zeros(1, 50, 3)
    impulse[0, 0] = 1
    made = layer()
    states = torch.stack([made(impulse[:, :length])[1][0][0] for length in range(1, 51)])
    assert (states * states[0] > 0).all()
    assert (states.abs().diff(dim=0) < 0).all()
    turning = RotRNNLayer(3, dim=8, heads=2, generator=torch.Generator().manual_seed(0))
    states = torch.stack([turning(impulse[:, :length])[1][0][0] for length in range(1, 51)])
    assert not (states * states[0] > 0).all()


def test_the_number_of_parameters_is_the_documented_one_and_nearly_rotrnn_s():
    for width, dim in ((3, 8), (64, 64), (48, 128)):
        plain = sum(p.numel() for p in DecayLayer(width, dim).parameters())
        assert plain == 2 * dim * width + width + 2 * dim
        turning = sum(p.numel() for p in RotRNNLayer(width, dim, heads=dim // 4).parameters())
        assert turning - plain == dim // 4


def test_rates_start_evenly_in_the_logarithm_of_minus_their_logarithm():
    made = DecayLayer(1, 4000, start=RotationStart(scales=(0.8, 0.999)), generator=torch.Generator().manual_seed(0))
    drawn = (-made.decay().values.detach().log()).log()
    low, high = math.log(-math.log(0.999)), math.log(-math.log(0.8))
    assert kstest(drawn.numpy(), "uniform", (low, high - low)).pvalue > 1e-3


def test_a_rate_that_rounds_to_one_leaves_outputs_and_gradients_finite():
    made = layer().float()
    with torch.no_grad():
        made.decay.contraction.log_rate.fill_(-60)
    outputs, _ = made(torch.randn(2, 5, 3, dtype=torch.float32))
    outputs.square().sum().backward()
    assert outputs.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in made.parameters())


@pytest.mark.parametrize("kind", [DecayLayer, RotRNNLayer])
def test_both_stand_in_the_same_block(kind):
    block = RotRNNBlock(4, 8, 2, layer=kind, generator=torch.Generator().manual_seed(0))
    assert type(block.recurrence) is kind
    x = torch.randn(2, 9, 4)
    seen = gelu(block.recurrence(block.norm(x))[0])
    assert_close(block(x)[0], x + seen * torch.sigmoid(block.gate(seen)))


def test_the_model_around_them_is_the_same_and_hands_its_state_over():
    models = [
        RotRNN(7, 8, 2, layers=3, classes=5, block=partial(RotRNNBlock, layer=kind))
        for kind in (DecayLayer, RotRNNLayer)
    ]
    tokens = torch.randint(7, (2, 20))
    for model in models:
        whole, last = model(tokens)
        first, state = model(tokens[:, :7])
        second, state = model(tokens[:, 7:], state)
        assert_close(torch.cat([first, second], dim=1), whole)
        assert_close(state, last)
    assert [*models[0].state_dict()] != [*models[1].state_dict()]


def test_a_plain_layer_is_refused_where_sizes_do_not_fit_or_both_ways_are_asked_for():
    with refused("width and dim must be at least 1, got 0 and 8"):
        DecayLayer(0, 8)
    with refused("layer must be RotRNNLayer where a block reads both ways, got another"):
        RotRNNBlock(4, 8, 2, layer=DecayLayer, bidirectional=True)
    with refused("x must have shape"):
        layer()(torch.zeros(1, 0, 3))
    with refused("state must hold 1 tensors, got 2"):
        layer()(torch.zeros(1, 2, 3), (torch.zeros(1, 8), torch.zeros(1, 8)))

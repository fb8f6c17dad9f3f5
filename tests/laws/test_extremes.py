"""Extreme rates, frequencies, widths, lengths, depths and batches: right, or refused by one clear line."""

import math

import pytest
import torch

from cases import LAYERED_MODELS, MATRIX_GROUPS, MODELS, SEQUENCE_LAYERS, SEQUENCE_MODELS, TRANSITIONS
from closeness import assert_close
from refusal import refused
from torsor.maps import Diagonal, ScaledRotation
from torsor.recurrence import linear_scan, scan
from torsor.transitions import BlockConformal, BlockDecay, Cayley, Exponential, Householder

CHARTS = {"Cayley": Cayley, "exponential": Exponential, "Householder": Householder}
every_type = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@every_type
@pytest.mark.parametrize("scale", [1e-38, 1e-15, 4e-10, 1e-7, 0.5, 1 - 1e-7])
@pytest.mark.parametrize("kind", [BlockDecay, BlockConformal])
def test_a_rate_of_any_size_is_reached_and_has_a_finite_gradient(kind, scale, dtype):
    torch.set_default_dtype(dtype)
    transition = kind(8, groups=2, initial_scale=scale)
    dense = transition().dense()
    found = torch.linalg.matrix_norm(dense, ord=2).item()
    # e^-t of a rounded t: the relative error of the scale is that of t times t
    epsilon = torch.finfo(dtype).eps
    assert found == pytest.approx(scale, rel=16 * epsilon * (1 - math.log(scale)), abs=0)
    assert found < 1 or scale > 1 - 2 * epsilon
    transition().dense().square().sum().backward()
    for name, parameter in transition.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("scale", [0.0, 1.0, -0.5, math.nan, math.inf, 2.0])
@pytest.mark.parametrize("kind", [BlockDecay, BlockConformal, *CHARTS.values()])
def test_a_rate_outside_of_the_open_interval_is_refused(kind, scale):
    with refused("^initial_scale must lie strictly between 0 and 1, got "):
        kind(8, groups=1, initial_scale=scale)


@every_type
@pytest.mark.parametrize("frequency", [0.0, math.pi, 1e6, -1e6])
def test_a_frequency_of_any_size_turns_as_far_as_its_rounded_number_says(frequency, dtype):
    angle = torch.full((4,), frequency, dtype=dtype)
    x = torch.randn(3, 8, dtype=dtype)
    turned = ScaledRotation(torch.ones(4, dtype=dtype), angle)(x)
    exact = float(angle[0])
    first, second = x[..., 0::2].double(), x[..., 1::2].double()
    expected = torch.stack(
        (math.cos(exact) * first - math.sin(exact) * second, math.sin(exact) * first + math.cos(exact) * second), -1
    ).flatten(-2)
    assert (turned.double() - expected).abs().max() <= 16 * torch.finfo(dtype).eps * x.abs().max()
    assert turned.norm().item() == pytest.approx(x.norm().item(), rel=16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("width", [2, 4, 1024, 8192])
def test_a_rotation_of_any_width_keeps_the_norm_up_to_its_scale(width):
    transition = BlockConformal(width, groups=1, initial_scale=0.5)
    x = torch.randn(2, width)
    assert torch.allclose(transition()(x).norm(dim=-1), 0.5 * x.norm(dim=-1), rtol=1e-12)
    decayed = BlockDecay(width, groups=width, initial_scale=0.5)()(x)
    assert torch.allclose(decayed, 0.5 * x, rtol=1e-12)


@pytest.mark.parametrize("width", [2, 3, 64, 512])
@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_a_dense_chart_of_any_width_up_to_512_is_orthogonal(chart, width):
    with torch.no_grad():
        (matrix,) = chart(width).orthogonal()
    assert (matrix @ matrix.T - torch.eye(width)).abs().max() < 1e-13 * max(8, width)


@pytest.mark.parametrize("width", [0, 1, -2])
@pytest.mark.parametrize("kind", [BlockConformal, *CHARTS.values()])
def test_a_width_without_a_plane_is_refused(kind, width):
    with refused(f"dim, the width, must be .*, got {width}$"):
        kind(width, groups=1)


@pytest.mark.parametrize("steps", [1, 1024])
def test_a_map_applied_many_times_is_its_power(steps):
    scale, angle = torch.full((4,), 1 - 1e-4), torch.linspace(0, math.pi, 4)
    carry, x = ScaledRotation(scale, angle), torch.randn(2, 8)
    state = x
    for _ in range(steps):
        state = carry(state)
    power = ScaledRotation(scale**steps, angle * steps)(x)
    assert (state - power).abs().max() < 1e-14 * (steps + 8) * x.abs().max()
    decay = Diagonal(torch.full((8,), 1e-38))
    assert decay(decay(x)).abs().max() < 1e-75


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_an_empty_batch_of_states_is_carried_to_an_empty_batch(name, shape):
    transition = TRANSITIONS[name]()
    x = torch.empty(*shape, transition.dim)
    assert transition()(x).shape == x.shape
    assert transition.input_map()(x).shape == x.shape


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(0, 4), (2, 0)])
def test_a_batch_without_a_word_or_without_a_letter_is_refused_in_one_line(name, shape):
    with refused("tokens must have shape .batch, length. with at least one token, got "):
        MODELS[name]()(torch.empty(*shape, dtype=torch.int64), steps=2)


@pytest.mark.parametrize("steps", [1, 1024])
def test_a_looped_model_of_any_depth_gives_finite_logits(steps):
    model = MODELS[next(iter(MODELS))]()
    with torch.no_grad():
        assert model(torch.tensor([[0, 1, 2]]), steps=steps).isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_a_depth_of_1_beside_one_of_64_is_that_depth_alone(name):
    model, tokens = MODELS[name](), torch.tensor([[0, 1, 2], [2, 1, 0]])
    with torch.no_grad():
        together = model(tokens, steps=torch.tensor([1, 64]))
        assert_close(together[:1], model(tokens[:1], steps=1))
        assert_close(together[1:], model(tokens[1:], steps=64))


# Lengths.


@every_type
@pytest.mark.parametrize("length", [1, 2, 1_000_000])
def test_a_linear_scan_of_any_length_is_the_sum_of_the_powers_of_its_map(length, dtype):
    scale, angle = 1 - 2.0**-10, 0.3
    carry = ScaledRotation(torch.tensor([scale], dtype=dtype), torch.tensor([angle], dtype=dtype))
    states, last = linear_scan(carry, torch.tensor([1.0, 0.0], dtype=dtype).expand(1, length, 2).contiguous())
    turned = complex(math.cos(float(carry.angle)), math.sin(float(carry.angle))) * float(carry.scale)
    expected = (1 - turned**length) / (1 - turned)
    found = complex(*last[0].tolist())
    assert states.isfinite().all()
    assert abs(found - expected) < 2000 * torch.finfo(dtype).eps * abs(expected)


def test_without_damping_a_scan_of_a_million_inputs_is_exact_where_its_numbers_are():
    states, last = linear_scan(Diagonal(torch.ones(1)), torch.ones(1, 1_000_000, 1))
    assert last.item() == 1_000_000
    assert torch.equal(states.flatten(), torch.arange(1.0, 1_000_001))


@pytest.mark.long
def test_a_step_by_step_scan_of_a_million_inputs_is_the_linear_scan():
    carry, inputs = ScaledRotation(torch.tensor([0.999]), torch.tensor([0.3])), torch.randn(1, 1_000_000, 2)
    with torch.no_grad():
        _, last = scan(lambda x, new: carry(x) + new, torch.zeros(1, 2), inputs)
        _, fast = linear_scan(carry, inputs)
    assert (last - fast).abs().max() < 1e-10 * last.abs().max()


@pytest.mark.parametrize("name", SEQUENCE_LAYERS)
def test_a_layer_reads_one_element_and_refuses_none(name):
    layer = SEQUENCE_LAYERS[name]()
    outputs, state = layer(torch.randn(2, 1, 6))
    assert outputs.isfinite().all()
    assert layer(torch.randn(2, 1, 6), state)[0].shape == (2, 1, 6)
    with refused("^(x|q) must (have .*at least one element|not be empty), got "):
        layer(torch.randn(2, 0, 6))


@pytest.mark.parametrize("name", SEQUENCE_MODELS | LAYERED_MODELS)
def test_a_model_reads_one_token_and_refuses_none(name):
    model = (SEQUENCE_MODELS | LAYERED_MODELS)[name]()
    found = model(torch.tensor([[3], [0]]))
    assert (found[0] if isinstance(found, tuple) else found).isfinite().all()
    for shape in ((2, 0), (0, 4)):
        with refused("tokens must have shape .batch, length. with at least one token, got "):
            model(torch.empty(*shape, dtype=torch.int64))


@pytest.mark.parametrize("name", MATRIX_GROUPS)
def test_an_empty_batch_of_elements_is_multiplied_to_an_empty_batch(name):
    group = MATRIX_GROUPS[name]()
    none = group.random((0,))
    assert group.compose(none, none).shape == group.inverse(none).shape == (0, *group.shape)


@every_type
@pytest.mark.parametrize("size", [0.0, 1e-38, 1e-7, math.pi, 1e6])
@pytest.mark.parametrize("name", MATRIX_GROUPS)
def test_a_tangent_of_any_size_leads_into_the_group(name, size, dtype):
    torch.set_default_dtype(dtype)
    group = MATRIX_GROUPS[name]()
    coordinates = torch.randn(3, group.algebra_dim)
    tangent = group.from_coordinates(coordinates / coordinates.abs().max() * size)
    element = group.exp(tangent)
    # squaring again and again doubles what the first step rounds: as many roundings as the tangent is long
    assert group.distance(element).max() < 64 * torch.finfo(dtype).eps * max(1.0, size)
    if size == 0:
        assert torch.equal(element, group.identity_like(element).expand_as(element))

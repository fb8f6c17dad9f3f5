"""Layers and models in float64, in float32 and under bfloat16 autocast: the same numbers, the same laws."""

import math

import pytest
import torch

from cases import CODE_MOVES, LAYERED_MODELS, MODELS, SEQUENCE_LAYERS, SEQUENCE_MODELS, stirred
from precisions import PRECISIONS, assert_near, exactly, in_every_precision, widened
from tolerances import STRETCHED
from torsor.layers import M2RNNLayer
from torsor.models import GroupRNN, GroupTransformer, LoopedTransformer, SnappedRNN, Transformer

WIDTH, STEPS = 6, 3
TOKENS = torch.tensor([[2, 0, 1, 1, 0, 1, 2], [1, 1, 1, 0, 2, 0, 2], [0, 2, 0, 0, 1, 2, 1]])
EVERY = {
    **{f"looped: {name}": make for name, make in MODELS.items()},
    **{f"sequence: {name}": make for name, make in SEQUENCE_MODELS.items()},
    **{f"layered: {name}": make for name, make in LAYERED_MODELS.items()},
    **{f"snapped: {name}": lambda make=make: SnappedRNN(make()) for name, make in CODE_MOVES.items()},
}
every_model = pytest.mark.parametrize("name", EVERY)
READING_ON = [name for name in EVERY if not name.startswith("looped")]


@pytest.fixture(autouse=True)
def of_this_type(request):
    """New numbers are of the precision's type."""
    if "precision" in request.fixturenames:
        torch.set_default_dtype(request.getfixturevalue("precision").dtype)


def stays_wide(model):
    """Whether autocast is kept out of all of it: group arithmetic and tables of scores."""
    return isinstance(model, GroupRNN | GroupTransformer | SnappedRNN)


def tolerances(model, precision):
    """Of values and of gradients."""
    if stays_wide(model):
        return precision.island, precision.island_gradient
    if precision.narrowed and any(isinstance(each, M2RNNLayer) for each in model.modules()):
        return STRETCHED.bound, math.inf
    return precision.outside, precision.outside_gradient


def logits_of(model, tokens):
    if isinstance(model, LoopedTransformer):
        return model(tokens, steps=STEPS)
    found = model(tokens)
    return found[0] if isinstance(found, tuple) else found


def with_gradients(model, outputs_of, precision=PRECISIONS["float64"]):
    """Outputs, and gradients, which are taken outside of autocast as training does."""
    model.zero_grad()
    with precision.scope():
        outputs = outputs_of(model)
    outputs.to(torch.promote_types(outputs.dtype, torch.float32)).tanh().sum().backward()
    return outputs.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_those_of_float64(model, outputs_of, wide_outputs_of, precision):
    outputs, gradients = with_gradients(model, outputs_of, precision)
    expected, exact = exactly(with_gradients, widened(model), wide_outputs_of)
    values, slopes = tolerances(model, precision)
    assert_near(outputs, expected, values)
    assert gradients.keys() == exact.keys()
    for parameter, gradient in gradients.items():
        assert gradient.dtype == precision.dtype
        assert gradient.isfinite().all()
        if (
            slopes < math.inf and exact[parameter].abs().max() > 1e-6
        ):  # of one that is 0 but for roundings nothing is left to compare
            assert_near(gradient, exact[parameter], slopes)


@every_model
@in_every_precision
def test_logits_and_gradients_are_those_of_the_same_numbers_in_float64(name, precision):
    def outputs_of(model):
        return logits_of(model, TOKENS)

    assert_those_of_float64(EVERY[name](), outputs_of, outputs_of, precision)


@pytest.mark.parametrize("name", SEQUENCE_LAYERS)
@in_every_precision
def test_outputs_and_gradients_of_a_layer_are_those_of_the_same_numbers_in_float64(name, precision):
    layer, x = stirred(SEQUENCE_LAYERS[name]()), torch.randn(2, 9, WIDTH)
    assert_those_of_float64(layer, lambda layer: layer(x)[0], lambda layer: layer(x.double())[0], precision)


@every_model
@in_every_precision
@torch.no_grad()
def test_causal_and_alone_a_sequence_has_the_same_logits(name, precision):
    model, changed = EVERY[name](), TOKENS.clone()
    changed[:, 4] = 2 - changed[:, 4]
    changed[:, 4] += changed[:, 4] == TOKENS[:, 4]
    with precision.scope():
        logits = logits_of(model, TOKENS)
        causal, alone = logits_of(model, changed)[:, :4], logits_of(model, TOKENS[1:2])
    values, _ = tolerances(model, precision)
    assert_near(causal, logits[:, :4], values)
    assert_near(alone, logits[1:2], values)


@pytest.mark.parametrize("name", READING_ON)
@in_every_precision
@torch.no_grad()
def test_in_pieces_a_sequence_has_the_same_logits(name, precision):
    model = EVERY[name]()
    read_on = model.extend if isinstance(model, Transformer | GroupTransformer) else model
    with precision.scope():
        whole = logits_of(model, TOKENS)
        first, state = read_on(TOKENS[:, :3], model.initial_state(3))
        second, _ = read_on(TOKENS[:, 3:], state)
    values, _ = tolerances(model, precision)
    assert_near(torch.cat([first, second], 1), whole, values)


@every_model
@torch.no_grad()
def test_autocast_reaches_the_layers_of_a_model_and_not_its_group_arithmetic(name):
    torch.set_default_dtype(torch.float32)
    model = EVERY[name]()
    with PRECISIONS["bfloat16 autocast"].scope():
        narrowed = logits_of(model, TOKENS)
    assert torch.equal(narrowed.float(), logits_of(model, TOKENS)) == stays_wide(model)

"""Laws of layers that carry a state, of models built of lists of them, and of the parts of the M²RNN layer."""

from itertools import accumulate, pairwise

import pytest
import torch
from torch.nn.functional import conv1d

from cases import LAYERED_MODELS, M2RNN_HEADS, SEQUENCE_LAYERS, stirred
from closeness import assert_close
from refusal import refused
from register import concrete_subclasses
from torsor.generation import generate
from torsor.layers import (
    CachedAttention,
    ForgetGate,
    LSTMLayer,
    M2RNNLayer,
    M2RNNStart,
    MatrixHeads,
    SequenceBlock,
    SequenceLayer,
    ShortConvolution,
    SwiGLU,
)
from torsor.models import LSTM, M2RNN, Hybrid, LayeredModel
from torsor.training.optimizer import decays

WIDTH = 6


@pytest.fixture(params=SEQUENCE_LAYERS, ids=str)
def layer(request):
    return stirred(SEQUENCE_LAYERS[request.param]())


@pytest.fixture(params=LAYERED_MODELS, ids=str)
def model(request):
    return stirred(LAYERED_MODELS[request.param]())


TOKENS = torch.tensor([[2, 0, 6, 1, 0, 1, 3], [5, 1, 1, 0, 4, 0, 2], [3, 3, 0, 0, 1, 6, 6]])


def flat(state):
    """The tensors of a layer's or a model's state, those without a number left out."""
    parts = [part for each in state for part in (each if isinstance(each, tuple) else (each,))]
    return [part for part in parts if part.numel()]


def test_every_layer_and_every_model_of_layers_is_in_the_register():
    assert {type(make()) for make in SEQUENCE_LAYERS.values()} == concrete_subclasses(SequenceLayer)
    assert {type(make()) for make in LAYERED_MODELS.values()} == concrete_subclasses(LayeredModel) == {M2RNN, Hybrid}


# Layers.


def test_causal_an_element_changes_no_output_before_it(layer):
    x = torch.randn(2, 9, WIDTH)
    changed = x.clone()
    changed[:, 5] += 1
    before, after = layer(x)[0], layer(changed)[0]
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=1e-13, atol=1e-13)
    assert not torch.allclose(before[:, 5], after[:, 5])
    assert not torch.allclose(before[:, 8], after[:, 8])


@pytest.mark.parametrize("cuts", [(0, 1, 30), (0, 17, 18, 30), (0, 2, 4, 30)])
def test_a_sequence_in_pieces_equals_the_sequence_in_one_in_outputs_state_and_gradients(layer, cuts):
    x = torch.randn(2, 30, WIDTH, requires_grad=True)
    outputs, last = layer(x)
    state, pieces = layer.initial_state(2), []
    for start, end in pairwise(cuts):
        piece, state = layer(x[:, start:end], state)
        pieces.append(piece)
    found, expected = [torch.cat(pieces, dim=1), *flat(state)], [outputs, *flat(last)]
    weights = [torch.randn_like(each) for each in expected]
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    variables = [x, *layer.parameters()]
    back = (torch.autograd.grad(each, variables, weights) for each in (found, expected))
    for one, other in zip(*back, strict=True):
        assert_close(one, other, 1e-11)


def assert_packed_equals_each_alone(read, packed, state, inputs, lengths, variables):
    """For ``read(inputs, state)`` and ``packed(inputs, boundaries, state)``, in outputs, states and all gradients.

    Outputs and inputs are "1 length ..."; the state is a flat list of "sequences ...".
    """
    boundaries = [0, *accumulate(lengths)]
    outputs, last = packed(inputs, torch.tensor(boundaries), state)
    together = [each for each in (outputs, *last) if each.numel()]  # a kernel of one has a window of none
    weights = [torch.randn_like(each) for each in together]
    wanted = [*(each for each in (inputs, *state) if each.requires_grad and each.numel()), *variables]
    grads = torch.autograd.grad(together, wanted, weights)
    pieces, states = [], []
    for number, (start, end) in enumerate(pairwise(boundaries)):
        piece, after = read(inputs[:, start:end], [part[number : number + 1] for part in state])
        pieces.append(piece)
        states.append(after)
    alone = [torch.cat(pieces, dim=1), *(torch.cat(parts) for parts in zip(*states, strict=True) if parts[0].numel())]
    for found, expected in zip(together, alone, strict=True):
        assert_close(found, expected)
    for found, expected in zip(grads, torch.autograd.grad(alone, wanted, weights), strict=True):
        assert_close(found, expected, 1e-11)


LENGTHS = (5, 1, 2, 17, 5)


def test_packed_sequences_equal_each_sequence_alone_or_are_refused(layer):
    x = torch.randn(1, 30, WIDTH, requires_grad=True)
    state = [torch.rand_like(part).requires_grad_() for part in layer.initial_state(5)]
    if isinstance(layer, CachedAttention):
        with refused("cu_seqlens must be None for attention, which has no mask between sequences, got boundaries"):
            layer.forward_packed(x, torch.tensor([0, *accumulate(LENGTHS)]))
        return
    assert_packed_equals_each_alone(
        lambda x, state: layer(x, tuple(state)),
        lambda x, boundaries, state: layer.forward_packed(x, boundaries, tuple(state)),
        *(state, x, LENGTHS, [*layer.parameters()]),
    )


def test_packed_sequences_start_from_the_initial_state_and_so_differ_from_one_long_sequence(layer):
    if isinstance(layer, CachedAttention):
        return
    x, boundaries = torch.randn(1, 9, WIDTH), torch.tensor([0, 4, 9])
    outputs, _ = layer.forward_packed(x, boundaries)
    assert torch.equal(outputs, layer.forward_packed(x, boundaries, layer.initial_state(2))[0])
    assert_close(outputs[:, :4], layer(x)[0][:, :4])
    assert not torch.allclose(outputs[:, 4:], layer(x)[0][:, 4:])


def test_what_is_not_packed_is_refused_in_one_line(layer):
    if isinstance(layer, CachedAttention):
        return
    x = torch.randn(1, 5, WIDTH)
    for boundaries, message in (
        ([1, 5], r"cu_seqlens must go from 0 to the length = 5, got 1 to 5"),
        ([0, 4], r"cu_seqlens must go from 0 to the length = 5, got 0 to 4"),
        ([0, 3, 3, 5], r"cu_seqlens must rise, each sequence holding an element, got 3 after 3"),
        ([0, 4, 2, 5], r"cu_seqlens must rise, each sequence holding an element, got 2 after 4"),
        ([0.0, 5.0], r"cu_seqlens must hold at least two integers in one axis, got float64"),
    ):
        with refused(message):
            layer.forward_packed(x, torch.tensor(boundaries))
    with refused(r"with cu_seqlens there must be a batch of 1, got shape \(2, 5, 6\)"):
        layer.forward_packed(torch.randn(2, 5, WIDTH), torch.tensor([0, 5]))
    with refused("state must hold that of 2 sequences, got|(state|window) must be float64 of shape"):
        layer.forward_packed(x, torch.tensor([0, 2, 5]), layer.initial_state(3))


def test_element_by_element_unrolled_equals_forward(layer):
    x = torch.randn(2, 9, WIDTH)
    for state in (None, layer(x)[1]):
        outputs, last = layer(x, state)
        found, state = layer.unrolled(x, state)
        assert_close(found, outputs)
        for one, other in zip(flat(state), flat(last), strict=True):
            assert_close(one, other)


def test_a_batch_equals_its_sequences_alone(layer):
    x = torch.randn(3, 9, WIDTH)
    together, _ = layer(x)
    for row in range(3):
        assert_close(layer(x[row : row + 1])[0], together[row : row + 1])


def test_the_gradient_reaches_every_parameter_and_the_state_given(layer):
    x = torch.randn(2, 9, WIDTH)
    _, state = layer(x)
    state = tuple(part.detach().requires_grad_() for part in state)
    layer(x, state)[0].square().sum().backward()
    for name, each in [*layer.named_parameters(), *enumerate(part for part in state if part.numel())]:
        assert each.grad is not None, name
        assert each.grad.abs().max() > 0, name


def test_its_state_is_that_of_its_last_elements_alone_where_it_attends_and_of_a_fixed_size_where_it_does_not(layer):
    sizes = [sum(part.numel() for part in layer(torch.randn(1, length, WIDTH))[1]) for length in (1, 9)]
    assert sizes[1] == (9 if isinstance(layer, CachedAttention) else 1) * sizes[0]


def test_an_empty_sequence_and_a_foreign_state_are_refused_in_one_line(layer):
    with refused("must .*(not be empty|at least one element)"):
        layer(torch.randn(2, 0, WIDTH))
    x, state = torch.randn(2, 3, WIDTH), layer.initial_state(2)
    with refused(f"state must hold {len(state)} tensors, got {len(state) + 1}"):
        layer(x, (*state, state[0]))
    with refused("(state|window) must be float64 of shape"):
        layer(x, layer.initial_state(3))
    with refused("(state|window) must be float64 of shape"):
        layer(x, (*state[:-1], state[-1][..., :-1]))


def test_cast_to_half_precision_a_layer_still_runs_and_carries_what_it_must_in_float32(layer):
    layer.bfloat16()
    x = torch.randn(2, 5, WIDTH).bfloat16()
    outputs, state = layer(x)
    again, _ = layer(x, state)
    assert outputs.dtype == again.dtype == torch.bfloat16
    if isinstance(layer, M2RNNLayer):
        assert state[0].dtype == torch.float32


def test_under_autocast_a_layer_reads_on_from_its_own_state(layer):
    layer.float()
    x = torch.randn(2, 5, WIDTH, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        _, state = layer(x)
        outputs, _ = layer(x, state)
    assert outputs.isfinite().all()


def test_under_autocast_on_a_cpu_an_lstm_stays_in_float32():
    layer, model = LSTMLayer(WIDTH).float(), LSTM(7, 5).float()
    x = torch.randn(2, 5, WIDTH, dtype=torch.float32)
    alone, state = layer(x), model(TOKENS)[1]
    with torch.autocast("cpu", torch.bfloat16):
        cast, cast_state = layer(x), model(TOKENS)[1]
    assert torch.equal(alone[0], cast[0])
    for ours, theirs in zip((*alone[1], *state), (*cast[1], *cast_state), strict=True):
        assert torch.equal(ours, theirs)


# Models.


def test_causal_a_token_changes_no_logits_before_it(model):
    changed = TOKENS.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 7
    before, after = model(TOKENS)[0], model(changed)[0]
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=1e-13, atol=1e-13)
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_it_runs_at_lengths_it_was_never_trained_at(model):
    with torch.no_grad():
        assert model(torch.randint(0, 7, (1, 300)))[0].isfinite().all()


def test_a_batch_of_token_sequences_equals_its_sequences_alone(model):
    together, _ = model(TOKENS)
    assert together.shape == (3, 7, model.classes)
    for row in range(3):
        assert_close(model(TOKENS[row : row + 1])[0], together[row : row + 1])


@pytest.mark.parametrize("cuts", [(0, 1, 7), (0, 3, 5, 7), (0, 7)])
def test_token_sequences_in_pieces_or_token_by_token_equal_the_sequence_in_one(model, cuts):
    expected, last = model(TOKENS)
    state, logits = None, []
    for start, end in pairwise(cuts):
        output, state = model(TOKENS[:, start:end], state)
        logits.append(output)
    assert_close(torch.cat(logits, dim=1), expected)
    state, logits = model.initial_state(3), []
    for tokens in TOKENS.unbind(1):
        output, state = model.step(tokens, state)
        logits.append(output)
    assert_close(torch.stack(logits, dim=1), expected)
    for one, other in zip(flat(state), flat(last), strict=True):
        assert_close(one, other)


def test_packed_token_sequences_equal_each_sequence_alone_or_are_refused_where_a_layer_attends(model):
    lengths = (3, 1, 4, 3)
    tokens = torch.randint(0, 7, (1, 11))
    if any(isinstance(block.mixer, CachedAttention) for block in model.blocks):
        with refused("cu_seqlens must be None for attention"):
            model(tokens, None, torch.tensor([0, 11]))
        return

    def shaped(state):
        """The flat list of tensors as the state of the model."""
        state = iter(state)
        return tuple(tuple(next(state) for _ in each) for each in model.initial_state(1))

    def read(tokens, state, boundaries=None):
        logits, after = model(tokens, shaped(state), boundaries)
        return logits, [part for each in after for part in each]

    state = [torch.rand_like(part).requires_grad_() for each in model.initial_state(4) for part in each]
    assert_packed_equals_each_alone(
        read,
        lambda tokens, boundaries, state: read(tokens, state, boundaries),
        *(state, tokens, lengths, [*model.parameters()]),
    )
    with refused(r"tokens must have shape \(batch, length\) with at least one token, got \(1, 0\)"):
        model(tokens[:, :0], None, torch.tensor([0, 0]))
    with refused(r"with cu_seqlens there must be a batch of 1, got shape \(3, 7\)"):
        model(TOKENS, None, torch.tensor([0, 7]))
    with refused("cu_seqlens must go from 0 to the length = 11, got 0 to 10"):
        model(tokens, None, torch.tensor([0, 10]))


def test_the_gradient_reaches_every_parameter(model):
    model(TOKENS)[0].square().sum().backward()
    assert [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().max() > 0] == []


def test_a_model_of_layers_draws_its_own_continuation(model):
    if model.classes != model.vocabulary:
        return
    drawn = generate(model, TOKENS[:, :2])
    assert torch.stack([next(drawn) for _ in range(4)]).shape == (4, 3)


def test_the_number_of_parameters_is_the_documented_one(model):
    def count(module):
        return sum(each.numel() for each in module.parameters())

    own = sum(count(block.mixer) for block in model.blocks)
    hidden = model.blocks[0].feedforward.down.in_features
    layers, width = len(model.blocks), model.width
    documented = (model.vocabulary + model.classes + 1) * width + layers * (2 * width + 3 * width * hidden)
    assert count(model) == documented + own


@pytest.mark.parametrize("name", M2RNN_HEADS)
def test_the_number_of_parameters_of_a_layer_and_the_size_of_its_state_are_the_documented_ones(name):
    heads, width, kernel = M2RNN_HEADS[name], 5, 3
    layer = M2RNNLayer(width, heads, kernel)
    written = heads.query * heads.key_dim + heads.key * heads.key_dim + heads.value * heads.value_dim
    read = heads.states * heads.value_dim
    documented = width * (written + heads.forget + read) + kernel * written
    documented += 2 * heads.forget + heads.weight * heads.value_dim**2 + 2 * read + read * width
    assert sum(each.numel() for each in layer.parameters()) == documented
    matrix, window = layer.initial_state(2)
    assert matrix.shape == (2, heads.states, heads.key_dim, heads.value_dim)
    assert window.shape == (2, kernel - 1, written)
    model = M2RNN(7, width, layers=3, heads=heads)
    assert sum(each[0].numel() for each in model.initial_state(1)) == 3 * heads.states * heads.key_dim * heads.value_dim


def test_the_documented_sizes_of_the_other_layers():
    def count(module):
        return sum(each.numel() for each in module.parameters())

    assert count(CachedAttention(6, 2)) == 4 * 36
    assert count(LSTMLayer(6)) == 8 * 6 * 7
    assert count(SwiGLU(6, 5)) == 3 * 6 * 5
    assert count(SequenceBlock(LSTMLayer(6), 5)) == 8 * 6 * 7 + 2 * 6 + 3 * 6 * 5


def test_the_initial_values_depend_on_the_seed_alone_and_a_saved_model_is_restored():
    def make(seed):
        return M2RNN(7, 6, heads=M2RNN_HEADS["published"], seed=seed)

    torch.manual_seed(1)
    first = make(0)
    torch.manual_seed(2)
    second, other = make(0), make(1)
    assert torch.equal(first(TOKENS)[0], second(TOKENS)[0])
    assert not torch.allclose(first(TOKENS)[0], other(TOKENS)[0])
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(TOKENS)[0], other(TOKENS)[0])


def test_what_makes_no_model_is_refused_in_one_line():
    lstm = LSTMLayer(6)
    for mixers, message in (
        ([], r"mixers must be layers of one width, at least one, got widths \[\]"),
        ([lstm, LSTMLayer(8)], r"mixers must be layers of one width, at least one, got widths \[6, 8\]"),
        ([lstm, lstm], "mixers must be different layers, got one twice"),
    ):
        with refused(message):
            Hybrid(7, mixers)
    with refused("vocabulary must be at least 1, got 0"):
        Hybrid(0, [lstm])
    with refused("layers must be at least 1, got 0"):
        M2RNN(7, 6, layers=0)
    with refused("state must hold that of 1 layers, got 2"):
        Hybrid(7, [lstm])(TOKENS, (lstm.initial_state(3),) * 2)
    with refused("tokens must lie in 0 .. 6, got 7"):
        Hybrid(7, [lstm])(TOKENS + 1)
    with refused(r"tokens must have shape \(batch, length\) with at least one token, got \(3, 0\)"):
        Hybrid(7, [lstm])(TOKENS[:, :0])


# The parts of the M²RNN layer.


@pytest.mark.parametrize("kernel", [1, 2, 4])
@pytest.mark.parametrize("length", [1, 3, 9])
def test_it_is_torch_s_convolution_with_a_group_for_each_channel_padded_by_zeros_before_the_first(kernel, length):
    convolution = ShortConvolution(5, kernel)
    x = torch.randn(2, length, 5)
    expected = conv1d(x.mT, convolution.weight[:, None], padding=kernel - 1, groups=5)[..., :length].mT
    outputs, window = convolution(x)
    assert_close(outputs, expected)
    padded = torch.cat([torch.zeros(2, kernel - 1, 5), x], dim=1)
    assert torch.equal(window, padded[:, padded.shape[1] - kernel + 1 :])
    assert window.shape == convolution.initial_window(2).shape


def test_a_gate_lies_in_0_to_1_and_falls_as_its_input_grows():
    gate = ForgetGate(50)
    x = torch.linspace(-80, 80, 161)[:, None].expand(-1, 50)
    values = gate(x)
    assert values.min() >= 0
    assert values.max() <= 1
    assert (values.diff(dim=0) <= 0).all()
    assert (values[80] < values[70]).all()
    # and it is the power that the paper writes
    rate, bias = gate.log_rate.exp(), gate.raw_timestep
    assert_close(values[60:100], (1 + torch.exp(x[60:100] + bias)) ** -rate)


def test_at_an_input_of_zero_a_gate_starts_between_exp_minus_1_6_and_1_for_the_published_ranges():
    gate = ForgetGate(4000)
    values = gate(torch.zeros(4000))
    assert values.min() >= torch.exp(torch.tensor(-1.6))
    assert values.max() < 1
    assert 0.2 < values.min() < 0.25
    rate, step = gate.log_rate.exp(), torch.nn.functional.softplus(gate.raw_timestep)
    assert 0 < rate.min() < 0.1 < 15.9 < rate.max() <= 16
    assert_close(rate.mean(), torch.tensor(8.0), 0.05)
    assert 1e-3 <= step.min() * (1 + 1e-12) < 1.1e-3 < 0.09 < step.max() <= 0.1 * (1 + 1e-12)
    assert_close(step.log().mean(), torch.tensor(1e-2).log(), 0.02)


def test_cast_to_half_precision_the_parameters_and_the_gates_stay_in_float32():
    torch.set_default_dtype(torch.float32)
    gate = ForgetGate(3).bfloat16()
    assert gate.log_rate.dtype == gate.raw_timestep.dtype == torch.float32
    assert gate(torch.zeros(2, 3, dtype=torch.bfloat16)).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert gate(torch.zeros(2, 3)).dtype == torch.float32


def test_of_a_layer_the_two_large_matrices_decay_and_nothing_else():
    layer = M2RNNLayer(6, M2RNN_HEADS["published"])
    decaying = {
        f"{module}.{name}"
        for module, part in layer.named_modules()
        for name, _ in part.named_parameters(recurse=False)
        if decays(part, name)
    }
    assert decaying == {"enter.weight", "leave.weight"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MatrixHeads(2, 3, 6, 6, 4), "weight must divide the largest number of heads = 6, got 4"),
        (lambda: MatrixHeads(1, 0, 1, 1, 1), "key must be at least 1, got 0"),
        (lambda: MatrixHeads(1, 1, 1, 1, 1, key_dim=0), "key_dim must be at least 1, got 0"),
        (lambda: M2RNNLayer(0, MatrixHeads.multi_value(2)), "width must be at least 1, got 0"),
        (lambda: ShortConvolution(4, 0), "channels and kernel must be at least 1, got 4 and 0"),
        (lambda: ForgetGate(0), "heads must be at least 1, got 0"),
        (lambda: SwiGLU(4, 0), "width and hidden must be at least 1, got 4 and 0"),
        (lambda: CachedAttention(6, 4), "width must be a positive multiple of heads = 4, got 6"),
        (lambda: LSTMLayer(0), "width must be at least 1, got 0"),
        (lambda: M2RNNStart(std=0.0), "std must be positive and finite, got 0.0"),
        (lambda: M2RNNStart(timestep=(0.2, 0.1)), "timestep must be two rising positive numbers, got 0.2 and 0.1"),
    ],
)
def test_what_makes_no_layer_is_refused_in_one_line(make, message):
    with refused(message):
        make()


def test_a_window_of_another_shape_is_refused_in_one_line():
    convolution = ShortConvolution(5, 4)
    with refused(r"window must be float64 of shape \(2, 3, 5\), got float64 of \(2, 2, 5\)"):
        convolution(torch.randn(2, 3, 5), torch.zeros(2, 2, 5))

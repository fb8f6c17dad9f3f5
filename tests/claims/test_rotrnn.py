"""What is said of RotRNN: its rotations, its normalisation, its layer, its block and its model."""

import math
from functools import partial
from itertools import pairwise

import pytest
import torch
from scipy.linalg import expm, solve_discrete_lyapunov
from scipy.stats import kstest
from torch.nn.functional import gelu, layer_norm

from cases import stirred
from closeness import assert_close
from refusal import refused
from torsor.layers import BidirectionalRotRNNLayer, HeadRotation, RotationStart, RotRNNBlock, RotRNNLayer
from torsor.models import RotRNN

TOKENS = torch.tensor([[2, 0, 6, 1, 0, 1, 3], [5, 1, 1, 0, 4, 0, 2], [3, 3, 0, 0, 1, 6, 6]])
CUTS = [(0, 1, 90), (0, 40, 41, 90)]


def layer_of(width=3, dim=12, heads=2, **arguments):
    return stirred(RotRNNLayer(width, dim, heads, **arguments))


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def matrices(layer):
    """The matrix and the normalised input matrix of every head, from the formulas, by other means."""
    rotation = layer.rotation
    size = rotation.dim // rotation.heads
    coordinates = rotation.coordinates.detach().view(rotation.heads, -1)
    angles = rotation.angle.detach().view(rotation.heads, -1)
    for head in range(rotation.heads):
        above, k = torch.zeros(size, size), 0
        for i in range(size):
            for j in range(i + 1, size):
                above[i, j] = coordinates[head, k]
                k += 1
        basis = torch.from_numpy(expm((above - above.T).numpy()))
        turn = torch.zeros(size, size)
        for plane, angle in enumerate(angles[head].tolist()):
            part = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            turn[2 * plane : 2 * plane + 2, 2 * plane : 2 * plane + 2] = torch.tensor(part)
        rate = math.exp(-math.exp(float(rotation.log_rate.detach()[head])))
        write = layer.write.detach()[head * size : (head + 1) * size]
        gain = math.sqrt((1 - rate**2) / float(write.square().sum()))
        yield rate, basis, rate * basis @ turn @ basis.T, gain * write


# The rotation of every head.


@pytest.mark.parametrize(("dim", "heads"), [(2, 1), (12, 2), (12, 6), (64, 2)])
def test_the_map_of_a_head_is_a_rate_in_0_to_1_times_a_rotation_for_any_parameters(dim, heads):
    layer = stirred(RotRNNLayer(3, dim, heads))
    found = layer.rotation().dense()
    for head, (rate, basis, matrix, _) in enumerate(matrices(layer)):
        assert 0 < rate < 1
        assert_close(matrix.T @ matrix, rate**2 * torch.eye(len(matrix)))
        assert torch.linalg.det(matrix) > 0
        part = slice(head * len(matrix), (head + 1) * len(matrix))
        assert_close(basis @ found[part, part] @ basis.T, matrix)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
def test_the_basis_is_orthogonal(dtype, tolerance):
    rotation = HeadRotation(128, 4).to(dtype)
    basis = rotation.basis()
    assert (basis.mT @ basis - torch.eye(32, dtype=dtype)).abs().max() < tolerance
    assert (basis - torch.eye(32, dtype=dtype)).abs().max() > 0.5


def test_the_basis_is_only_a_gauge_moved_into_what_is_written_and_read_it_changes_no_output():
    layer, x = layer_of(), torch.randn(2, 30, 3)
    moved = layer_of()
    moved.load_state_dict(layer.state_dict())
    with torch.no_grad():
        moved.write.copy_(layer.rotation.in_basis(layer.write))
        moved.read.copy_(layer.rotation.in_basis(layer.read.T).T)
        moved.rotation.coordinates.zero_()
    assert_close(moved(x)[0], layer(x)[0])
    with torch.no_grad():
        moved.write.copy_(layer.write)
    assert not torch.allclose(moved(x)[0], layer(x)[0])


def test_rates_and_angles_start_where_they_are_said_to():
    rotation = HeadRotation(8000, 2000, start=RotationStart((0.8, 0.99), angle=1.5))
    low, high = math.log(-math.log(0.99)), math.log(-math.log(0.8))
    assert kstest(rotation.log_rate.detach(), "uniform", (low, high - low)).pvalue > 0.01
    assert kstest(rotation.angle.detach(), "uniform", (0, 1.5)).pvalue > 0.01
    scale = rotation().scale
    assert 0.8 <= scale.min() < 0.81 < 0.98 < scale.max() <= 0.99
    assert kstest(rotation.coordinates.detach(), "norm", (0, math.sqrt(2))).pvalue > 0.01
    assert HeadRotation(4, 1, start=RotationStart((0.5, 0.5), angle=0.0))().scale.tolist() == pytest.approx([0.5] * 2)
    default = HeadRotation(4000, 1000)()
    assert 0.9 <= default.scale.min() < 0.902 < 0.998 < default.scale.max() <= 0.999
    assert 0 <= default.angle.min() < 0.03 < 6.25 < default.angle.max() <= 2 * math.pi


@pytest.mark.parametrize("log_rate", [-300.0, -40.0, 10.0, 300.0])
def test_a_rate_that_rounds_to_0_or_1_leaves_outputs_and_gradients_finite(log_rate):
    layer = layer_of().float()
    with torch.no_grad():
        layer.rotation.log_rate.fill_(log_rate)
    outputs, (state,) = layer(torch.randn(2, 50, 3).float())
    outputs.square().sum().backward()
    assert outputs.isfinite().all()
    assert state.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


# The layer.


def test_the_folded_form_equals_the_published_recurrence_in_outputs_state_and_gradients():
    layer, x, state = layer_of(), torch.randn(2, 50, 3), torch.randn(2, 12)
    results = []
    for function in (layer.forward, layer.forward_reference):
        given = [x.clone().requires_grad_(), state.clone().requires_grad_(), *layer.parameters()]
        outputs, (last,) = function(given[0], (given[1],))
        weights = [torch.linspace(-1, 1, each.numel()).view_as(each) for each in (outputs, last)]
        results.append((outputs, last, *torch.autograd.grad((outputs, last), given, weights)))
    for folded, published in zip(*results, strict=True):
        assert_close(folded, published, 1e-11)


def test_the_published_recurrence_is_its_formula():
    layer, x = layer_of(), torch.randn(1, 20, 3)
    outputs, (last,) = layer.forward_reference(x)
    heads = list(matrices(layer))
    states = [torch.zeros(6) for _ in heads]
    for t in range(20):
        states = [a @ state + b @ x[0, t] for state, (_, _, a, b) in zip(states, heads, strict=True)]
        assert_close(outputs[0, t], layer.read @ torch.cat(states) + layer.skip * x[0, t])
    assert_close(last[0], torch.cat([basis.T @ state for state, (_, basis, _, _) in zip(states, heads, strict=True)]))


def test_the_layer_step_by_step_equals_the_sequence_in_one():
    layer, x = layer_of(), torch.randn(2, 90, 3)
    outputs, (last,) = layer(x)
    stepped, (state,) = layer.unrolled(x)
    assert_close(stepped, outputs)
    assert_close(state, last)


@pytest.mark.parametrize("cuts", CUTS)
def test_the_state_of_the_layer_hands_over_between_the_pieces_of_a_sequence(cuts):
    layer, x, state = layer_of(), torch.randn(2, 90, 3), None
    outputs, (last,) = layer(x)
    for start, stop in pairwise(cuts):
        piece, state = layer(x[:, start:stop], state)
        assert_close(piece, outputs[:, start:stop])
    assert_close(state[0], last)


@pytest.mark.parametrize("seed", range(3))
def test_white_inputs_hold_every_head_at_1_in_the_limit_for_any_parameters(seed):
    torch.manual_seed(seed)
    layer = layer_of()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter))
    for _, _, matrix, write in matrices(layer):
        covariance = solve_discrete_lyapunov(matrix.numpy(), (write @ write.T).numpy())
        assert covariance.trace() == pytest.approx(1, rel=1e-9)


def test_white_inputs_hold_every_head_at_one_minus_the_rate_to_twice_the_number_of_tokens():
    layer = layer_of()
    # the state after t tokens is linear in them: its expected square norm is the square norm of that map
    x = torch.eye(15 * 3).view(45, 15, 3)
    response = layer(x)[1][0].detach()
    for head, (rate, _, _, _) in enumerate(matrices(layer)):
        energy = response[:, 6 * head : 6 * head + 6].square().sum()
        assert float(energy) == pytest.approx(1 - rate**30, rel=1e-10)


def states_of(layer, x):
    reading = RotRNNLayer(x.shape[-1], layer.rotation.dim, layer.rotation.heads)
    reading.load_state_dict(layer.state_dict())
    everything, state = [], None
    for start in range(0, x.shape[1], 10):
        _, state = reading(x[:, start : start + 10], state)
        everything.append(state[0].unflatten(-1, (layer.rotation.heads, -1)).square().sum(-1).detach())
    return torch.stack(everything)


def test_white_inputs_hold_every_head_at_1_in_a_sample():
    layer = layer_of(start=RotationStart((0.5, 0.95)))
    squares = states_of(layer, torch.randn(4000, 200, 3))[10:]
    error = squares.std(dim=1) / math.sqrt(4000)
    assert ((squares.mean(dim=1) - 1).abs() < 5 * error).all()
    assert error.max() < 0.05


def test_inputs_that_are_larger_or_repeat_themselves_do_not_hold_the_heads_at_1():
    layer = layer_of(start=RotationStart((0.5, 0.95)))
    larger = states_of(layer, 2 * torch.randn(4000, 200, 3))[10:]
    constant = states_of(layer, torch.randn(4000, 1, 3).expand(-1, 200, -1))[10:]
    assert larger.mean() == pytest.approx(4, rel=0.05)
    assert ((constant.mean(dim=(0, 1)) - 1).abs() > 0.1).all()


def test_the_gain_is_computed_anew_in_every_call_and_the_size_of_the_input_matrix_is_nothing():
    layer, x = layer_of(), torch.randn(2, 30, 3)
    before = layer(x)[0]
    with torch.no_grad():
        layer.write[:6] *= 7
        layer.write[6:] *= 1e-9
    assert_close(layer(x)[0], before)
    with torch.no_grad():
        layer.write.zero_()
    outputs, _ = layer(x)
    assert torch.equal(outputs, layer.skip * x)
    with torch.no_grad():
        layer.write.normal_()
        layer.rotation.log_rate -= 1
    for _, _, matrix, write in matrices(layer):
        covariance = solve_discrete_lyapunov(matrix.numpy(), (write @ write.T).numpy())
        assert covariance.trace() == pytest.approx(1, rel=1e-9)


def test_the_layer_is_a_convolution_with_the_same_weights_at_the_same_distance_everywhere():
    layer, x = layer_of(), torch.randn(1, 20, 3)
    impulses = torch.zeros(3, 20, 3)
    impulses[range(3), 0, range(3)] = 1
    weights = layer(impulses)[0]
    expected = [sum(torch.einsum("i,ij->j", x[0, s], weights[:, t - s]) for s in range(t + 1)) for t in range(20)]
    assert_close(layer(x)[0][0], torch.stack(expected))


@pytest.mark.parametrize(("width", "dim", "heads"), [(3, 12, 2), (5, 2, 1), (4, 64, 8)])
def test_the_number_of_parameters_of_a_layer_is_the_documented_one(width, dim, heads):
    one_way = 2 * dim * width + width + heads + dim * dim // (2 * heads)
    assert count(HeadRotation(dim, heads)) == heads + dim * dim // (2 * heads)
    assert count(RotRNNLayer(width, dim, heads)) == one_way
    assert count(BidirectionalRotRNNLayer(width, dim, heads)) == one_way + dim * width
    assert count(RotRNNBlock(width, dim, heads)) == one_way + width * width + 3 * width


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
def test_the_state_rates_angles_and_bases_are_in_float32_whatever_the_model_is_cast_to(half):
    layer, x = layer_of().float(), torch.randn(2, 90, 3).float()
    outputs, _ = layer(x)
    layer = layer.to(half)
    assert {parameter.dtype for parameter in layer.rotation.parameters()} == {torch.float32}
    assert layer.write.dtype == half
    narrow, (state,) = layer(x.to(half))
    assert narrow.dtype == half
    assert state.dtype == torch.float32
    assert layer.initial_state(2)[0].dtype == torch.float32
    assert_close(narrow.float(), outputs, 0.03)


def test_under_autocast_the_bases_and_the_scan_stay_in_float32():
    layer, x = layer_of().float(), torch.randn(2, 90, 3).float()
    outputs, _ = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, (state,) = layer(x)
        assert layer.rotation().scale.dtype == torch.float32
    assert state.dtype == torch.float32
    assert_close(narrow.float(), outputs, 0.03)


# Both ways.


def both_ways(layer):
    """A bidirectional layer of the same parameters, and with another matrix to read backwards."""
    width, dim = layer.read.shape
    both = BidirectionalRotRNNLayer(width, dim, layer.rotation.heads)
    both.one_way.load_state_dict(layer.state_dict())
    return both


def test_without_a_matrix_to_read_backwards_it_is_the_layer_that_reads_one_way():
    layer, x = layer_of(), torch.randn(2, 30, 3)
    both = both_ways(layer)
    assert not torch.allclose(both(x)[0], layer(x)[0])
    with torch.no_grad():
        both.read_back.zero_()
    assert_close(both(x)[0], layer(x)[0])
    assert torch.equal(both(x)[1][0], layer(x)[1][0])


def test_with_its_two_matrices_exchanged_it_is_the_same_of_the_reversed_sequence():
    both, x = both_ways(layer_of()), torch.randn(2, 30, 3)
    expected = both(x)[0]
    with torch.no_grad():
        kept = both.one_way.read.clone()
        both.one_way.read.copy_(both.read_back)
        both.read_back.copy_(kept)
    assert_close(both(x.flip(1))[0].flip(1), expected)


def test_every_token_changes_the_outputs_on_both_of_its_sides():
    both, one_way, x = both_ways(layer_of()), layer_of(), torch.randn(1, 9, 3)
    changed = x.clone()
    changed[:, 4] += 1
    difference = (both(changed)[0] - both(x)[0]).abs().sum(-1)
    assert (difference > 1e-6).all()
    assert torch.equal(one_way(changed)[0][:, :4], one_way(x)[0][:, :4])


# The block.


def test_the_block_is_its_formula():
    block, x = stirred(RotRNNBlock(6, 8, 2)), torch.randn(2, 20, 6)
    normed = layer_norm(x, (6,), block.norm.weight, block.norm.bias)
    active = gelu(block.recurrence(normed)[0])
    expected = x + active * torch.sigmoid(active @ block.gate.weight.T + block.gate.bias)
    assert_close(block(x)[0], expected)


@pytest.mark.parametrize("cuts", CUTS)
def test_a_block_that_reads_a_sequence_in_pieces_equals_the_sequence_in_one(cuts):
    block, x, state = stirred(RotRNNBlock(6, 8, 2)), torch.randn(2, 90, 6), None
    outputs, _ = block(x)
    for start, stop in pairwise(cuts):
        piece, state = block(x[:, start:stop], state)
        assert_close(piece, outputs[:, start:stop])


def test_dropout_leaves_out_of_what_is_added_and_nothing_of_the_stream():
    block, x = RotRNNBlock(6, 8, 2, dropout=1.0), torch.randn(2, 20, 6)
    assert torch.equal(block(x)[0], x)
    assert not torch.equal(block.eval()(x)[0], x)


# The model.

MODELS = {
    "default": lambda **given: RotRNN(7, width=8, **given),
    "larger states, other classes": lambda **given: RotRNN(7, 6, heads=3, layers=3, dim=12, classes=5, **given),
    "one block": lambda **given: RotRNN(7, width=4, heads=1, layers=1, **given),
}
BOTH_WAYS = partial(RotRNNBlock, bidirectional=True)


@pytest.fixture(params=MODELS)
def model(request):
    return stirred(MODELS[request.param]())


def test_causal_a_token_changes_no_logits_before_it_unless_the_blocks_read_both_ways(model):
    changed = TOKENS.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 7
    before, after = model(TOKENS)[0], model(changed)[0]
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])
    assert not torch.allclose(before[:, 6], after[:, 6])
    both = stirred(MODELS["default"](block=BOTH_WAYS))
    assert not torch.allclose(both(TOKENS)[0][:, :4], both(changed)[0][:, :4])


def test_it_runs_at_lengths_it_was_never_trained_at(model):
    assert model(torch.randint(0, 7, (1, 3000)))[0].isfinite().all()


def test_a_batch_equals_its_sequences_alone(model):
    together = model(TOKENS)[0]
    for row in range(3):
        assert_close(model(TOKENS[row : row + 1])[0], together[row : row + 1])


@pytest.mark.parametrize("cuts", [range(8), (0, 3, 5, 7)])
def test_a_sequence_in_pieces_or_token_by_token_equals_the_sequence_in_one(model, cuts):
    whole, last = model(TOKENS)
    state = model.initial_state(3)
    for start, stop in pairwise(cuts):
        if stop == start + 1:
            logits, state = model.step(TOKENS[:, start], state)
            logits = logits[:, None]
        else:
            logits, state = model(TOKENS[:, start:stop], state)
        assert_close(logits, whole[:, start:stop])
        assert state.shape == model.initial_state(3).shape, "the memory of a step does not grow"
    assert_close(state, last)


@pytest.mark.parametrize("block", [RotRNNBlock, BOTH_WAYS], ids=["one way", "both ways"])
@pytest.mark.parametrize("name", MODELS)
def test_the_number_of_parameters_of_the_model_is_the_documented_one(name, block):
    width, heads, layers, dim, classes = {
        "default": (8, 4, 2, 8, 7),
        "larger states, other classes": (6, 3, 3, 12, 5),
        "one block": (4, 1, 1, 4, 7),
    }[name]
    each = 2 * dim * width + width**2 + 4 * width + heads + dim**2 // (2 * heads)
    more = 0 if block is RotRNNBlock else layers * dim * width
    assert count(MODELS[name](block=block)) == 7 * width + layers * each + classes * (width + 1) + more


@pytest.mark.parametrize("block", [RotRNNBlock, BOTH_WAYS], ids=["one way", "both ways"])
def test_the_gradient_reaches_every_parameter(block):
    model = stirred(MODELS["larger states, other classes"](block=block))
    model(TOKENS)[0].square().sum().backward()
    assert [name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().max() > 0] == []


def test_the_initial_values_depend_on_the_seed_alone_and_a_saved_model_is_restored():
    torch.manual_seed(1)
    first = MODELS["default"](seed=0)
    torch.manual_seed(2)
    second, other = MODELS["default"](seed=0), MODELS["default"](seed=1)
    assert torch.equal(first(TOKENS)[0], second(TOKENS)[0])
    assert not torch.allclose(first(TOKENS)[0], other(TOKENS)[0])
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(TOKENS)[0], other(TOKENS)[0])


def test_the_initial_values_are_of_the_documented_sizes():
    model = RotRNN(200, width=64, heads=4, dim=192)
    layer = model.blocks[0].recurrence
    sizes = {
        model.embedding.weight: 1,
        model.readout.weight: 1 / 8,
        model.blocks[0].gate.weight: 1 / 8,
        layer.write: 1 / 16,
        layer.read: 1 / 16,
        BOTH_WAYS(64, 192, 4).recurrence.read_back: 1 / 16,
    }
    for weight, size in sizes.items():
        assert kstest(weight.detach().flatten(), "norm", (0, size)).pvalue > 0.01
    skips = torch.cat([block.recurrence.skip.detach() for block in RotRNN(2, width=64, layers=20).blocks])
    assert kstest(skips, "norm").pvalue > 0.01
    assert model.readout.bias.eq(0).all()
    assert model.blocks[0].gate.bias.eq(0).all()


def test_cast_to_half_precision_rates_angles_bases_and_states_stay_in_float32(model):
    model = model.float()
    expected = model(TOKENS)[0]
    model = model.bfloat16()
    for block in model.blocks:
        assert {parameter.dtype for parameter in block.recurrence.rotation.parameters()} == {torch.float32}
    logits, state = model(TOKENS)
    assert logits.dtype == torch.bfloat16
    assert state.dtype == model.initial_state(3).dtype == torch.float32
    assert_close(logits.float(), expected, 0.1)


# A user's mistakes.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RotRNN(0, width=8), "vocabulary must be at least 1, got 0"),
        (lambda: RotRNN(7, width=0), "width must be at least 1, got 0"),
        (lambda: RotRNN(7, width=8, heads=0), "heads must be at least 1, got 0"),
        (lambda: RotRNN(7, width=8, layers=0), "layers must be at least 1, got 0"),
        (lambda: RotRNN(7, width=8, classes=0), "classes must be at least 1, got 0"),
        (lambda: RotRNN(7, width=6), "dim must be a positive multiple of 2 . heads = 8, got 6"),
        (lambda: RotRNN(7, width=8, dim=12), "dim must be a positive multiple of 2 . heads = 8, got 12"),
        (lambda: RotRNN(7, width=8, dim=-8), "dim must be a positive multiple of 2 . heads = 8, got -8"),
        (lambda: RotRNNLayer(0, 8, 2), "width must be at least 1, got 0"),
        (lambda: RotRNNLayer(3, 8, 3), "dim must be a positive multiple of 2 . heads = 6, got 8"),
        (lambda: RotRNNLayer(3, 8, 0), "dim must be a positive multiple of 2 . heads = 0, got 8"),
        (lambda: RotRNNBlock(3, 8, 2, dropout=1.5), "dropout must be a probability, got 1.5"),
        (lambda: RotationStart((0.9, 1.0)), "scales must satisfy 0 < low <= high < 1, got low = 0.9, high = 1.0"),
        (lambda: RotationStart((0.0, 0.9)), "scales must satisfy"),
        (lambda: RotationStart((0.9, 0.8)), "scales must satisfy"),
        (lambda: RotationStart((math.nan, 0.8)), "scales must satisfy"),
        (lambda: RotationStart(angle=-1.0), "angle must be finite and not negative, got -1.0"),
        (lambda: RotationStart(angle=math.inf), "angle must be finite and not negative, got inf"),
    ],
)
def test_sizes_and_ranges_that_do_not_fit_are_refused_in_one_line(make, words):
    with refused(words):
        make()


@pytest.mark.parametrize(
    ("x", "state", "words"),
    [
        ((2, 0, 3), None, r"\(batch, length, width = 3\) with at least one element, got \(2, 0, 3\)"),
        ((2, 5, 4), None, r"\(batch, length, width = 3\) with at least one element, got \(2, 5, 4\)"),
        ((5, 3), None, r"with at least one element, got \(5, 3\)"),
        ((2, 5, 3), ((2, 12), (2, 12)), "state must hold 1 tensors, got 2"),
        ((2, 5, 3), ((3, 12),), r"state must be float64 of shape \(2, 12\), got float64 of \(3, 12\)"),
    ],
)
def test_what_a_layer_cannot_read_is_refused_in_one_line(x, state, words):
    state = None if state is None else tuple(torch.zeros(shape) for shape in state)
    with refused(words):
        layer_of()(torch.zeros(x), state)


def test_inputs_or_rates_of_another_type_or_not_finite_are_refused_in_one_line():
    layer = layer_of()
    with refused("inputs must be float64 like carry, or in half precision, got float32"):
        layer(torch.zeros(2, 5, 3).float())
    with torch.no_grad():
        layer.rotation.log_rate[0] = math.nan
    with refused(r"carry must have scales in \[0, 1\], got nan"):
        layer(torch.zeros(2, 5, 3))


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (TOKENS.double(), "tokens must be int64 or int32, got float64"),
        (TOKENS + 1, "tokens must lie in 0 .. 6, got 7"),
        (TOKENS[:, :0], r"shape \(batch, length\) with at least one token, got \(3, 0\)"),
    ],
)
def test_bad_tokens_are_refused_in_one_line(model, tokens, words):
    with refused(words):
        model(tokens)


def test_a_state_of_another_shape_or_type_is_refused_in_one_line():
    model = MODELS["default"]()
    with refused(r"state must be float64 of shape \(3, 2, 8\), got float64 of \(2, 2, 8\)"):
        model(TOKENS, model.initial_state(2))
    with refused("state must be float64 of shape .* got float32"):
        model.step(TOKENS[:, 0], model.initial_state(3).float())


def test_blocks_that_read_both_ways_have_no_step_and_start_from_no_state():
    model = MODELS["default"](block=BOTH_WAYS)
    with refused("step needs blocks that read one way, got blocks that read both ways"):
        model.step(TOKENS[:, 0])
    with refused("state must be None for a layer that reads both ways, got a state"):
        model(TOKENS, model.initial_state(3))

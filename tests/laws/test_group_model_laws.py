"""Models of a next token: what all of them promise, and what those whose states lie on a group promise besides."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from cases import GROUP_BLOCKS, MATRIX_GROUPS, MIXINGS, SEQUENCE_MODELS, stirred
from closeness import assert_close
from refusal import refused
from register import concrete_subclasses
from torsor.groups import Orthogonal, SpecialOrthogonal, Torus, Unitary
from torsor.layers import (
    BCHMixing,
    GroupAttention,
    GroupBlock,
    GroupTable,
    IdentityMixing,
    LinearMixing,
    Mixing,
    PostNormBlock,
    PreNormBlock,
    SerialBlock,
    ThirdOrderMixing,
    TraceReadout,
    TwoHeadBlock,
    move_by_drive,
    move_from_token,
    move_then_multiply,
    move_to_token,
    token_tangent,
)
from torsor.models import GRU, LSTM, GroupRNN, GroupTransformer, Transformer

TOKENS = torch.tensor([[2, 0, 6, 1, 0, 1, 3], [5, 1, 1, 0, 4, 0, 2], [3, 3, 0, 0, 1, 6, 6]])
GROWING = (Transformer, GroupTransformer)  # those whose state grows with the positions


@pytest.fixture(params=SEQUENCE_MODELS, ids=str)
def model(request):
    return SEQUENCE_MODELS[request.param]()


@pytest.fixture(params=MATRIX_GROUPS, ids=str)
def group(request):
    return MATRIX_GROUPS[request.param]()


@pytest.fixture(params=GROUP_BLOCKS, ids=str)
def block_kind(request):
    return GROUP_BLOCKS[request.param]


def logits_of(model, tokens):
    return model(tokens) if isinstance(model, GROWING) else model(tokens)[0]


def read_on(model, tokens, state):
    return model.extend(tokens, state) if isinstance(model, GROWING) else model(tokens, state)


def test_every_mixing_block_and_recurrent_form_is_in_the_register():
    group = Orthogonal(3)
    assert {type(kind(group, 1, None)) for kind in MIXINGS.values()} == concrete_subclasses(Mixing)
    assert {type(kind(group, LinearMixing, None)) for kind in GROUP_BLOCKS.values()} == concrete_subclasses(GroupBlock)
    models = [make() for make in SEQUENCE_MODELS.values()]
    assert {type(each) for each in models} == {Transformer, LSTM, GRU, GroupTransformer, GroupRNN}
    moves = {each.recurrence for each in models if isinstance(each, GroupRNN)}
    assert moves == {move_to_token, move_from_token, move_then_multiply, move_by_drive}


# What every model of a next token promises.


def test_causal_a_token_changes_no_logits_before_it(model):
    changed = TOKENS.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 7
    before, after = logits_of(model, TOKENS), logits_of(model, changed)
    torch.testing.assert_close(before[:, :4], after[:, :4], rtol=1e-13, atol=1e-13)
    assert not torch.allclose(before[:, 4], after[:, 4])
    assert not torch.allclose(before[:, 5:], after[:, 5:])


def test_it_runs_at_lengths_it_was_never_trained_at(model):
    assert logits_of(model, torch.randint(0, 7, (1, 300))).isfinite().all()


def test_a_batch_equals_its_sequences_alone(model):
    together = logits_of(model, TOKENS)
    for row in range(3):
        assert_close(logits_of(model, TOKENS[row : row + 1]), together[row : row + 1])


def test_a_sequence_token_by_token_equals_the_sequence_in_one(model):
    state, logits = model.initial_state(3), []
    for tokens in TOKENS.unbind(1):
        output, state = model.step(tokens, state)
        logits.append(output)
    assert_close(torch.stack(logits, dim=1), logits_of(model, TOKENS))


@pytest.mark.parametrize("cuts", [(0, 1, 7), (0, 3, 5, 7), (0, 7)])
def test_a_sequence_in_pieces_equals_the_sequence_in_one(model, cuts):
    state, logits = model.initial_state(3), []
    for start, end in pairwise(cuts):
        output, state = read_on(model, TOKENS[:, start:end], state)
        logits.append(output)
    assert_close(torch.cat(logits, dim=1), logits_of(model, TOKENS))


@pytest.mark.parametrize("name", [name for name in SEQUENCE_MODELS if "RNN" in name])
def test_the_state_of_a_group_rnn_is_equal_bit_for_bit_however_it_is_reached(name):
    model = SEQUENCE_MODELS[name]()
    whole = model(TOKENS)[1]
    _, state = model(TOKENS[:, :4])
    for tokens in TOKENS[:, 4:].unbind(1):
        _, state = model.step(tokens, state)
    assert torch.equal(state, whole)


@pytest.mark.parametrize("name", [name for name in SEQUENCE_MODELS if "RNN" in name or name in {"LSTM", "GRU"}])
def test_the_memory_of_a_recurrent_step_does_not_grow(name):
    model = SEQUENCE_MODELS[name]()

    def size(state):
        return sum(each.numel() for each in (state if isinstance(state, tuple) else (state,)))

    assert size(model(TOKENS)[1]) == size(model.initial_state(3))


def test_the_gradient_reaches_every_parameter(model):
    logits_of(model, TOKENS).square().sum().backward()
    # without the token's element in the move, nothing reads it: a form kept for its equal count
    idle = {"embedding.raw"} if isinstance(model, GroupRNN) and model.recurrence is move_by_drive else set()
    # rows of tokens that do not occur receive none, so that one number is enough
    silent = {name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().max() > 0}
    assert silent == idle


@pytest.mark.parametrize(
    ("mixing", "weights"), [(BCHMixing, ["bracket"]), (ThirdOrderMixing, ["bracket", "nested"])], ids=["BCH", "third"]
)
def test_on_a_torus_no_gradient_reaches_the_weight_of_the_bracket_which_is_zero(mixing, weights):
    model = GroupTransformer(Torus(4), vocabulary=7, mixing=mixing)
    model(TOKENS).square().sum().backward()
    silent = {name for name, one in model.named_parameters() if one.grad is None or not one.grad.abs().max() > 0}
    assert silent == {f"blocks.{number}.mixing.{weight}_weight" for number in range(2) for weight in weights}


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: Transformer(7, width=8, seed=seed),
        lambda seed: LSTM(7, hidden=5, seed=seed),
        lambda seed: GRU(7, hidden=5, seed=seed),
        lambda seed: GroupTransformer(Orthogonal(4), vocabulary=7, seed=seed),
        lambda seed: GroupRNN(Orthogonal(4), vocabulary=7, seed=seed),
    ],
    ids=["transformer", "LSTM", "GRU", "group transformer", "group RNN"],
)
def test_the_initial_values_depend_on_the_seed_alone_and_a_saved_model_is_restored(make):
    torch.manual_seed(1)
    first = make(0)
    torch.manual_seed(2)
    second, other = make(0), make(1)
    assert torch.equal(logits_of(first, TOKENS), logits_of(second, TOKENS))
    assert not torch.allclose(logits_of(first, TOKENS), logits_of(other, TOKENS))
    other.load_state_dict(first.state_dict())
    assert torch.equal(logits_of(first, TOKENS), logits_of(other, TOKENS))


# The baselines are torch's own layers.


@pytest.mark.parametrize(("kind", "before"), [(PreNormBlock, True), (PostNormBlock, False)])
@pytest.mark.parametrize("heads", [1, 2])
def test_a_block_of_the_transformer_is_torch_s_encoder_layer_with_its_slopes_as_a_mask(kind, before, heads):
    block, x = stirred(kind(8, heads)), torch.randn(3, 6, 8)
    layer = nn.TransformerEncoderLayer(8, heads, 16, 0.0, nn.functional.gelu, batch_first=True, norm_first=before)
    attention = block.attention
    layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias = attention.joined.weight, attention.joined.bias
    layer.self_attn.out_proj, layer.norm1, layer.norm2 = attention.out, block.attention_norm, block.feedforward_norm
    layer.linear1, layer.linear2 = block.feedforward[0], block.feedforward[2]
    distance = torch.arange(6)[:, None] - torch.arange(6)
    mask = -attention.slope[:, None, None] * distance - torch.where(distance < 0, torch.inf, 0.0)
    assert_close(block(x)[0], layer(x, src_mask=mask.repeat(3, 1, 1)), 1e-11)


def test_the_transformer_embeds_by_one_hot_vectors_and_has_no_norm_after_its_blocks():
    model = stirred(Transformer(7, width=8))
    x = model.embedding(nn.functional.one_hot(TOKENS, 7).double())
    for block in model.blocks:
        x, _ = block(x)
    assert_close(model(TOKENS), model.readout(x))


def test_the_slopes_of_the_transformer_start_at_the_usual_powers_of_two():
    assert Transformer(7, width=8).blocks[1].attention.slope.tolist() == [2**-8]
    assert Transformer(7, width=8, heads=4).blocks[0].attention.slope.tolist() == [2**-2, 2**-4, 2**-6, 2**-8]


def test_the_lstm_is_torch_s_over_one_hot_vectors():
    model = stirred(LSTM(7, hidden=5))
    hidden, cell = torch.randn(2, 3, 5)
    expected, (last, memory) = model.cell(nn.functional.one_hot(TOKENS, 7).double(), (hidden[None], cell[None]))
    logits, state = model(TOKENS, (hidden, cell))
    assert torch.equal(logits, model.readout(expected))
    assert torch.equal(torch.stack(state), torch.cat([last, memory]))


def test_the_gru_is_torch_s_over_one_hot_vectors():
    model = stirred(GRU(7, hidden=5, classes=4))
    hidden = torch.randn(3, 5)
    expected, last = model.cell(nn.functional.one_hot(TOKENS, 7).double(), hidden[None])
    logits, state = model(TOKENS, (hidden,))
    assert torch.equal(logits, model.readout(expected))
    assert logits.shape == (3, 7, 4)
    assert torch.equal(state[0], last[0])


# The number of parameters.


def _count(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("mixing", MIXINGS)
def test_the_number_of_parameters_is_the_documented_one_for_every_group_mixing_and_block(group, block_kind, mixing):
    vocabulary, layers, dim = 7, 3, group.algebra_dim
    numbers = {"Torus": group.dim, "Unitary": 2 * group.dim**2, "SpecialUnitary": 2 * group.dim**2}
    raw = numbers.get(type(group).__name__, group.dim**2)
    common = vocabulary * (2 * raw + 1)
    mixed = {"none": 0, "BCH": 1, "BCH, third order": 2, "linear": 2 * dim**2}[mixing]
    transformer = GroupTransformer(group, vocabulary, layers, MIXINGS[mixing], block=block_kind)
    assert _count(transformer) == common + layers * (2 * dim + 2 + mixed)
    once = {"none": 0, "BCH": 1, "BCH, third order": 2, "linear": dim**2}[mixing]
    assert _count(GroupRNN(group, vocabulary, MIXINGS[mixing])) == common + vocabulary * dim + once


def test_the_number_of_parameters_of_the_baselines_is_the_documented_one():
    assert _count(Transformer(7, width=12, layers=3, heads=4)) == 8 * 12 + 3 * (8 * 144 + 11 * 12 + 4) + 7 * 13
    assert _count(LSTM(7, hidden=5)) == 4 * 5 * (7 + 5 + 2) + 7 * 6
    assert _count(LSTM(7, hidden=5, classes=3)) == 4 * 5 * (7 + 5 + 2) + 3 * 6
    assert _count(GRU(7, hidden=5, classes=3)) == 3 * 5 * (7 + 5 + 2) + 3 * 6


def test_other_classes_than_the_vocabulary_change_the_readout_of_a_state_on_a_group_alone(group):
    model = GroupRNN(group, vocabulary=7, classes=3)
    logits, _ = model(TOKENS)
    assert logits.shape == (3, 7, 3)
    same = GroupRNN(group, vocabulary=7)
    raw = same.embedding.raw.numel() // 7
    assert _count(same) - _count(model) == 4 * (raw + 1)


# States on a group.


def _part(group, states):
    """The determinant's sign where the group has two components, else ones."""
    return torch.linalg.det(states).sign() if group.components > 1 else torch.ones(states.shape[:2])


@pytest.mark.parametrize("mixing", MIXINGS)
def test_the_states_stay_on_the_group_in_the_component_where_they_were(group, block_kind, mixing):
    block = stirred(block_kind(group, MIXINGS[mixing], torch.Generator().manual_seed(0)))
    start = group.random((2, 9))
    states = start
    for _ in range(10):
        states, _ = block(states, start)
    assert group.distance(states).max() < 1e-11
    assert torch.equal(_part(group, states), _part(group, start))
    assert (group.flatten(states) - group.flatten(start)).norm() > 0.1


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
@pytest.mark.parametrize("move", [move_to_token, move_from_token, move_then_multiply, move_by_drive])
def test_the_state_stays_on_the_group_over_256_tokens(group, move, dtype, tolerance):
    model = stirred(GroupRNN(group, vocabulary=7, recurrence=move)).to(dtype)
    with torch.no_grad():
        _, state = model(torch.randint(0, 7, (2, 256)))
    assert group.distance(state).max() < tolerance


def test_the_state_of_move_to_token_stays_in_the_component_where_it_was():
    group = Orthogonal(4)
    model, start = stirred(GroupRNN(group, vocabulary=7)), group.random((3,))
    _, state = model(TOKENS, start)
    torch.testing.assert_close(torch.linalg.det(state), torch.linalg.det(start))


def test_the_state_of_move_from_token_lies_in_the_component_of_the_last_token():
    group = Orthogonal(4)
    model = stirred(GroupRNN(group, vocabulary=7, recurrence=move_from_token))
    _, state = model(TOKENS, group.random((3,)))
    torch.testing.assert_close(torch.linalg.det(state), torch.linalg.det(model.embedding(TOKENS[:, -1])))


def test_with_a_mixing_of_zero_the_state_is_the_product_of_all_drives_or_knows_the_last_token_alone():
    group = Orthogonal(4)
    model = stirred(GroupRNN(group, vocabulary=7))
    with torch.no_grad():
        model.mixing.weights[0].zero_()
    drives = torch.linalg.matrix_exp(group.from_coordinates(model.drive.detach()))[TOKENS]
    product = torch.eye(4).expand(3, 4, 4)
    for at in range(TOKENS.shape[1]):
        product = product @ drives[:, at]
    assert_close(model(TOKENS)[1], product, 1e-12)
    model.recurrence = move_from_token
    last = model.embedding(TOKENS[:, -1]) @ drives[:, -1]
    assert_close(model(TOKENS)[1], last, 1e-12)
    assert_close(model(TOKENS[:, -1:])[1], last, 1e-12)


def test_a_move_from_the_token_is_a_move_of_the_token_towards_the_state():
    group = Orthogonal(4)
    mixing = stirred(LinearMixing(group, 1, torch.Generator().manual_seed(0)))
    state, token, drive = group.random((3,)), group.random((3,)), torch.randn(3, 6)
    relative = token.mT @ state
    tangent = group.to_coordinates((relative - relative.mT) / 2) @ mixing.weights[0].mT + drive
    expected = token @ torch.linalg.matrix_exp(group.from_coordinates(tangent))
    assert_close(move_from_token(group, mixing, state, token, drive), expected, 1e-12)


def test_a_logit_differs_from_its_bias_by_the_dimension_at_most(group):
    transformer = stirred(GroupTransformer(group, vocabulary=7))
    rnn = stirred(GroupRNN(group, vocabulary=7))
    for model in (transformer, rnn):
        assert (logits_of(model, TOKENS) - model.readout.bias).abs().max() <= group.dim + 1e-12


def test_a_logit_differs_from_its_bias_by_the_dimension_where_the_state_is_the_prototype(group):
    readout = stirred(TraceReadout(group, 5))
    logits = readout(readout.prototypes.elements()) - readout.bias
    assert_close(logits.diagonal(), torch.full((5,), float(group.dim)))


def test_all_elements_of_a_table_lie_on_the_group_in_the_component_of_their_sign(group):
    table = stirred(GroupTable(group, 12))
    assert group.distance(table.elements()).max() < 1e-12
    if group.components == 1:
        assert table.component is None
    else:
        assert torch.equal(torch.linalg.det(table.elements()) < 0, table.component)
    tokens = torch.randint(0, 12, (3, 4))
    assert torch.equal(table(tokens), table.elements()[tokens])


def test_half_of_the_elements_of_a_table_are_reflected_or_none_or_all():
    shares = [GroupTable(Orthogonal(2), 2000, reflected=share).component.double().mean() for share in (0.5, 0.0, 1.0)]
    assert shares[0].item() == pytest.approx(0.5, abs=0.05)
    assert shares[1:] == [0, 1]


def test_the_phases_of_initial_elements_are_of_the_order_of_one(group):
    turns = torch.linalg.eigvals(_dense(group, GroupTable(group, 400, reflected=0.0).elements())).angle()
    assert 0.4 < turns.square().mean().sqrt() < 1.1


def _dense(group, elements):
    return torch.diag_embed(elements) if len(group.shape) == 1 else elements


def test_looking_tokens_up_takes_one_exponential_for_each_element_of_the_table(monkeypatch):
    sizes = []
    group, exponential = Orthogonal(3), Orthogonal._exp

    def counted(self, tangent):
        sizes.append(tangent.shape[:-2].numel())
        return exponential(self, tangent)

    monkeypatch.setattr(Orthogonal, "_exp", counted)
    GroupTable(group, 7)(torch.randint(0, 7, (50, 20)))
    assert sizes == [7]
    sizes.clear()
    GroupTransformer(group, vocabulary=7, layers=2)(TOKENS)
    assert sorted(sizes) == [7, 7, *[TOKENS.numel()] * 4]


# Attention.


def test_the_means_are_causal_and_lie_off_the_group(group):
    attention, states = GroupAttention(group), group.random((2, 6))
    changed = states.clone()
    changed[:, 4] = group.random((2,))
    before, after = attention(states)[0], attention(changed)[0]
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])
    assert group.distance(before[:, 1:]).min() > 1e-6
    assert_close(before[:, 0], states[:, 0])


def test_scores_of_similarity_start_between_minus_one_and_one(group):
    attention, states = GroupAttention(group), group.flatten(group.random((40,)))
    scores = attention.inverse_temperature * states @ states.T
    assert_close(scores.diagonal(), torch.ones(40))
    assert scores.abs().max() <= 1 + 1e-12


def test_a_position_that_attends_to_itself_alone_does_not_move_without_a_drive(group):
    attention = GroupAttention(group)
    with torch.no_grad():
        attention.slope.fill_(1e6)
    states = group.random((2, 6))
    assert group.relative(states, attention(states)[0]).abs().max() < 1e-14


def test_moving_all_states_by_one_element_from_the_left_moves_the_means_by_it(group):
    attention, states, left = stirred(GroupAttention(group)), group.random((2, 6)), group.random()
    assert_close(attention(group.compose(left, states))[0], group.compose(left, attention(states)[0]))


def _invariant(group, block):
    states, tokens, left = group.random((2, 6)), group.random((2, 6)), group.random()
    moved = block(group.compose(left, states), group.compose(left, tokens))[0]
    return torch.allclose(moved, group.compose(left, block(states, tokens)[0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_moving_all_states_and_tokens_from_the_left_moves_what_blocks_towards_the_token_return(group, mixing):
    block = stirred(SerialBlock(group, MIXINGS[mixing], position_tangent=token_tangent))
    assert _invariant(group, block)
    assert _invariant(group, stirred(TwoHeadBlock(group, MIXINGS[mixing])))


def test_the_state_s_own_tangent_is_not_invariant_from_the_left(group):
    assert not _invariant(group, stirred(SerialBlock(group, LinearMixing)))


def _moved_from_the_left(model, left):
    """The model's logits once its elements and prototypes are multiplied by one element, through their lookups."""
    group = model.group

    def moved(table):
        elements = group.compose(left, GroupTable.elements(table)).detach()
        table.elements = lambda: elements

    moved(model.embedding)
    moved(model.readout.prototypes)
    return model


@pytest.mark.parametrize("move", [move_to_token, move_from_token, move_then_multiply])
def test_moving_initial_state_elements_and_prototypes_from_the_left_changes_no_logits_of_relative_moves(group, move):
    model, left, start = stirred(GroupRNN(group, vocabulary=7, recurrence=move)), group.random(), group.random((3,))
    before = model(TOKENS, start)[0].detach()
    after = _moved_from_the_left(model, left)(TOKENS, group.compose(left, start))[0]
    assert torch.allclose(before, after, rtol=0, atol=1e-11) == (move is not move_then_multiply)


def test_moving_elements_and_prototypes_from_the_left_changes_no_logits_of_blocks_towards_the_token(group):
    model = stirred(GroupTransformer(group, vocabulary=7, block=GROUP_BLOCKS["serial, towards the token"]))
    before = model(TOKENS).detach()
    assert_close(_moved_from_the_left(model, group.random())(TOKENS), before, 1e-11)


# Mixing.


@pytest.mark.parametrize(
    "mixing",
    [LinearMixing, BCHMixing, ThirdOrderMixing],
    ids=["linear at the identity", "BCH at zero", "third order at zero"],
)
def test_a_mixing_at_its_neutral_value_equals_no_mixing(group, block_kind, mixing):
    def build(kind):
        model = stirred(GroupTransformer(group, vocabulary=7, mixing=kind, block=block_kind))
        with torch.no_grad():
            for part in model.modules():
                if isinstance(part, LinearMixing):
                    for weight in part.weights:
                        weight.copy_(torch.eye(group.algebra_dim))
                elif isinstance(part, BCHMixing):
                    part.bracket_weight.zero_()
                elif isinstance(part, ThirdOrderMixing):
                    part.bracket_weight.zero_()
                    part.nested_weight.zero_()
        return model

    neutral, plain = build(mixing), build(IdentityMixing)
    missing = plain.load_state_dict(neutral.state_dict(), strict=False)
    assert not missing.missing_keys
    assert_close(neutral(TOKENS), plain(TOKENS), 1e-11)


def test_linear_mixing_is_the_matrix_of_its_place_and_the_drive():
    mixing = stirred(LinearMixing(Orthogonal(4), places=2))
    tangent, drive = torch.randn(5, 6), torch.randn(6)
    for place, weight in enumerate(mixing.weights):
        expected = torch.stack([weight @ one for one in tangent]) + drive
        assert_close(mixing(tangent, drive, place), expected)
    assert not torch.allclose(mixing(tangent, drive, 0), mixing(tangent, drive, 1))


def test_bch_mixing_adds_half_of_its_weight_times_the_bracket(group):
    mixing = BCHMixing(group, places=2)
    with torch.no_grad():
        mixing.bracket_weight.fill_(0.7)
    for tangents in (1, 400):  # of many, the bracket with one drive is a matrix
        tangent = torch.randn(tangents, group.algebra_dim)
        for drive in (torch.randn(group.algebra_dim), torch.randn(tangents, group.algebra_dim)):
            x, y = (_dense(group, group.from_coordinates(each)) for each in (tangent, drive))
            expected = x + y + 0.35 * (x @ y - y @ x)
            assert_close(_dense(group, group.from_coordinates(mixing(tangent, drive, 1))), expected)


def test_bch_mixing_at_one_is_the_product_of_exponentials_up_to_third_order(group):
    mixing = BCHMixing(group)
    left, right = torch.randn(2, group.algebra_dim)

    def error(size, weight):
        with torch.no_grad():
            mixing.bracket_weight.fill_(weight)
            joined = group.exp(group.from_coordinates(mixing(size * left, size * right)))
            parts = [group.exp(group.from_coordinates(size * each)) for each in (left, right)]
            return float((joined - group.compose(*parts)).abs().max())

    assert error(1e-3, 1.0) < 1e-7
    if float(group.bracket(left, right).abs().max()) > 0:
        assert error(1e-3, 1.0) / error(5e-4, 1.0) == pytest.approx(8, rel=0.1)
        assert error(1e-3, 0.0) / error(5e-4, 0.0) == pytest.approx(4, rel=0.1)


def _logarithm(group, element):
    """The coordinates of the principal logarithm, by eigenvalues: nothing of the series is used."""
    values, vectors = torch.linalg.eig(_dense(group, element).to(torch.complex128))
    log = vectors @ torch.diag_embed(1j * values.angle()) @ torch.linalg.inv(vectors)
    log = log.diagonal(dim1=-2, dim2=-1) if len(group.shape) == 1 else log
    return group.to_coordinates(log if group.is_complex else log.real)


@pytest.mark.parametrize(("mixing", "order"), [(IdentityMixing, 2), (BCHMixing, 3), (ThirdOrderMixing, 4)])
def test_a_mixing_at_one_is_the_logarithm_of_the_product_of_exponentials_to_its_order(group, mixing, order):
    joined, left, right = mixing(group), *torch.randn(2, group.algebra_dim)
    with torch.no_grad():
        for weight in joined.parameters():
            weight.fill_(1.0)

    def missed(size):
        exponentials = [group.exp(group.from_coordinates(size * each)) for each in (left, right)]
        logarithm = _logarithm(group, group.compose(*exponentials))
        return float((joined(size * left, size * right) - logarithm).detach().abs().max())

    if float(group.bracket(left, right).abs().max()) == 0:
        assert missed(0.1) < 1e-13
    else:
        assert missed(0.02) / missed(0.01) == pytest.approx(2**order, rel=0.2)


def test_one_weight_of_the_bracket_serves_all_places_of_a_layer():
    block = SerialBlock(Orthogonal(4), BCHMixing)
    assert sum(parameter.numel() for parameter in block.mixing.parameters()) == 1


# A torus is the elementwise case, written down with complex numbers alone.


def test_on_a_torus_the_models_are_elementwise_phases():
    transformer = stirred(GroupTransformer(Torus(4), vocabulary=7, layers=1))
    block = transformer.blocks[0]
    phases, prototypes = transformer.embedding.raw, transformer.readout.prototypes.raw
    states = phases[TOKENS]
    similarity = torch.cos(states[:, :, None] - states[:, None]).sum(-1)
    at = torch.arange(7)
    scores = block.attention.inverse_temperature * similarity - block.attention.slope * (at[:, None] - at)
    weights = scores.masked_fill(at[:, None] < at, -torch.inf).softmax(-1)
    relative = (weights[..., None] * torch.sin(states[:, None] - states[:, :, None])).sum(2)
    states = states + relative @ block.mixing.weights[0].T + block.attention_drive
    states = states + torch.sin(states) @ block.mixing.weights[1].T + block.position_drive
    expected = torch.cos(states[:, :, None] - prototypes).sum(-1) + transformer.readout.bias
    assert_close(transformer(TOKENS), expected)


def test_on_a_torus_a_recurrent_state_is_a_sum_of_phases():
    model = stirred(GroupRNN(Torus(4), vocabulary=7))
    state = torch.zeros(3, 4)
    for tokens in TOKENS.unbind(1):
        state = state + torch.sin(model.embedding.raw[tokens] - state) @ model.mixing.weights[0].T + model.drive[tokens]
    expected = torch.cos(state[:, None] - model.readout.prototypes.raw).sum(-1) + model.readout.bias
    assert_close(model(TOKENS)[0][:, -1], expected)


# Half precision.


@pytest.mark.parametrize("name", [name for name in SEQUENCE_MODELS if name.startswith("group")])
def test_a_group_model_cast_to_half_precision_keeps_all_its_numbers(name):
    model = SEQUENCE_MODELS[name]()
    before = logits_of(model, TOKENS)
    model = model.bfloat16()
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float64}
    assert torch.equal(logits_of(model, TOKENS), before)


@pytest.mark.parametrize("name", [name for name in SEQUENCE_MODELS if name.startswith("group")])
def test_autocast_does_not_reach_group_arithmetic(name):
    model = SEQUENCE_MODELS[name]().float()

    def with_gradients(autocast):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            logits = logits_of(model, TOKENS)
        logits.square().mean().backward()
        return [logits, *[p.grad for p in model.parameters() if p.grad is not None]]

    outside, inside = with_gradients(False), with_gradients(True)
    assert all(torch.equal(left, right) for left, right in zip(outside, inside, strict=True))


def test_under_a_default_type_of_half_precision_the_parameters_are_float32():
    torch.set_default_dtype(torch.bfloat16)
    for model in (GroupTransformer(Unitary(2), 7, mixing=BCHMixing), GroupRNN(Orthogonal(3), 7)):
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


# A user's mistakes.


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        (TOKENS.double(), "tokens must be int64 or int32, got float64"),
        (TOKENS + 1, "tokens must lie in 0 .. 6, got 7"),
        (TOKENS - 1, "tokens must lie in 0 .. 6, got -1"),
        (TOKENS[:, :0], r"shape \(batch, length\) with at least one token, got \(3, 0\)"),
        (TOKENS[0], r"shape \(batch, length\) with at least one token, got \(7,\)"),
    ],
)
def test_bad_tokens_are_refused_in_one_line(model, tokens, words):
    with refused(words):
        model(tokens)


def test_a_step_of_something_else_than_one_token_each_is_refused(model):
    with refused(r"tokens must have shape \(batch,\) with at least one token, got \(3, 7\)"):
        model.step(TOKENS, model.initial_state(3))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("group RNN, O", lambda s: s[:2], r"state must be float64 of shape \(3, 4, 4\), got float64 of \(2, 4, 4\)"),
        ("group RNN, O", lambda s: s.float(), "state must be float64 of shape .* got float32"),
        ("group RNN, U", lambda s: s.real, "state must be complex128 of shape .* got float64"),
        ("group transformer, O", lambda s: s[:1], "state must hold 2 tensors, got 1"),
        (
            "group transformer, O",
            lambda s: [x[:2] for x in s],
            r"of shape \(3, past, 16\), got float64 of \(2, 0, 16\)",
        ),
        ("group transformer, O", lambda s: [x.new_zeros(3, i, 16) for i, x in enumerate(s)], r"shape \(3, 0, 16\)"),
        ("group transformer, O", lambda s: [x[0] for x in s], r"of shape \(3, past, 16\)"),
        ("transformer", lambda s: [x.bfloat16() for x in s], "state must be float64 .* got bfloat16"),
        ("LSTM", lambda s: s[:1], "state must hold 2 tensors, got 1"),
        ("LSTM", lambda s: (s[0], s[1][:, 1:]), r"of shape \(3, 5\), got float64 of \(3, 4\)"),
    ],
)
def test_a_state_of_another_shape_or_type_is_refused_in_one_line(name, change, words):
    model = SEQUENCE_MODELS[name]()
    with refused(words):
        model.step(TOKENS[:, 0], change(model.initial_state(3)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Transformer(0, width=8), "vocabulary must be at least 1, got 0"),
        (lambda: Transformer(7, width=9, heads=2), "width must be a positive multiple of heads = 2, got 9"),
        (lambda: Transformer(7, width=8, heads=0), "heads must be at least 1, got 0"),
        (lambda: LSTM(7, hidden=0), "hidden must be at least 1, got 0"),
        (lambda: GroupTransformer(Orthogonal(3), vocabulary=0), "vocabulary must be at least 1, got 0"),
        (lambda: GroupTransformer(Orthogonal(3), 7, layers=0), "layers must be at least 1, got 0"),
        (lambda: GroupTransformer(SpecialOrthogonal(3), 7, reflected=1.5), "reflected must be a probability .* 1.5"),
        (lambda: GroupRNN(Orthogonal(3), vocabulary=-1), "vocabulary must be at least 1, got -1"),
        (lambda: GroupTable(Orthogonal(3), 0), "count must be at least 1, got 0"),
        (lambda: LinearMixing(Orthogonal(3), places=0), "places must be at least 1, got 0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()

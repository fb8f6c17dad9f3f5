"""Laws of states that snap to a learned finite set, of DeltaProduct, and of the tanh recurrence."""

from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy

from cases import CODE_MOVES
from closeness import assert_close
from refusal import refused
from register import concrete_subclasses
from torsor.groups import Orthogonal, named
from torsor.layers import CodeMoves, DeltaProductLayer, FreeMoves, GroupMoves
from torsor.models import SnappedRNN, TanhRNN
from torsor.tasks import WordProblem
from torsor.tracking import HeldOutPairs, choose_pairs, prove_closure
from torsor.training import LengthCurriculum, Plan, TrainState, adamw, train

CODES, LETTERS = 7, 3
TOKENS = torch.tensor([[3, 0, 2, 1, 0, 3, 1], [3, 1, 1, 0, 2, 2, 0], [3, 2, 0, 0, 1, 1, 1]])


@pytest.fixture(params=CODE_MOVES, ids=str)
def moves(request):
    return CODE_MOVES[request.param]()


@pytest.fixture
def model(moves):
    return SnappedRNN(moves)


def test_every_kind_of_moves_is_in_the_register():
    assert {type(make()) for make in CODE_MOVES.values()} == concrete_subclasses(CodeMoves)


def test_codes_and_start_have_norm_1(moves):
    assert moves.codes().shape[0] == CODES + 1
    assert_close(moves.codes().norm(dim=-1), torch.ones(CODES + 1))


def test_the_code_with_the_largest_score_is_the_nearest_to_the_moved_one(moves):
    codes = moves.codes()
    moved = moves.moved(codes)
    distance = (moved[:, :, None] - codes[:CODES]).norm(dim=-1)
    scores = moves.scores()
    assert scores.shape == (CODES + 1, LETTERS, CODES)
    assert torch.equal(scores.argmax(-1), distance.argmin(-1))
    assert_close(scores, torch.einsum("nxi,ji->nxj", moved, codes[:CODES]) * moves.log_sharpness.exp())


def test_group_moves_multiply_from_the_right():
    moves = GroupMoves(Orthogonal(3), CODES, LETTERS)
    codes, letters = moves.elements.elements(), moves.moves.elements()
    trace = torch.einsum("jab,iac,xcb->ixj", codes[:CODES], codes, letters)
    assert_close(moves.scores(), trace / 3 * moves.log_sharpness.exp())


def test_the_gradient_reaches_every_parameter(model):
    logits, _ = model(TOKENS)
    cross_entropy(logits[:, 1:].flatten(0, 1), torch.arange(18) % CODES).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad.abs().max() > 0, name


def test_the_state_is_bitwise_a_code_or_the_start(model):
    codes, state = model.moves.codes(), None
    for token in TOKENS.unbind(1):
        _, state = model.step(token, state)
        assert (state[:, None] == codes).all(-1).any(-1).all()
    assert torch.equal(model.initial_state(2), codes[-1:].expand(2, -1))


def test_an_answer_is_the_code_that_the_state_goes_to(model):
    logits, state = model(TOKENS)
    assert torch.equal(model.moves.codes()[logits[:, -1].argmax(-1)], state)


def test_causal_and_a_batch_equals_its_sequences_alone_and_a_sequence_in_pieces_the_one_in_one_bit_for_bit(model):
    logits, last = model(TOKENS)
    for row in range(3):
        alone, state = model(TOKENS[row : row + 1])
        assert torch.equal(alone[0], logits[row])
        assert torch.equal(state[0], last[row])
    changed = TOKENS.clone()
    changed[:, 4] = 1
    assert torch.equal(model(changed)[0][:, :4], logits[:, :4])
    for cuts in ((0, 1, 7), (0, 3, 5, 7), range(8)):
        state, pieces = None, []
        for start, stop in pairwise(cuts):
            piece, state = model(TOKENS[:, start:stop], state)
            pieces.append(piece)
        assert torch.equal(torch.cat(pieces, 1), logits)
        assert torch.equal(state, last)


def test_after_the_begin_token_nothing_is_left_of_what_came_before(model):
    begun = model(TOKENS[:1])[0][0, 5:]
    fresh = model(TOKENS[:1, 5:])[0][0]
    assert torch.equal(begun, fresh)
    assert (begun[0] == 0).all()
    assert torch.equal(model(TOKENS[:1, :6])[1], model.initial_state(1))  # sixth token: it begins a word
    assert torch.equal(model(TOKENS[:1, 5:6])[1], model.initial_state(1))


def test_a_state_that_is_no_code_is_refused(model):
    state = model.initial_state(2)
    with refused("state must be of this model's codes, got 2 that are none of them"):
        model.step(torch.tensor([0, 1]), state + 1e-9)
    with refused("state must be float64 of shape"):
        model.step(torch.tensor([0, 1]), state[:1])
    with refused("tokens must lie in 0 .. 3, got 4"):
        model(torch.tensor([[4]]))


@pytest.mark.parametrize("wrong", [{"codes": 1}, {"letters": 0}, {"sharpness": 0.0}, {"dim": 0}])
def test_sizes_that_are_none_are_refused(wrong):
    with refused(f"{next(iter(wrong))} must be (at least|positive)"):
        FreeMoves(**{"codes": 3, "letters": 2, "dim": 2, **wrong})


@pytest.mark.parametrize("kind", ["free", "group"])
def test_it_learns_s3_without_some_pairs_and_is_then_proven_at_every_length(kind):
    torch.set_default_dtype(torch.float32)
    task = WordProblem(named("S3"), length=12, alphabet="all")
    data = HeldOutPairs(task, choose_pairs(task))
    generator = torch.Generator().manual_seed(0)
    moves = (
        FreeMoves(6, 6, 16, generator=generator)
        if kind == "free"
        else GroupMoves(Orthogonal(4), 6, 6, generator=generator)
    )
    model = SnappedRNN(moves)
    assert not prove_closure(model.step, task).proven
    plan = Plan(updates=250, batch=64, curriculum=LengthCurriculum((1, 2, 4, 12), threshold=0.15))
    state = TrainState(model, adamw(model, 2e-2))
    for _ in train(state, data, plan, forward=lambda model, tokens, update, rows: model(tokens)[0]):
        pass
    found = prove_closure(model.step, task)
    assert found.proven
    assert found.states == 7
    assert found.margin > 1
    # a code taken away breaks the proof
    with torch.no_grad():
        for part in (moves.raw,) if kind == "free" else (moves.elements.raw,):
            part[3] = -part[3] if kind == "free" else part[4]
    assert not prove_closure(model.step, task).proven


# DeltaProduct.


def test_delta_product_is_the_recurrence_with_its_dense_maps_multiplied_out_step_by_step():
    layer = DeltaProductLayer(6, heads=2, key_dim=4, value_dim=3, maps=3)
    x, state = torch.randn(2, 5, 6), torch.randn(2, 2, 4, 3)
    outputs, last = layer(x, (state,))
    query, key, value, beta = layer.parts(x, torch.float64)
    assert_close(beta, 2 / (1 + torch.exp(-(x @ layer.beta.weight.T + layer.beta.bias))).unflatten(-1, (2, 3)))
    for row in range(2):
        read = []
        for head in range(2):
            carried, each = state[row, head], []
            for now in range(5):
                move, write = torch.eye(4), torch.zeros(4, 3)
                for turn in range(3):
                    k, b = key[row, now, head, turn], beta[row, now, head, turn]
                    assert_close(k.norm(), torch.tensor(1.0))
                    assert 0 < b < 2
                    factor = torch.eye(4) - b * torch.outer(k, k)
                    move, write = factor @ move, factor @ write + b * torch.outer(k, value[row, now, head, turn])
                carried = move @ carried + write
                each.append(carried.T @ query[row, now, head])
            assert_close(last[0][row, head], carried)
            read.append(torch.stack(each))
        assert_close(outputs[row], torch.cat(read, dim=-1) @ layer.out.weight.T)


def test_the_norm_of_a_state_that_is_not_written_to_does_not_grow():
    layer = DeltaProductLayer(6, heads=2, key_dim=4, value_dim=3, maps=2)
    torch.nn.init.zeros_(layer.value.weight)
    state = torch.randn(2, 2, 4, 3)
    _, (after,) = layer(3 * torch.randn(2, 50, 6), (state,))
    assert (torch.linalg.matrix_norm(after, 2) <= torch.linalg.matrix_norm(state, 2) + 1e-12).all()


@pytest.mark.parametrize("sizes", [{}, {"heads": 2, "key_dim": 3, "value_dim": 5, "maps": 1}])
def test_the_number_of_parameters_of_delta_product_is_the_documented_one(sizes):
    layer = DeltaProductLayer(6, **sizes)
    w, h, k, v, n = 6, layer.heads, layer.key_dim, layer.value_dim, layer.maps
    expected = w * h * (k + n * (k + v + 1)) + h * n + w * h * v
    assert sum(each.numel() for each in layer.parameters()) == expected


@pytest.mark.parametrize("wrong", ["width", "heads", "key_dim", "value_dim", "maps"])
def test_a_delta_product_without_a_size_is_refused(wrong):
    with refused(f"{wrong} must be at least 1, got 0"):
        DeltaProductLayer(**{"width": 4, wrong: 0})


# The tanh recurrence.


def test_a_tanh_rnn_is_its_formula_and_in_pieces_it_is_the_one_in_one():
    model = TanhRNN(4, 5, classes=3)
    logits, (last,) = model(TOKENS)
    cell, hidden = model.cell, torch.zeros(3, 5)
    for position, token in enumerate(TOKENS.unbind(1)):
        drive = cell.weight_ih_l0.T[token] + cell.bias_ih_l0 + cell.bias_hh_l0
        hidden = torch.tanh(drive + hidden @ cell.weight_hh_l0.T)
        assert_close(logits[:, position], model.readout(hidden))
    assert_close(last, hidden)
    first, state = model(TOKENS[:, :3])
    second, (end,) = model(TOKENS[:, 3:], state)
    assert_close(torch.cat([first, second], 1), logits)
    assert_close(end, last)
    assert sum(each.numel() for each in model.parameters()) == 5 * (4 + 5 + 2) + 3 * (5 + 1)

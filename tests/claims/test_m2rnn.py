"""M²RNN as published: the layer's order of operations, its constants, its sizes, and what its state can do."""

import math
from itertools import accumulate

import pytest
import torch
from torch.nn.functional import conv1d, rms_norm, silu, softplus

from cases import M2RNN_HEADS, stirred
from closeness import assert_close
from refusal import refused
from torsor.groups import alternating, symmetric
from torsor.layers import CachedAttention, LSTMLayer, M2RNNLayer, M2RNNStart, MatrixHeads, SequenceBlock
from torsor.models import M2RNN, Hybrid, m2rnn_410m
from torsor.models.m2rnn_published import ONE_LAYER, THREE_LAYERS
from torsor.recurrence import m2rnn


def count(module):
    return sum(each.numel() for each in module.parameters())


@pytest.mark.parametrize("name", M2RNN_HEADS)
def test_the_layer_equals_the_published_order_of_operations_written_down(name):
    heads, length = M2RNN_HEADS[name], 7
    layer = stirred(M2RNNLayer(6, heads, start=M2RNNStart(std=0.5, convolution_std=0.5)))
    x = torch.randn(2, length, 6)
    written, f, g = (x @ layer.enter.weight.T).split(layer.split, dim=-1)
    # the convolution reads queries, keys and values, and neither the gate nor the output gate
    written = conv1d(written.mT, layer.convolution.weight[:, None], padding=3, groups=sum(heads.parts))
    q, k, v = silu(written[..., :length].mT).split(heads.parts, dim=-1)
    n, rows, columns = heads.states, heads.key_dim, heads.value_dim
    q, k = (part.reshape(2, length, -1, rows).repeat_interleave(n * rows // part.shape[-1], 2) for part in (q, k))
    v = v.reshape(2, length, -1, columns).repeat_interleave(n // heads.value, 2)
    f = (1 + torch.exp(f + layer.forget.raw_timestep)) ** -layer.forget.log_rate.exp()
    f = f.repeat_interleave(n // heads.forget, 2)
    weight = layer.state_weight.repeat_interleave(n // heads.weight, 0)
    matrix, read = torch.zeros(2, n, rows, columns), []
    for t in range(length):
        gate = f[:, t, :, None, None]
        proposed = torch.tanh(matrix @ weight + torch.einsum("bnk,bnv->bnkv", k[:, t], v[:, t]))
        matrix = gate * matrix + (1 - gate) * proposed
        read.append(torch.einsum("bnkv,bnk->bnv", matrix, q[:, t]))
    y = torch.stack(read, dim=1) + layer.skip * v
    y = y.flatten(2) * silu(g)  # the gate comes before the norm, and the norm is over all heads together
    y = rms_norm(y, (n * columns,), layer.norm.weight, eps=1e-5) @ layer.leave.weight.T
    outputs, (last, _) = layer(x)
    assert_close(outputs, y, 1e-11)
    assert_close(last, matrix, 1e-11)


def test_a_block_normalises_before_the_layer_and_before_the_gated_network():
    block = stirred(SequenceBlock(CachedAttention(6, 2), 5))
    x = torch.randn(2, 4, 6)
    after = x + block.mixer(rms_norm(x, (6,), block.mixer_norm.weight, eps=1e-5))[0]
    inner = rms_norm(after, (6,), block.feedforward_norm.weight, eps=1e-5)
    gate, value = (inner @ block.feedforward.up.weight.T).chunk(2, -1)
    assert_close(block(x)[0], after + (silu(gate) * value) @ block.feedforward.down.weight.T)


def test_attention_is_the_softmax_of_products_over_the_root_of_the_head_without_positions():
    layer = stirred(CachedAttention(6, 2, std=0.5))
    x = torch.randn(2, 5, 6)
    query, key, value = (x @ layer.joined.weight.T).unflatten(-1, (3, 2, 3)).permute(2, 0, 3, 1, 4)
    scores = query @ key.mT / math.sqrt(3)
    scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
    mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
    assert_close(layer(x)[0], mixed @ layer.out.weight.T)
    # an order of what came before leaves the last output as it is
    mixed_up = x[:, [2, 0, 3, 1, 4]]
    assert_close(layer(mixed_up)[0][:, 4], layer(x)[0][:, 4])


def test_the_state_weights_start_at_the_identity_the_skip_at_one_and_the_matrices_at_their_published_sizes():
    layer = M2RNNLayer(256, MatrixHeads.multi_value(20), start=M2RNNStart(layers=24))
    assert torch.equal(layer.state_weight, torch.eye(16).expand(20, -1, -1))
    assert torch.equal(layer.skip, torch.ones(20, 16))
    assert torch.equal(layer.norm.weight, torch.ones(320))
    assert_close(layer.enter.weight.std(), torch.tensor(0.02), 0.02)
    assert_close(layer.convolution.weight.std(), torch.tensor(0.02), 0.1)
    assert_close(layer.leave.weight.std(), torch.tensor(0.02 / math.sqrt(48)), 0.02)
    assert (layer.gradient_clip, layer.clip_mode, layer.convolution.kernel, layer.norm.eps) == (1.0, "total", 4, 1e-5)
    model = M2RNN(500, 64, layers=3)
    for weight in (model.embedding.weight, model.readout.weight, model.blocks[0].feedforward.up.weight):
        assert_close(weight.std(), torch.tensor(0.02), 0.03)
    for block in model.blocks:
        for weight in (block.feedforward.down.weight, block.mixer.leave.weight):
            assert_close(weight.std(), torch.tensor(0.02 / math.sqrt(6)), 0.03)


def test_a_model_s_layer_clips_the_gradient_of_a_state_at_1_as_published():
    layer = M2RNNLayer(6, M2RNN_HEADS["published"], start=M2RNNStart(std=0.5, convolution_std=0.5))
    free = M2RNNLayer(6, M2RNN_HEADS["published"], gradient_clip=None)
    free.load_state_dict(layer.state_dict())
    x = torch.randn(1, 9, 6)

    def gradient(one, size):
        (grad,) = torch.autograd.grad((size * one(x)[0]).sum(), [one.state_weight])
        return grad / size

    assert torch.equal(gradient(layer, 1e-6), gradient(free, 1e-6))
    assert not torch.allclose(gradient(layer, 1e3), gradient(free, 1e3), rtol=0.1)


def test_with_one_row_a_key_of_one_and_no_gate_it_is_the_vector_rnn_of_elman():
    w, inputs = torch.randn(1, 5, 5), torch.randn(2, 8, 1, 5)
    ones = torch.ones(2, 8, 1, 1)
    outputs, _ = m2rnn(ones, ones, inputs, w, torch.zeros(2, 8, 1))
    cell = torch.nn.RNN(5, 5, batch_first=True, bias=False)
    with torch.no_grad():
        cell.weight_ih_l0.copy_(torch.eye(5))
        cell.weight_hh_l0.copy_(w[0].T)
    assert_close(outputs[:, :, 0], cell(inputs[:, :, 0])[0])


def elman_solution(group, word, gain):
    """What hand-made units read from a word: one for each pair of an element and a letter.

    A unit is on where the word before was its element and the letter that came is its letter. So those on
    whose pair leads to an element say that the word has reached it: their sum is the next step's drive.
    """
    letters = torch.tensor(group.generators)
    pairs = torch.cartesian_prod(torch.arange(group.order), torch.arange(len(letters)))
    reached = torch.tensor(group.table)[pairs[:, 0], letters[pairs[:, 1]]]
    weight = gain * (reached[:, None] == pairs[:, 0]).double()
    # units are 1 or -1: of those that lead to an element, as many as there are letters, one is on, or none
    drive = gain * (len(letters) - 1 - 2 * (word[:, None] != pairs[:, 1]).double())
    start = torch.full((len(pairs),), -1.0)
    start[(reached == group.identity).nonzero()[0]] = 1
    ones = torch.ones(1, len(word), 1, 1)
    outputs, _ = m2rnn(ones, ones, drive[None, :, None], weight[None], 0 * ones[..., 0], start[None, None, None])
    return reached[outputs[0, :, 0].argmax(-1)].tolist(), letters[word].tolist()


@pytest.mark.parametrize("make", [lambda: symmetric(3), lambda: alternating(5)], ids=["S3", "A5"])
def test_with_a_hand_made_weight_one_row_solves_the_word_problem_of_a_group_over_5_000_letters_exactly(make):
    group = make()
    word = torch.randint(0, len(group.generators), (5_000,))
    found, letters = elman_solution(group, word, gain=4.0)
    expected = list(accumulate(letters, group.compose))
    assert found == expected
    # the tanh must saturate: with weights too small the word is lost
    lost, _ = elman_solution(group, word, gain=0.4)
    assert sum(one == other for one, other in zip(lost, expected, strict=True)) < 2_500


def test_the_published_hybrid_has_410_191_176_parameters_besides_the_readout_and_512_951_624_with_it():
    with torch.device("meta"):
        model = m2rnn_410m()
    assert count(model) == 512_951_624
    assert count(model) - count(model.readout) == 410_191_176
    kinds = [type(block.mixer) for block in model.blocks]
    assert [place for place, kind in enumerate(kinds) if kind is CachedAttention] == [4, 12, 20]
    assert kinds.count(M2RNNLayer) == 21
    assert all(each.is_meta for each in model.parameters())
    assert (model.width, model.blocks[0].feedforward.down.in_features, model.blocks[4].mixer.heads) == (1024, 2752, 16)


def test_every_m2rnn_layer_of_it_has_a_matrix_state_of_86_016_numbers():
    with torch.device("meta"):
        state = m2rnn_410m().initial_state(2)
    sizes = [part[0].numel() // 2 for part in state]
    assert [size for size in sizes if size] == [86_016] * 21
    assert state[0][0].shape == (2, 84, 64, 16)
    assert sum(part.numel() for part in state[4]) == 0


def test_the_purely_recurrent_model_has_no_attention():
    with torch.device("meta"):
        model = m2rnn_410m(attention_at=())
    assert [type(block.mixer) for block in model.blocks] == [M2RNNLayer] * 24
    assert count(model) == 512_951_624 + 3 * (4_376_104 - 4 * 1024**2)


@pytest.mark.parametrize("places", [ONE_LAYER, THREE_LAYERS])
def test_in_the_variants_of_another_kind_of_layer_m2rnn_takes_the_published_places_alone(places):
    with torch.device("meta"):
        model = m2rnn_410m(LSTMLayer, m2rnn_at=places)
    kinds = [type(block.mixer) for block in model.blocks]
    assert [place for place, kind in enumerate(kinds) if kind is M2RNNLayer] == list(places)
    assert [place for place, kind in enumerate(kinds) if kind is CachedAttention] == [4, 12, 20]
    assert kinds.count(LSTMLayer) == 21 - len(places)
    difference = 8 * 1024 * 1025 - 4_376_104
    assert count(model) == 512_951_624 + (21 - len(places)) * difference
    assert places in {(0,), (3, 11, 19)}


def test_places_that_are_none_or_taken_twice_are_refused_in_one_line():
    with torch.device("meta"):
        with refused("places must lie in 0 .. 23, got 24"):
            m2rnn_410m(LSTMLayer, m2rnn_at=(24,))
        with refused(r"m2rnn_at and attention_at must be apart, both hold \[4\]"):
            m2rnn_410m(LSTMLayer, m2rnn_at=(0, 4))


def test_the_published_state_sizes_of_the_larger_model_and_of_the_vector_rnn():
    with torch.device("meta"):
        large = M2RNNLayer(1536, MatrixHeads.multi_value(132))
        vector = M2RNNLayer(1024, MatrixHeads.multi_value(85, key_dim=1))
    assert large.initial_state(1)[0].numel() == 135_168
    assert vector.initial_state(1)[0].numel() == 1_360
    # three times less than the 2 heads of 256 x 512 of Gated DeltaNet beside it
    assert 3 < 2 * 256 * 512 / 86_016 < 3.1


def test_the_inner_width_is_the_published_one_by_default():
    with torch.device("meta"):
        model = Hybrid(5, [LSTMLayer(1024)])
    assert model.blocks[0].feedforward.down.in_features == 2752


def test_softplus_form_and_power_form_of_the_gate_are_one():
    x, rate = torch.linspace(-5, 5, 50), 3.7
    assert_close(torch.exp(-rate * softplus(x)), (1 + x.exp()) ** -rate)

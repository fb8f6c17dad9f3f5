"""Layers: what is promised of positions, norms, blocks and their initial values."""

import math

import pytest
import torch

from torsor.layers import Attention, Block, FeedForward, RMSNorm, Stack, ValueGate
from torsor.layers.initialisation import initialise_, orthogonal_, published_std
from torsor.layers.rotary import rotary_table, rotate


def _rotary(length, head_dim):
    return rotary_table(length, head_dim, device=torch.device("cpu"), dtype=torch.float64)


def test_rms_norm_removes_a_common_scale_up_to_epsilon():
    norm, x = RMSNorm(16), torch.randn(3, 16)
    torch.testing.assert_close(norm(1e3 * x), norm(1e6 * x), rtol=1e-9, atol=1e-9)
    assert not torch.allclose(norm(1e-3 * x), norm(x), rtol=1e-3)


def test_rms_norm_agrees_with_torch():
    norm, x = RMSNorm(16), torch.randn(3, 16)
    torch.nn.init.normal_(norm.weight)
    torch.testing.assert_close(norm(x), torch.nn.functional.rms_norm(x, (16,), norm.weight, 1e-5))


def test_rms_norm_of_a_half_precision_state_is_computed_in_float32():
    norm, x = RMSNorm(8).float(), torch.randn(3, 8).bfloat16()
    torch.testing.assert_close(norm(x), norm(x.float()).bfloat16(), rtol=0, atol=0)


def test_rotary_scores_depend_on_the_difference_of_positions_alone():
    table = _rotary(12, 8)
    query, key = torch.randn(1, 1, 8).expand(12, 1, 8), torch.randn(1, 1, 8).expand(12, 1, 8)
    scores = torch.einsum("phd,qhd->pq", rotate(query, table), rotate(key, table))
    for shift in range(1, 12):
        torch.testing.assert_close(scores[shift:, :-shift].diagonal(), scores[shift, 0].expand(12 - shift))
    assert not torch.allclose(scores[0, 0], scores[3, 0])


def test_rotary_planes_turn_counterclockwise_by_the_position_s_angle():
    table = _rotary(5, 4)
    turned = rotate(torch.tensor([1.0, 0, 1, 0]).expand(5, 1, 4), table)
    for position in range(5):
        angle = position * 50_000.0**-0.5
        expected = [math.cos(position), math.sin(position), math.cos(angle), math.sin(angle)]
        torch.testing.assert_close(turned[position, 0], torch.tensor(expected))


def test_attention_averages_equal_values_so_repeated_letters_need_a_begin_token():
    attention = Attention(8, heads=2)
    same = torch.randn(1, 1, 8).expand(1, 5, 8)
    mixed = attention(same, torch.zeros(1, 5, 8), _rotary(5, 4))
    torch.testing.assert_close(mixed, mixed[:, :1].expand_as(mixed))
    begun = torch.cat([torch.randn(1, 1, 8), same], dim=1)
    mixed = attention(begun, torch.zeros(1, 6, 8), _rotary(6, 4))
    assert not torch.allclose(mixed[:, 1], mixed[:, 2])


def test_a_block_is_causal():
    block, x = Block(8, heads=2), torch.randn(2, 6, 8)
    changed = x.clone()
    changed[:, 4] += 1
    before, after = block(x, _rotary(6, 4)), block(changed, _rotary(6, 4))
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_at_the_initial_values_a_block_is_the_identity():
    stack = Stack([Block(8, heads=2), Block(8, heads=2)])
    initialise_(stack, 8)
    x = torch.randn(2, 6, 8)
    assert torch.equal(stack(x, _rotary(6, 4)), x)


def test_an_empty_stack_is_the_identity():
    x = torch.randn(2, 6, 8)
    assert torch.equal(Stack([])(x, _rotary(6, 4)), x)


def test_a_value_gate_is_one_for_each_head_between_zero_and_two_and_one_where_its_input_is_zero():
    gate, values = ValueGate(64, heads=4), torch.randn(2, 5, 64)
    assert torch.equal(gate(torch.zeros(2, 5, 64), values), values.unflatten(-1, (4, 16)))
    ratio = gate(10 * torch.randn(2, 5, 64), values) / values.unflatten(-1, (4, 16))
    assert ((ratio > 0) & (ratio < 2)).all()
    torch.testing.assert_close(ratio, ratio[..., :1].expand_as(ratio))
    assert (ratio[..., 0, 0] - ratio[..., 1, 0]).abs().min() > 1e-3


def test_a_value_gate_reads_the_first_32_channels():
    gate, x, values = ValueGate(64, heads=4), torch.randn(2, 5, 64), torch.randn(2, 5, 64)
    changed = x.clone()
    changed[..., 32:] += 1
    assert torch.equal(gate(x, values), gate(changed, values))
    changed[..., 31] += 1
    assert not torch.allclose(gate(x, values), gate(changed, values))


def test_value_embeddings_reach_the_blocks_that_own_a_table_and_a_gate_and_no_other():
    def block(gated):
        return Block(8, heads=2, value_gate=ValueGate(8, heads=2) if gated else None)

    tables = {number: torch.nn.Embedding(5, 8) for number in (0, 1)}
    stack = Stack([block(False), block(True), block(True)], tables)
    tokens, x = torch.randint(0, 5, (2, 6)), torch.randn(2, 6, 8)
    assert stack.readers == (1,)
    values = stack.values(tokens)
    assert len(values) == 1
    assert torch.equal(values[0], tables[1].weight[tokens])
    expected = stack.blocks[0](x, _rotary(6, 4))
    expected = stack.blocks[1](expected, _rotary(6, 4), values[0])
    expected = stack.blocks[2](expected, _rotary(6, 4))
    assert torch.equal(stack(x, _rotary(6, 4), values), expected)
    assert not torch.allclose(expected, stack(x, _rotary(6, 4), [torch.zeros(2, 6, 8)]))


def test_initial_value_embeddings_are_normal_of_size_one_and_their_gates_uniform_up_to_one_over_root_32():
    gate, table = ValueGate(64, heads=32), torch.nn.Embedding(2000, 64)
    stack = Stack([Block(64, heads=32, value_gate=gate)], {0: table})
    initialise_(stack, 64)
    assert table.weight.mean().item() == pytest.approx(0, abs=0.02)
    assert table.weight.std().item() == pytest.approx(1, abs=0.02)
    assert table.weight.abs().max() > 3
    bound = 1 / math.sqrt(32)
    assert 0.95 * bound < gate.read.weight.abs().max() <= bound
    assert gate.read.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)


def test_a_matrix_tied_to_an_embedding_starts_as_the_embedding_does():
    readout, embedding = torch.nn.Linear(8, 2000, bias=False), torch.nn.Embedding(2000, 8)
    readout.weight = embedding.weight
    initialise_(torch.nn.ModuleList([embedding, readout]), 8)
    assert embedding.weight.std().item() == pytest.approx(0.986 * published_std(8), rel=0.02)
    assert not torch.allclose(embedding.weight.T @ embedding.weight, torch.eye(8) * published_std(8) ** 2 * 2000)


@pytest.mark.parametrize(("rows", "columns"), [(12, 12), (20, 8), (8, 20)])
def test_initial_matrices_are_orthogonal_with_elements_of_the_published_size(rows, columns):
    weight = orthogonal_(torch.empty(rows, columns), std=0.1)
    small = weight @ weight.T if rows <= columns else weight.T @ weight
    side = max(rows, columns)
    torch.testing.assert_close(small, torch.eye(min(rows, columns)) * 0.1**2 * side, rtol=1e-12, atol=1e-12)
    assert weight.square().mean().sqrt().item() == pytest.approx(0.1)
    assert published_std(512) == pytest.approx(math.sqrt(2 / (5 * 512)))


def test_initial_embeddings_are_truncated_at_three_standard_deviations():
    embedding = torch.nn.Embedding(2000, 8)
    initialise_(torch.nn.ModuleList([embedding]), 8)
    std = published_std(8)
    assert embedding.weight.abs().max() <= 3 * std
    assert embedding.weight.std().item() == pytest.approx(0.986 * std, rel=0.02)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Attention(6, heads=2), "multiple of 2 \\* heads = 4, got 6"),
        (lambda: Attention(8, heads=0), "multiple of 2 \\* heads = 0, got 8"),
        (lambda: Block(7, heads=1), "multiple of 2 \\* heads = 2, got 7"),
        (lambda: ValueGate(9, heads=2), "positive multiple of heads = 2, got 9"),
        (lambda: Attention(8, heads=2, value_gate=ValueGate(8, heads=4)), "number of heads = 2, got 4"),
        (lambda: Stack([Block(8, heads=2)], {1: torch.nn.Embedding(3, 8)}), "the blocks 0 .. 0, got 1"),
    ],
)
def test_sizes_that_do_not_divide_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_value_embeddings_that_no_block_reads_are_refused():
    x = torch.randn(1, 3, 8)
    with pytest.raises(ValueError, match="values must be one for each of 0 blocks that read, got 1"):
        Stack([Block(8, heads=2)])(x, _rotary(3, 4), [x])
    with pytest.raises(ValueError, match="values must be None for an attention without a value_gate"):
        Attention(8, heads=2)(x, x, _rotary(3, 4), x)


def test_under_autocast_the_position_wise_layer_computes_in_half_precision():
    layer, x = FeedForward(8, 16).float(), torch.randn(1, 3, 8, dtype=torch.float32)
    wide = layer(x, x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = layer(x, x)
    torch.testing.assert_close(narrow.float(), wide, rtol=0.05, atol=0.05)


def test_a_norm_s_weight_folded_into_the_matrices_behind_it_changes_nothing():
    block, x, values = Block(8, heads=2, value_gate=ValueGate(8, heads=2)), torch.randn(2, 5, 8), torch.randn(2, 5, 8)
    for norm in (block.attention_norm, block.feedforward_norm):
        torch.nn.init.normal_(norm.weight)
    middle = block.attention(block.attention_norm(x), x, _rotary(5, 4), values)
    expected = block.feedforward(block.feedforward_norm(middle), middle)
    torch.testing.assert_close(block(x, _rotary(5, 4), values), expected, rtol=1e-12, atol=1e-12)

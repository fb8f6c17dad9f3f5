"""Laws of the delta rule in chunks, beside the loop over its maps."""

import pytest
import torch
from torch.nn.functional import normalize

from closeness import assert_close
from refusal import refused
from torsor.recurrence.delta_rule import ROWS, delta_rule, delta_rule_reference

LENGTHS = (1, 2, 7, ROWS // 2, ROWS // 2 + 1, 3 * ROWS + 5)


def inputs(length, maps=2, heads=2, largest=2.0):
    query, key = torch.randn(2, length, heads, 4), normalize(torch.randn(2, length, heads, maps, 4), dim=-1)
    value, beta = torch.randn(2, length, heads, maps, 3), largest * torch.rand(2, length, heads, maps)
    return query, key, value, beta, torch.randn(2, heads, 4, 3)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("maps", [1, 2, 3, ROWS + 1])
def test_it_is_the_reference_in_its_outputs_and_in_all_gradients(length, maps):
    given = inputs(length, maps)
    results, gradients = [], []
    for rule in (delta_rule, delta_rule_reference):
        leaves = [each.clone().requires_grad_() for each in given]
        outputs, last = rule(*leaves)
        (outputs.sin().sum() + last.cos().sum()).backward()
        results.append((outputs, last))
        gradients.append([each.grad for each in leaves])
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs)
    for ours, theirs in zip(*gradients, strict=True):
        assert_close(ours, theirs)


def test_a_sequence_in_pieces_is_the_sequence_in_one():
    *given, state = inputs(3 * ROWS)
    whole, end = delta_rule(*given, state)
    pieces, start = [], 0
    for stop in (1, 20, 3 * ROWS):
        piece, state = delta_rule(*(each[:, start:stop] for each in given), state)
        pieces.append(piece)
        start = stop
    assert_close(torch.cat(pieces, dim=1), whole)
    assert_close(state, end)


def test_at_0_nothing_happens_at_1_a_read_at_a_key_gives_its_value_and_at_2_the_norm_is_kept():
    query, key, value, beta, state = inputs(40, maps=1)
    outputs, last = delta_rule(query, key, value, 0 * beta, state)
    assert_close(last, state)
    assert_close(outputs, torch.einsum("blhk,bhkv->blhv", query, state))
    read, _ = delta_rule(key[:, :, :, 0], key, value, torch.ones_like(beta), state)
    assert_close(read, value[:, :, :, 0])
    _, mirrored = delta_rule(query, key, 0 * value, torch.full_like(beta, 2.0), state)
    assert_close(torch.linalg.matrix_norm(mirrored), torch.linalg.matrix_norm(state))


@pytest.mark.parametrize("wrong", ["query", "value", "beta", "state"])
def test_what_does_not_fit_the_keys_is_refused(wrong):
    given = dict(zip(("query", "key", "value", "beta", "state"), inputs(3), strict=True))
    dtype = "torch.float32 of shape" if wrong == "query" else "torch.float64 of shape"
    changed = given[wrong].float() if wrong == "query" else given[wrong][:1]
    with refused(f"{wrong} must be torch.float64 of shape .*, as key is, got {dtype}"):
        delta_rule(**given | {wrong: changed})


def test_no_token_is_refused():
    *given, state = inputs(3)
    with refused("key must be batch length heads maps key, each at least 1, got shape"):
        delta_rule(*(each[:, :0] for each in given), state)

"""The fast paths of models whose states lie on a group equal their references, in outputs and in gradients."""

import pytest
import torch

from cases import GROUP_BLOCKS, MATRIX_GROUPS, MIXINGS, stirred
from closeness import assert_close
from conftest import TOLERANCE
from torsor.groups import Orthogonal, Unitary
from torsor.layers import BCHMixing, LinearMixing, ParallelBlock, ThirdOrderMixing, own_tangent
from torsor.layers.group_attention import trace_attention, trace_attention_reference
from torsor.models import GroupRNN, GroupTransformer
from torsor.models.group_transformer import group_transformer_reference

TOKENS = torch.tensor([[2, 0, 6, 1, 0, 1, 3], [5, 1, 1, 0, 4, 0, 2]])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 7, 4), (2, 33, 9)])
@pytest.mark.parametrize(("temperature", "slope"), [(1.0, 0.5), (-0.7, 0.0), (0.0, -0.1)])
def test_trace_attention_equals_its_reference(dtype, shape, temperature, slope):
    states, weight = torch.randn(2, *shape, dtype=dtype)
    results = []
    for function in (trace_attention, trace_attention_reference):
        leaves = [x.clone().requires_grad_() for x in (states, *torch.tensor([temperature, slope], dtype=dtype))]
        output = function(leaves[0], leaves[0], *leaves[1:])
        results.append((output, *torch.autograd.grad((output * weight).sum(), leaves)))
    for fast, reference in zip(*results, strict=True):
        assert fast.dtype == reference.dtype
        size = max(1.0, float(reference.detach().abs().max()))
        torch.testing.assert_close(fast, reference, rtol=0, atol=10 * TOLERANCE[dtype] * size)


def test_trace_attention_passes_gradcheck():
    states, scalars = torch.randn(2, 5, 3, requires_grad=True), torch.tensor([0.7, 0.2])
    inputs = (states, *(each.clone().requires_grad_() for each in scalars))
    assert torch.autograd.gradcheck(lambda x, *rest: trace_attention(x, x, *rest), inputs)


@pytest.mark.parametrize("kind", [BCHMixing, ThirdOrderMixing])
@pytest.mark.parametrize("group", MATRIX_GROUPS)
def test_the_bracket_with_one_drive_for_many_tangents_equals_the_bracket_with_each(group, kind):
    mixing = stirred(kind(MATRIX_GROUPS[group]()))
    tangents, drive = torch.randn(40, mixing.group.algebra_dim), torch.randn(mixing.group.algebra_dim)
    weight, results = torch.randn(tangents.shape), []
    for right in (drive.requires_grad_(), drive.detach().expand(tangents.shape).requires_grad_()):
        left = tangents.clone().requires_grad_()
        joined = mixing(left, right)
        left_grad, right_grad, own = torch.autograd.grad(
            (joined * weight).sum(), (left, right, mixing.bracket_weight), materialize_grads=True
        )
        results.append((joined, left_grad, right_grad if right.ndim == 1 else right_grad.sum(0), own))
    for one, each in zip(*results, strict=True):
        assert_close(one, each)


def _with_gradients(model, logits):
    weight = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view(logits.shape)
    return logits, *torch.autograd.grad((logits * weight).sum(), list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("group", MATRIX_GROUPS)
def test_a_group_transformer_equals_its_reference(group, mixing):
    model = stirred(GroupTransformer(MATRIX_GROUPS[group](), vocabulary=7, mixing=MIXINGS[mixing]))
    fast = _with_gradients(model, model(TOKENS))
    reference = _with_gradients(model, group_transformer_reference(model, TOKENS))
    for left, right in zip(fast, reference, strict=True):
        if left is not None:
            assert_close(left, right, 1e-10)


def test_the_reference_is_written_for_one_kind_of_layer():
    with pytest.raises(ValueError, match="written for SerialBlock at its own tangent, got ParallelBlock"):
        group_transformer_reference(GroupTransformer(Orthogonal(3), vocabulary=7, block=ParallelBlock), TOKENS)


# The models once more, one position after the other, with nothing of ours but their parameters.


def _skew(matrix):
    return (matrix - matrix.mH) / 2


def _coordinates(matrix):
    rows, columns = torch.triu_indices(*matrix.shape, offset=1)
    upper = _skew(matrix)[rows, columns]
    if not matrix.is_complex():
        return upper
    return torch.cat([upper.real, upper.imag, _skew(matrix).diagonal().imag])


def _tangent(vector, like):
    rows, columns = torch.triu_indices(*like.shape, offset=1)
    matrix = torch.zeros_like(like)
    if not like.is_complex():
        matrix[rows, columns] = vector
        return matrix - matrix.mT
    real, imaginary, diagonal = vector.split([len(rows), len(rows), like.shape[0]])
    matrix[rows, columns] = torch.complex(real, imaginary)
    return matrix - matrix.mH + torch.diag(1j * diagonal)


def _element(table, token):
    raw = table.raw[token]
    raw = torch.view_as_complex(raw) if raw.ndim == 3 else raw
    element = torch.matrix_exp(_skew(raw))
    if table.component is not None and table.component[token]:
        element = torch.cat([-element[:1], element[1:]])
    return element


def _similarity(left, right):
    return torch.trace(left.mH @ right).real


def _logits(model, state):
    readout = model.readout
    scores = [_similarity(_element(readout.prototypes, token), state) for token in range(model.vocabulary)]
    return torch.stack(scores) + readout.bias


def _means(states, temperature, slope):
    """The mean that every position attends to."""
    for i, state in enumerate(states):
        scores = torch.stack([temperature * _similarity(state, states[j]) - slope * (i - j) for j in range(i + 1)])
        yield sum(weight * states[j] for j, weight in enumerate(scores.exp() / scores.exp().sum()))


def _moved(state, vector):
    return state @ torch.matrix_exp(_tangent(vector, state))


def _mixed(mixing, vector, drive, place, like):
    """One tangent from two: for linear mixing with a matrix on the first, else with half a bracket."""
    if isinstance(mixing, LinearMixing):
        return mixing.weights[place] @ vector + drive
    x, y = _tangent(vector, like), _tangent(drive, like)
    return _coordinates(x + y + mixing.bracket_weight / 2 * (x @ y - y @ x))


def _serial(block, states, towards):
    means = list(_means(states, block.attention.inverse_temperature, block.attention.slope))
    for state, mean, token in zip(states, means, towards, strict=True):
        vector = _coordinates(state.mH @ mean)
        state = _moved(state, _mixed(block.mixing, vector, block.attention_drive, 0, state))
        own = _coordinates(state if block.position_tangent is own_tangent else state.mH @ token)
        yield _moved(state, _mixed(block.mixing, own, block.position_drive, 1, state))


def _transformed(mixing, vector, place):
    return mixing.weights[place] @ vector if isinstance(mixing, LinearMixing) else vector


def _joined(mixing, left, right, like):
    if isinstance(mixing, LinearMixing):
        return left + right
    return _mixed(mixing, left, right, 0, like)


def _parallel(block, states, towards):
    for state, mean in zip(
        states, _means(states, block.attention.inverse_temperature, block.attention.slope), strict=True
    ):
        left = _transformed(block.mixing, _coordinates(state.mH @ mean) + block.attention_drive, 0)
        right = _transformed(block.mixing, _coordinates(state) + block.position_drive, 1)
        yield _moved(state, _joined(block.mixing, left, right, state))


def _two_heads(block, states, towards):
    first, second = (list(_means(states, 1.0, slope)) for slope in block.slopes)
    for state, near, far in zip(states, first, second, strict=True):
        left = _transformed(block.mixing, _coordinates(state.mH @ near), 0) + block.first_drive
        right = _transformed(block.mixing, _coordinates(state.mH @ far), 1) + block.second_drive
        yield _moved(state, _joined(block.mixing, left, right, state))


def _tangent_network(block, states, towards):
    means = list(_means(states, block.attention.inverse_temperature, block.attention.slope))
    for state, mean in zip(states, means, strict=True):
        state = _moved(state, _coordinates(state.mH @ mean))
        inner = _mixed(block.mixing, _coordinates(state), block.attention_drive, 0, state)
        inner = inner * (1 + torch.erf(inner / 2**0.5)) / 2
        yield _moved(state, _mixed(block.mixing, inner, block.position_drive, 1, state))


FORMULAE = {
    "serial": _serial,
    "serial, towards the token": _serial,
    "parallel": _parallel,
    "two heads": _two_heads,
    "tangent network": _tangent_network,
}


@pytest.mark.parametrize("group", [Orthogonal(4), Unitary(3)], ids=str)
@pytest.mark.parametrize("mixing", [LinearMixing, BCHMixing], ids=["linear", "BCH"])
@pytest.mark.parametrize("block", GROUP_BLOCKS)
def test_a_group_transformer_equals_the_formulae_position_by_position(group, mixing, block):
    model = stirred(GroupTransformer(group, vocabulary=7, mixing=mixing, block=GROUP_BLOCKS[block]))
    for row, logits in zip(TOKENS, model(TOKENS), strict=True):
        states = tokens = [_element(model.embedding, token) for token in row]
        for layer in model.blocks:
            states = list(FORMULAE[block](layer, states, tokens))
        assert_close(logits, torch.stack([_logits(model, state) for state in states]), 1e-9)


@pytest.mark.parametrize("group", [Orthogonal(4), Unitary(3)], ids=str)
@pytest.mark.parametrize("mixing", [LinearMixing, BCHMixing], ids=["linear", "BCH"])
def test_a_group_rnn_equals_the_formulae_step_by_step(group, mixing):
    model = stirred(GroupRNN(group, vocabulary=7, mixing=mixing))
    for row, logits in zip(TOKENS, model(TOKENS)[0], strict=True):
        state, expected = group.identity, []
        for token in row:
            towards = _coordinates(state.mH @ _element(model.embedding, token))
            state = _moved(state, _mixed(model.mixing, towards, model.drive[token], 0, state))
            expected.append(_logits(model, state))
        assert_close(logits, torch.stack(expected), 1e-11)

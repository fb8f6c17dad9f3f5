"""Every fast path equals its reference, in outputs and in gradients, at one tolerance for each type."""

import pytest
import torch
from torch.library import opcheck

from conftest import TOLERANCE
from torsor.layers import Attention, ValueGate
from torsor.layers.attention import causal_attention, causal_attention_reference
from torsor.layers.feedforward import TOKENS_AT_A_TIME, feedforward, feedforward_reference
from torsor.layers.norm import unit_rms, unit_rms_reference
from torsor.layers.rotary import rotary_table
from torsor.recurrence.loop import _per_sequence, _per_sequence_reference


def _compare(fast, reference, inputs, tolerance):
    results = []
    for function in (fast, reference):
        leaves = [each.clone().requires_grad_() for each in inputs]
        output = function(*leaves)
        weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view(output.shape)
        results.append((output, *torch.autograd.grad((output * weights).sum(), leaves)))
    for left, right in zip(*results, strict=True):
        assert left.dtype == right.dtype
        torch.testing.assert_close(left, right, rtol=0, atol=tolerance * max(1.0, float(right.detach().abs().max())))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 5, 8), (2, 33, 16)])
def test_unit_rms_equals_its_reference(dtype, shape):
    x = torch.randn(shape, dtype=dtype)
    _compare(lambda x: unit_rms(x, 1e-5), lambda x: unit_rms_reference(x, 1e-5), (x,), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("batch", "length", "heads", "head_dim"), [(1, 1, 1, 2), (2, 7, 2, 4), (3, 33, 4, 16)])
def test_causal_attention_equals_its_reference(dtype, batch, length, heads, head_dim):
    joined = torch.randn(batch, length, 3, heads, head_dim, dtype=dtype)
    rotary = rotary_table(length, head_dim, device=joined.device, dtype=dtype)
    _compare(
        lambda x: causal_attention(x, rotary),
        lambda x: causal_attention_reference(x, rotary),
        (joined,),
        TOLERANCE[dtype],
    )


def test_causal_attention_beyond_the_fused_length_equals_its_reference():
    joined = torch.randn(1, 300, 3, 2, 4)
    rotary = rotary_table(300, 4, device=joined.device, dtype=joined.dtype)
    _compare(lambda x: causal_attention(x, rotary), lambda x: causal_attention_reference(x, rotary), (joined,), 1e-12)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("length", [1, 7, 300])
def test_attention_with_value_embeddings_equals_its_reference(dtype, length):
    attention = Attention(16, heads=2, value_gate=ValueGate(16, heads=2)).to(dtype)
    rotary = rotary_table(length, 8, device=torch.device("cpu"), dtype=dtype)

    def reference(x, residual, values):
        joined = torch.stack([m(x) for m in (attention.query, attention.key, attention.value)], dim=2)
        gate = 2 * torch.sigmoid(x @ attention.value_gate.read.weight.T).repeat_interleave(8, dim=-1)
        joined = torch.cat([joined[:, :, :2], (joined[:, :, 2] + gate * values)[:, :, None]], dim=2)
        return residual + causal_attention_reference(joined.unflatten(-1, (2, 8)), rotary) @ attention.out.weight.T

    inputs = tuple(torch.randn(3, 2, length, 16, dtype=dtype))
    _compare(lambda x, r, v: attention(x, r, rotary, v), reference, inputs, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("grad_steps", [None, 1, 2, 4, 9])
@pytest.mark.parametrize("steps", [[3, 1, 8, 3, 2], [4, 4, 4, 4, 4], [1, 2, 3, 4, 5], [1, 1, 1, 1, 1]])
def test_a_depth_per_sequence_equals_its_reference(dtype, grad_steps, steps):
    steps = torch.tensor(steps)

    def run(path):
        def call(state, write, weight):
            # the last input has no batch, so that it is shared and not given
            def step(x, write):
                return torch.tanh(x @ weight) + write

            # one more term, so that a truncation that cuts the state off leaves something to differentiate
            return path(step, state, steps, grad_steps, (write,)) + 0 * state

        return call

    inputs = (torch.randn(5, 3, 4, dtype=dtype), torch.randn(5, 3, 4, dtype=dtype), torch.randn(4, 4, dtype=dtype) / 2)
    _compare(run(_per_sequence), run(_per_sequence_reference), inputs, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("batch", "length", "width", "hidden"), [(1, 1, 2, 8), (3, 5, 6, 10), (2, TOKENS_AT_A_TIME, 2, 3), (3, 401, 2, 3)]
)
def test_feedforward_equals_its_reference(dtype, batch, length, width, hidden):
    x, residual = torch.randn(2, batch, length, width, dtype=dtype)
    up, down = torch.randn(hidden, width, dtype=dtype), torch.randn(width, hidden, dtype=dtype)
    _compare(feedforward, feedforward_reference, (x, residual, up, down), TOLERANCE[dtype])


def test_feedforward_on_two_threads_equals_one():
    x, residual = torch.randn(2, 1, 2 * TOKENS_AT_A_TIME + 1, 4)
    up, down = torch.randn(6, 4), torch.randn(4, 6)
    alone = feedforward(x, residual, up, down)
    torch.set_num_threads(2)
    torch.testing.assert_close(feedforward(x, residual, up, down), alone)


@pytest.mark.parametrize("tokens", [1, TOKENS_AT_A_TIME + 1])
def test_for_a_compiler_feedforward_is_one_operation_with_the_same_gradient(tokens):
    x, residual = torch.randn(2, tokens, 4, requires_grad=True)
    up, down = torch.randn(6, 4, requires_grad=True), torch.randn(4, 6, requires_grad=True)
    opcheck(torch.ops.torsor.feedforward, (x.detach().requires_grad_(), residual.detach().requires_grad_(), up, down))
    operation = torch.ops.torsor.feedforward
    _compare(
        lambda *each: operation(*each)[0], feedforward_reference, (x, residual, up, down), TOLERANCE[torch.float64]
    )


def test_the_fast_paths_pass_gradcheck():
    x = torch.randn(2, 3, 4, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: unit_rms(x, 1e-5), (x,))
    joined = torch.randn(1, 4, 3, 2, 4, requires_grad=True)
    rotary = rotary_table(4, 4, device=joined.device, dtype=joined.dtype)
    assert torch.autograd.gradcheck(lambda x: causal_attention(x, rotary), (joined,))

"""Every fast path equals its reference, in outputs and in gradients, at one tolerance for each type."""

import pytest
import torch

from conftest import TOLERANCE
from torsor.layers.attention import causal_attention, causal_attention_reference
from torsor.layers.feedforward import feedforward, feedforward_reference
from torsor.layers.norm import rms_norm, rms_norm_reference
from torsor.layers.rotary import rotary_table


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
def test_rms_norm_equals_its_reference(dtype, shape):
    x, weight = torch.randn(shape, dtype=dtype), torch.randn(shape[-1], dtype=dtype)
    _compare(
        lambda x, w: rms_norm(x, w, 1e-5), lambda x, w: rms_norm_reference(x, w, 1e-5), (x, weight), TOLERANCE[dtype]
    )


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
@pytest.mark.parametrize(("batch", "length", "width", "hidden"), [(1, 1, 2, 8), (3, 5, 6, 10)])
def test_feedforward_equals_its_reference(dtype, batch, length, width, hidden):
    x, residual = torch.randn(2, batch, length, width, dtype=dtype)
    up, down = torch.randn(hidden, width, dtype=dtype), torch.randn(width, hidden, dtype=dtype)
    _compare(feedforward, feedforward_reference, (x, residual, up, down), TOLERANCE[dtype])


def test_the_fast_paths_pass_gradcheck():
    x, weight = torch.randn(2, 3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: rms_norm(x, w, 1e-5), (x, weight))
    joined = torch.randn(1, 4, 3, 2, 4, requires_grad=True)
    rotary = rotary_table(4, 4, device=joined.device, dtype=joined.dtype)
    assert torch.autograd.gradcheck(lambda x: causal_attention(x, rotary), (joined,))

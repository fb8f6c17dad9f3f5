"""The kernels of Triton against the loops in float64, in Triton's interpreter; and where they are chosen."""

import importlib
import json
import os
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from closeness import assert_close
from conftest import TOLERANCE
from linear_scan_results import KINDS, build, drawn, results_of
from m2rnn_results import CLIPS, HEADS, arguments, results
from torsor.recurrence import kernels, linear_scan, m2rnn, m2rnn_chunked
from torsor.recurrence.linear_scan import linear_scan_reference
from torsor.recurrence.m2rnn import m2rnn_reference

# the names of the faces are the functions
M2RNN, LINEAR_SCAN = (importlib.import_module(f"torsor.recurrence.{name}") for name in ("m2rnn", "linear_scan"))
with_triton = pytest.mark.skipif(
    not kernels.triton_is_installed(), reason="Triton is not installed: pip install torsor[kernels]"
)


@pytest.fixture
def in_kernels(monkeypatch):
    """On a CPU too, and in chunks of a few steps, since the interpreter takes milliseconds for each."""
    from torsor.recurrence import linear_scan_triton, m2rnn_kernels

    used = []
    for module, kernel in ((m2rnn_kernels, "advance"), (m2rnn_kernels, "sweep"), (linear_scan_triton, "_walk")):
        monkeypatch.setattr(module, kernel, Seen(getattr(module, kernel), kernel, used))
    for module in (M2RNN, LINEAR_SCAN):
        monkeypatch.setattr(module, "kernels_serve", lambda *_, **__: True)
    monkeypatch.setattr(m2rnn_chunked, "chunk_of", lambda _: 3)
    monkeypatch.setattr(linear_scan_triton, "CHUNK", 3)
    return used


class Seen:
    """A kernel that writes down that it was launched."""

    def __init__(self, kernel, name, used):
        self.kernel, self.name, self.used = kernel, name, used

    def __getitem__(self, grid):
        self.used.append(self.name)
        return self.kernel[grid]


# The M²RNN.


def assert_the_kernels_are_right(given, dtype=torch.float64, tolerance=None, **options):
    narrow = [each.detach().to(dtype).requires_grad_() for each in given]
    for found, expected in zip(
        results(m2rnn, narrow, **options), results(m2rnn_reference, given, **options), strict=True
    ):
        assert found.dtype == dtype
        assert_close(found.double(), expected, tolerance or TOLERANCE[dtype])


@with_triton
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_in_kernels_it_equals_the_reference_at_any_length_and_with_either_clip(length, clip, in_kernels):
    assert_the_kernels_are_right(arguments(length, (1,) * 5, batch=1), **CLIPS[clip])
    chunks = -(-length // 3)
    assert in_kernels == ["advance"] + ["advance", "sweep"] * chunks


@with_triton
@pytest.mark.parametrize(
    "heads", ["multi-value, as published", "one weight and one gate", "most weights", "most gates"]
)
def test_in_kernels_it_equals_the_reference_however_the_heads_are_grouped(heads, in_kernels):
    assert_the_kernels_are_right(arguments(2, HEADS[heads], batch=1))


@with_triton
@pytest.mark.parametrize(("key_dim", "value_dim"), [(1, 1), (17, 3), (5, 17), (16, 16)])
def test_in_kernels_it_equals_the_reference_for_states_of_any_size_and_in_tiles(
    key_dim, value_dim, in_kernels, monkeypatch
):
    from torsor.recurrence import m2rnn_triton

    sweep, summed = m2rnn_triton._Sizes.sweep, []

    def seen(sizes, *given):
        summed.append(given[5])
        return sweep(sizes, *given)

    monkeypatch.setattr(m2rnn_triton, "TILE", 256)  # 16 rows of up to 16 columns, so that 17 are two tiles
    monkeypatch.setattr(m2rnn_triton._Sizes, "sweep", seen)
    assert_the_kernels_are_right(arguments(2, (1, 2, 1, 2, 1), 1, key_dim, value_dim), **CLIPS["total"])
    # each program adds to a place of its own: the interpreter, which runs one after the other, sees no race
    assert len(summed[0]) == -(-key_dim // 16)
    assert (summed[0].abs().amax((-2, -1)) > 0).all()


@with_triton
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_in_kernels_it_equals_the_reference_where_gates_are_at_their_ends(value, in_kernels):
    given = arguments(4, (1,) * 5, batch=1)
    given[4] = torch.full((1, 4, 1), value, requires_grad=True)
    assert_the_kernels_are_right(given)
    if value:
        assert torch.equal(m2rnn(*given)[1], given[5])


@with_triton
@pytest.mark.parametrize("size", [1e-4, 0.2, 30.0])
def test_in_kernels_float32_is_nearly_as_exact_as_the_reference_where_writes_are_small_too(size, in_kernels):
    given = arguments(4, (1,) * 5, batch=1, dtype=torch.float32)
    with torch.no_grad():
        given[1] *= size
        given[5] *= min(size, 1)
    exact = results(m2rnn_reference, [each.detach().double().requires_grad_() for each in given])
    for one, other, truth in zip(results(m2rnn, given), results(m2rnn_reference, given), exact, strict=True):
        assert one.dtype == torch.float32
        assert (one - truth).abs().max() <= 2 * (other - truth).abs().max() + 1e-6 * truth.abs().max()


@with_triton
def test_in_kernels_half_precision_is_carried_in_float32_and_packed_sequences_are_each_alone(in_kernels):
    given = [each.detach() for each in arguments(5, (1,) * 5, batch=1, dtype=torch.float32, sequences=3)]
    boundaries = torch.tensor([0, *accumulate((1, 2, 2))])
    outputs, state = m2rnn(*given, cu_seqlens=boundaries)
    expected, last = m2rnn_reference(*given, cu_seqlens=boundaries)
    assert_close(outputs, expected, TOLERANCE[torch.float32])
    assert_close(state, last, TOLERANCE[torch.float32])
    narrow = [each.bfloat16() for each in given[:5]]
    outputs, state = m2rnn(*narrow, given[5], cu_seqlens=boundaries)
    assert (outputs.dtype, state.dtype) == (torch.bfloat16, torch.float32)
    assert "sweep" not in in_kernels


@with_triton
def test_in_kernels_arguments_and_gradients_of_any_layout_are_read_right(in_kernels):
    given = arguments(2, (1,) * 5)
    turned = [each.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for each in given]
    assert not turned[0].is_contiguous()
    for one, other in zip(results(m2rnn, given), results(m2rnn, turned), strict=True):
        assert torch.equal(one, other)
    found, expected = (
        torch.autograd.grad(function(*given)[0].sum(), given[:2]) for function in (m2rnn, m2rnn_reference)
    )  # the gradient of a sum is one number, expanded
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@with_triton
def test_in_kernels_a_number_that_is_none_is_not_clipped_away(in_kernels):
    given = arguments(1, (1,) * 5, batch=1)
    outputs, _ = m2rnn(*given, gradient_clip=0.1)
    (grad,) = torch.autograd.grad(outputs, given[5], torch.full_like(outputs, torch.nan))
    assert grad.isnan().all()


@with_triton
def test_the_tanh_of_the_kernels_is_right_to_a_few_roundings_at_every_size(in_kernels):
    """Without a state, at a gate of 0, the state after one step is the tanh of key times value."""
    x = torch.cat([torch.logspace(-12, 2.5, 100), torch.tensor([0.4999, 0.5, 0.5001])])
    x = torch.cat([x, -x])
    for dtype in TOLERANCE:
        k, v = x.to(dtype).view(1, 1, 1, -1), torch.ones(1, 1, 1, 1, dtype=dtype)
        zero = torch.zeros(1, 1, 1, dtype=dtype)
        _, state = m2rnn(k, k, v, zero, zero)
        error = (state.flatten().double() / k.flatten().double().tanh() - 1).abs().max()
        assert error <= 4 * torch.finfo(dtype).eps


# The linear scan.


# batch, length, planes: one chunk, whole chunks and a rest, a scan of chunks in several chunks itself
@with_triton
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 1, 1), torch.float64), ((2, 4, 3), torch.float64), ((1, 14, 1), torch.float32)]
)
def test_in_kernels_the_scan_equals_the_loop(shape, kind, dtype, in_kernels):
    given = drawn(kind, *shape, dtype=dtype)
    wide = [each.detach().double().requires_grad_() for each in given]
    weights = torch.randn_like(wide[2]), torch.randn_like(wide[3])
    found = results_of(linear_scan, kind, given, [each.to(dtype) for each in weights])
    assert set(in_kernels) == {"_walk"}
    for one, other in zip(found, results_of(linear_scan_reference, kind, wide, weights), strict=True):
        assert one.dtype == dtype
        assert_close(one.double(), other, TOLERANCE[dtype])


@with_triton
@pytest.mark.parametrize("kind", KINDS[:2])
def test_in_kernels_the_scan_reads_any_layout_and_more_lanes_than_a_block(kind, in_kernels, monkeypatch):
    from torsor.recurrence import linear_scan_triton

    scale, angle, inputs, state = given = [each.detach() for each in drawn(kind, 2, 4, 3)]
    expected, last = linear_scan(build(kind, scale, angle), inputs, state)
    assert_close(expected, linear_scan_reference(build(kind, scale, angle), inputs, state)[0])
    monkeypatch.setattr(linear_scan_triton, "LANES", 2)
    for other in (inputs.transpose(0, 1).contiguous().transpose(0, 1), inputs.mT.contiguous().mT):
        found = linear_scan(build(kind, scale, angle), other, state.mT.contiguous().mT)
        assert torch.equal(found[0], expected)
        assert torch.equal(found[1], last)
    constant = inputs[:1, :1].expand(2, 4, 6)
    carry = build(kind, *(each[..., :1].expand(each.shape) for each in given[:2]))
    assert torch.equal(linear_scan(carry, constant)[0], linear_scan(carry, constant.contiguous())[0])


@with_triton
def test_in_kernels_a_multiplier_of_zero_and_one_is_carried_as_it_stands(in_kernels):
    for scale in (0.0, 1.0):
        given = drawn("rotations", 1, 7, 2)
        given[0] = torch.full((2,), scale, requires_grad=True)
        weights = torch.randn_like(given[2]), torch.randn_like(given[3])
        pairs = (results_of(f, "rotations", given, weights) for f in (linear_scan, linear_scan_reference))
        for one, other in zip(*pairs, strict=True):
            assert one.isfinite().all()
            assert_close(one, other)


@with_triton
def test_in_kernels_an_input_changes_no_state_before_it_not_by_one_bit(in_kernels):
    scale, angle, inputs, state = (each.detach() for each in drawn("rotations", 1, 8, 2))
    changed = inputs.clone()
    changed[:, 5] += 1e6
    before, after = (linear_scan(build("rotations", scale, angle), each, state)[0] for each in (inputs, changed))
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.allclose(before[:, 5], after[:, 5])


# Where they are chosen, and that they are code for a GPU.


def test_a_kernel_serves_on_a_cuda_device_in_float32_or_float64_where_triton_is_installed_and_values_are_few(
    monkeypatch,
):
    monkeypatch.setattr(kernels, "triton_is_installed", lambda: True)
    with FakeTensorMode():
        on_gpu = torch.empty(2, 3, device="cuda")
        served = [
            *(on_gpu.to(dtype) for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128)),
        ]
        assert all(kernels.kernels_serve(each) for each in served)
        assert kernels.kernels_serve(on_gpu, value_dim=kernels.LARGEST_VALUE_DIM)
        assert not kernels.kernels_serve(on_gpu, value_dim=kernels.LARGEST_VALUE_DIM + 1)
        for other in (on_gpu.half(), on_gpu.bfloat16(), torch.empty(2), torch.empty(2, device="meta")):
            assert not kernels.kernels_serve(other)
        monkeypatch.setattr(kernels, "triton_is_installed", lambda: False)
        assert not kernels.kernels_serve(on_gpu)


def test_without_triton_the_extra_is_found_missing_and_everything_is_computed_as_ever(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)  # an import of it fails from here on
    assert not kernels.triton_is_installed.__wrapped__()
    given = arguments(3)
    for one, other in zip(results(m2rnn, given), results(m2rnn_reference, given), strict=True):
        assert_close(one, other)


@with_triton
def test_every_kernel_compiles_to_the_machine_code_of_a_gpu(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    script = Path(__file__).parents[1] / "compile_kernels.py"
    done = subprocess.run(
        [sys.executable, script],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sizes = json.loads(done.stdout)
    assert len(sizes) == 4
    assert min(sizes.values()) > 1000

"""The chunked M²RNN recurrence against the loop that autograd differentiates, in outputs, states and gradients."""

import json
from itertools import accumulate

import pytest
import torch

from closeness import assert_close
from conftest import TOLERANCE
from m2rnn_results import CLIPS, HEADS, NAMES, arguments, results
from test_bench import LIMITS
from torsor.bench.m2rnn import measure, written_loop
from torsor.bench.peak_memory import peak_bytes
from torsor.cli import main
from torsor.recurrence import m2rnn
from torsor.recurrence.m2rnn import m2rnn_reference
from torsor.recurrence.m2rnn_chunked import chunk_of


def assert_equal_to_the_reference(given, tolerance=TOLERANCE[torch.float64], **options):
    found, expected = results(m2rnn, given, **options), results(m2rnn_reference, given, **options)
    for name, one, other in zip(("outputs", "last state", *NAMES), found, expected, strict=True):
        assert one.dtype == other.dtype, name
        assert_close(one, other, tolerance)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40, 64])
def test_it_equals_the_reference_in_outputs_state_and_every_gradient_at_any_length(length, clip):
    assert_equal_to_the_reference(arguments(length), **CLIPS[clip])


@pytest.mark.parametrize("clip", ["none", "total"])
@pytest.mark.parametrize("heads", HEADS)
def test_it_equals_the_reference_however_the_heads_are_grouped(heads, clip):
    assert_equal_to_the_reference(arguments(19, HEADS[heads]), **CLIPS[clip])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_it_equals_the_reference_where_gates_are_at_their_ends(value):
    given = arguments(21)
    given[4] = torch.where(torch.rand(2, 21, 2) < 0.5, value, given[4].detach()).requires_grad_()
    assert_equal_to_the_reference(given)
    given[4] = torch.full((2, 21, 2), value, requires_grad=True)
    assert_equal_to_the_reference(given)


def test_it_equals_the_reference_over_chunks_longer_than_16_steps():
    assert chunk_of(1200) == 20
    given = arguments(1205, batch=1, heads=(1, 1, 1, 1, 1), key_dim=2, value_dim=2)
    assert_equal_to_the_reference(given, tolerance=1e-11)


@pytest.mark.parametrize("length", [1, 18])
def test_the_gradient_is_that_of_finite_differences(length):
    given = arguments(length, heads=(1, 2, 2, 1, 2), batch=1, key_dim=2, value_dim=2)
    given[4] = (given[4].detach() * 0.8 + 0.1).requires_grad_()  # a difference would leave [0, 1] at its ends
    assert torch.autograd.gradcheck(m2rnn, given, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("which", [0, 1], ids=["outputs", "last state"])
def test_the_gradient_of_the_outputs_alone_and_of_the_last_state_alone_are_the_reference_s(which):
    given = arguments(20)
    found, expected = (
        torch.autograd.grad(function(*given)[which].square().sum(), given, allow_unused=True)
        for function in (m2rnn, m2rnn_reference)
    )
    for one, other in zip(found, expected, strict=True):
        assert_close(one, torch.zeros_like(one) if other is None else other)  # the last state reads no query


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("lengths", [(7,), (3, 20, 1, 20, 8), (1, 1, 1), (1, 2, 3, 4), (30, 17, 2)])
def test_packed_it_equals_the_reference(lengths, clip):
    boundaries = torch.tensor([0, *accumulate(lengths)])
    given = arguments(sum(lengths), (1, 2, 4, 2, 4), batch=1, sequences=len(lengths))
    assert_equal_to_the_reference(given, cu_seqlens=boundaries, **CLIPS[clip])


def test_packed_without_a_batch_axis_it_is_the_same():
    boundaries = torch.tensor([0, 4, 11], dtype=torch.int32)
    given = arguments(11, batch=1, sequences=2)
    bare = [each[0] if name in ("q", "k", "v", "forget") else each for name, each in zip(NAMES, given, strict=True)]
    for function in (m2rnn, m2rnn_reference):
        outputs, state = function(*bare, cu_seqlens=boundaries)
        expected, last = function(*given, cu_seqlens=boundaries)
        assert torch.equal(outputs, expected[0])
        assert torch.equal(state, last)


@pytest.mark.parametrize("size", [1e-5, 1e-2, 0.05, 0.1, 0.2, 1.0, 30.0])
def test_in_float32_it_is_nearly_as_exact_as_the_reference_where_writes_are_small_too(size):
    wide = arguments(50, batch=1, key_dim=8)
    with torch.no_grad():
        wide[1] *= size  # small keys: the tanh must not lose what lies near zero
        wide[5] *= min(size, 1)
    narrow = [each.detach().float().requires_grad_() for each in wide]
    exact = results(m2rnn_reference, [each.detach().double().requires_grad_() for each in narrow])
    found, slow = results(m2rnn, narrow), results(m2rnn_reference, narrow)
    for one, other, truth in zip(found, slow, exact, strict=True):
        assert one.dtype == torch.float32
        assert (one - truth).abs().max() <= 2 * (other - truth).abs().max() + 1e-6 * truth.abs().max()


@pytest.mark.parametrize("narrow", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_and_carried_in_float32(narrow):
    given = [each.detach().to(narrow) for each in arguments(33)]
    given[5] = given[5].float()
    outputs, state = m2rnn(*given)
    expected, last = m2rnn(*(each.float() for each in given))
    assert torch.equal(outputs, expected.to(narrow))
    assert state.dtype == torch.float32
    assert torch.equal(state, last)
    wide_gate = m2rnn(*given[:4], given[4].float(), given[5])
    assert torch.equal(wide_gate[1], last)


def test_under_autocast_it_is_computed_in_the_type_of_its_arguments():
    given = arguments(20, dtype=torch.float32)
    plain = results(m2rnn, given)
    with torch.autocast("cpu", torch.bfloat16):
        cast = results(m2rnn, given)
    for one, other in zip(plain, cast, strict=True):
        assert torch.equal(one, other)


def test_float64_stays_float64():
    given = arguments(3)
    torch.set_default_dtype(torch.float32)
    for each in results(m2rnn, given):
        assert each.dtype == torch.float64


def test_without_a_gradient_the_result_is_the_same_and_no_state_is_kept():
    given = arguments(40)
    outputs, state = m2rnn(*given)
    with torch.no_grad():
        free = m2rnn(*given)
    assert torch.equal(free[0], outputs)
    assert torch.equal(free[1], state)
    assert free[0].grad_fn is None


def test_a_second_derivative_is_refused_and_not_wrong():
    given = arguments(3)
    (grad,) = torch.autograd.grad(m2rnn(*given)[0].square().sum(), given[:1], create_graph=True)
    with pytest.raises(NotImplementedError, match="m2rnn has no second derivative: use m2rnn_reference"):
        grad.sum().backward()


def test_arguments_that_are_not_contiguous_are_read_right():
    given = arguments(20)
    turned = [each.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_() for each in given]
    for one, other in zip(results(m2rnn, given), results(m2rnn, turned), strict=True):
        assert torch.equal(one, other)


def kept_numbers(length):
    """How many numbers autograd keeps for the gradient, besides the arguments."""
    given = arguments(length, heads=(1, 1, 1, 1, 1), batch=1, key_dim=4, value_dim=4)
    own, sizes = {each.data_ptr() for each in given}, []

    def pack(x):
        if x.data_ptr() not in own:
            sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        m2rnn(*given)
    return sum(sizes)


def test_for_the_gradient_the_memory_kept_besides_the_arguments_grows_as_the_root_of_the_length():
    state = 4 * 4
    assert kept_numbers(16) == state
    assert kept_numbers(768) == 48 * state
    assert kept_numbers(4 * 768) == 96 * state
    assert kept_numbers(16 * 768) == 192 * state


# The timings.


def test_the_peak_is_what_lives_at_one_time_in_the_backward_pass_too():
    x = torch.randn(1000, dtype=torch.float32, requires_grad=True)

    def one_after_the_other():
        for _ in range(5):
            x.detach() * 2

    assert peak_bytes(one_after_the_other, [x]) == 4_000
    assert peak_bytes(lambda: [x.detach() * 2 for _ in range(5)], [x]) == 5 * 4_000
    # exp keeps its result for the backward pass, which makes a gradient of the same size, from ones of that size
    assert 2 * 4_000 < peak_bytes(lambda: x.exp().sum().backward(), [x]) <= 4 * 4_000 + 8


def test_the_loop_that_writes_is_the_recurrence():
    given = arguments(9)
    for one, other in zip(results(written_loop, given), results(m2rnn, given), strict=True):
        assert_close(one, other)


def test_the_measurement_has_a_row_for_each_form_and_its_forward_pass_at_each_length_and_clip():
    torch.set_default_dtype(torch.float32)
    content = measure(LIMITS, 1, batch=1, length=40, heads=2, key_dim=3, value_dim=2, written_length=5)
    rows = {row["case"]: row for row in content["rows"]}
    places = ["length 40, clip none", "length 40, clip 1", "length 5, clip none"]
    for place in places:
        for form in ("careful loop", "in chunks") + (("loop that writes",) if place == places[2] else ()):
            whole, forward = rows.pop(f"{place}: {form}"), rows.pop(f"{place}: {form}, forward")
            assert whole["operations"] == 3 * forward["operations"]
            assert whole["peak_bytes"] > 0
            reference = None if form == "careful loop" else f"{place}: careful loop"
            assert (whole.get("reference"), forward.get("reference")) == (
                reference,
                reference and f"{reference}, forward",
            )
    assert not rows
    assert list(content["differences"]) == places
    assert max(max(each.values()) for each in content["differences"].values()) < 1e-4
    json.dumps(content)


def test_in_a_pass_with_its_gradient_the_peak_is_a_fifth_of_the_careful_loop_s_at_most():
    given = arguments(512, (1, 1, 1, 1, 1), batch=1, key_dim=64, value_dim=16, dtype=torch.float32)
    chunks, loop = (peak_bytes(lambda f=f: results(f, given), given) for f in (m2rnn, m2rnn_reference))
    assert 5 * chunks < loop


def test_the_command_prints_a_row_for_each_and_refuses_what_cannot_be_timed(capsys):
    torch.set_default_dtype(torch.float32)

    def run(command):
        with pytest.raises(SystemExit) as ending:
            main(f"bench m2rnn {command}".split())
        return ending.value.code, capsys.readouterr()

    code, printed = run("--quick --length 4 --written-length 2")
    assert code == 0
    for words in ("batch 1, length 4, heads 1, key_dim 4", "careful loop", "loop that writes", "differences"):
        assert words in printed.out
    code, printed = run("--quick --length 4 --written-length 0 --json")
    content = json.loads(printed.out)
    assert len(content["cases"]["m2rnn"]["rows"]) == 8
    assert content["machine"]["threads"] == 1  # where no number is typed
    for arguments_, words in (("--length 0", "length must be at least 1, got 0"), ("--rounds 0", "rounds must be")):
        code, printed = run(f"--quick {arguments_}")
        assert code == 2
        assert words in printed.err
        assert printed.err.count("\n") == 1

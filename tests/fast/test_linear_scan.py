"""The scan in two passes equals the loop, wherever its pieces end and whatever is differentiated."""

import json

import pytest
import torch

from closeness import assert_close
from conftest import TOLERANCE
from linear_scan_results import KINDS, build, drawn, results_of
from test_bench import LIMITS
from torsor.bench.linear_scan import arguments, complex_loop, dense_loop, in_two_passes, kept_bytes, measure
from torsor.cli import main
from torsor.maps import Diagonal
from torsor.recurrence import linear_scan_passes
from torsor.recurrence.linear_scan import linear_scan, linear_scan_reference
from torsor.recurrence.linear_scan_passes import _pieces

# batch, length, planes: one chunk, several, a rest, a scan of chunks in several chunks itself, steps one by one
SHAPES = [(1, 1, 1), (2, 2, 3), (1, 63, 2), (3, 64, 2), (1, 65, 2), (2, 777, 2), (1, 4200, 1), (2, 70, 1200)]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_scan_in_two_passes_equals_the_loop(shape, kind, dtype):
    given = drawn(kind, *shape, dtype=dtype)
    weights = torch.randn_like(given[2]), torch.randn_like(given[3])
    pairs = zip(*(results_of(f, kind, given, weights) for f in (linear_scan, linear_scan_reference)), strict=True)
    for fast, slow in pairs:
        assert fast.dtype == slow.dtype == dtype
        assert_close(fast, slow, TOLERANCE[dtype])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("elements", [1, 16, 100, 1 << 12])
def test_it_does_not_matter_how_many_numbers_an_operation_works_on(kind, elements, monkeypatch):
    monkeypatch.setattr(linear_scan_passes, "ELEMENTS", elements)
    monkeypatch.setattr(linear_scan_passes, "WALK", 50)
    given = drawn(kind, 2, 333, 3)
    weights = torch.randn_like(given[2]), torch.randn_like(given[3])
    pairs = zip(*(results_of(f, kind, given, weights) for f in (linear_scan, linear_scan_reference)), strict=True)
    for fast, slow in pairs:
        assert_close(fast, slow)


@pytest.mark.parametrize("lanes", [1, 7, 512, 1000, 2048, 2049, 10**6])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 1000, 4096, 4097, 70001])
def test_the_pieces_make_up_the_length_and_none_holds_more_than_it_may(length, lanes):
    pieces = list(_pieces(length, lanes))
    assert sum(chunks * size for chunks, size in pieces) == length
    for chunks, size in pieces:
        assert chunks == 1 or (chunks >= linear_scan_passes.FEWEST and chunks * lanes <= linear_scan_passes.ELEMENTS)
        assert size <= (linear_scan_passes.WALK if chunks == 1 else linear_scan_passes.LONGEST)
    if length >= 4096 and lanes <= linear_scan_passes.WIDEST:
        assert sum(size for chunks, size in pieces if chunks == 1) < 64, "the rest alone goes one by one"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wanted", [(0,), (2,), (3,), (0, 3)])
def test_the_gradient_of_some_of_the_arguments_alone_is_the_same(kind, wanted):
    given = drawn(kind, 2, 100, 3)
    scale, angle, inputs, state = given
    states, _ = linear_scan(build(kind, scale, angle), inputs, state)
    of_all = torch.autograd.grad(states.square().sum(), [given[i] for i in wanted])
    alone = [each if i in wanted else each.detach() for i, each in enumerate(given)]
    states, _ = linear_scan(build(kind, *alone[:2]), *alone[2:])
    for one, other in zip(torch.autograd.grad(states.square().sum(), [given[i] for i in wanted]), of_all, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gradient_of_the_last_state_alone_and_one_that_is_expanded_reach_everything(kind):
    given = drawn(kind, 2, 100, 3)
    for read in (lambda states, last: last.square().sum(), lambda states, last: states.sum()):
        results = []
        for function in (linear_scan, linear_scan_reference):
            loss = read(*function(build(kind, *given[:2]), *given[2:]))
            results.append(torch.autograd.grad(loss, given if "rotations" in kind else [given[0], *given[2:]]))
        for fast, slow in zip(*results, strict=True):
            assert_close(fast, slow)


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_and_a_state_in_any_layout_of_memory_give_the_same(kind):
    scale, angle, inputs, state = (each.detach() for each in drawn(kind, 2, 100, 3))
    carry = build(kind, scale, angle)
    expected, last = linear_scan(carry, inputs, state)
    shifted = torch.empty(2 * 100 * 6 + 1)[1:].view(2, 100, 6).copy_(inputs)  # no complex number may start there
    for other in (inputs.transpose(0, 1).contiguous().transpose(0, 1), inputs.mT.contiguous().mT, shifted):
        found = linear_scan(carry, other, state.mT.contiguous().mT)
        assert torch.equal(found[0], expected)
        assert torch.equal(found[1], last)
    constant = inputs[:1, :1].expand(2, 100, 6)
    assert torch.equal(linear_scan(carry, constant, state)[0], linear_scan(carry, constant.contiguous(), state)[0])


def test_what_is_returned_shares_no_memory_with_what_was_given():
    carry, inputs = Diagonal(torch.full((4,), 0.5)), torch.randn(1, 1, 4)
    states, last = linear_scan(carry, inputs)
    kept = inputs.clone()
    states.zero_()
    assert torch.equal(inputs, kept)
    assert torch.equal(last, kept[:, 0])


# The timings: every row is there, and what is timed is what it is called.


@pytest.mark.parametrize("own", [False, True])
def test_the_loops_that_are_timed_are_the_scan(own):
    given = [each.double() for each in arguments(2, 9, heads=2, head_dim=6, own=own)]
    loops = [complex_loop] if own else [complex_loop, dense_loop(2), dense_loop(2, fused=True)]
    for loop in loops:
        assert_close(loop(*given), in_two_passes(*given))


def test_what_is_kept_for_the_gradient_is_counted_by_its_memory():
    x = torch.randn(5, 4, requires_grad=True)
    assert kept_bytes(lambda x: (x * 2).exp(), [x]) == 20 * 8
    assert kept_bytes(lambda x: x.square(), [x]) == 0, "what was given is not counted"


def test_the_scan_keeps_no_more_than_a_loop_and_no_more_of_it_lives_at_one_time(monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr(linear_scan_passes, "ELEMENTS", 512)  # so that what it works on is small beside so few tokens
    content = measure(LIMITS, 1, batch=2, length=256, heads=2, head_dim=8, lengths=())
    rows = {row["case"]: row for row in content["rows"]}
    for name, row in rows.items():
        scan = rows[f"{name.partition(':')[0]}: scan"]
        first_state = 2 * 16 * 4
        assert row["kept_bytes"] + first_state >= scan["kept_bytes"], name
        assert row["peak_bytes"] >= scan["peak_bytes"], name
        assert row["operations"] == 12 * 2 * 256 * 16
    inputs = 2 * 256 * 16 * 4
    assert rows["one map: scan"]["moved_bytes"] == 5 * inputs + 3 * 2 * 8 * 4
    assert rows["a map for each token: scan"]["moved_bytes"] == 8 * inputs
    assert max(content["differences"]["one map"].values()) < 1e-12
    assert max(content["differences"]["a map for each token"].values()) < 1e-12


def run(command: str) -> int:
    with pytest.raises(SystemExit) as ending:
        main(command.split())
    return ending.value.code


def test_the_command_prints_a_row_for_each_case_and_each_length(capsys):
    torch.set_default_dtype(torch.float32)
    sizes = "--quick --length 80 --head-dim 4 --threads 1 --lengths 16 --lengths 64"
    assert run(f"bench linear-scan {sizes}") == 0
    out = capsys.readouterr().out
    for words in ("batch 1, length 80", "complex loop", "dense loop, fused", "a map for each token", "kept bytes"):
        assert words in out
    assert "exponent" not in out
    assert run("bench linear-scan --quick --threads 1 --json") == 0
    content = json.loads(capsys.readouterr().out)["cases"]["linear-scan"]
    assert [row["sizes"] for row in content["growth"]] == [[4, 20]]
    # in one turn as many tokens are read of each length as the longest has, rounded down
    assert [row["case"] for row in content["rows"][-5:]][:2] == ["scan, length 4, 5 times", "scan, length 8, 2 times"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--length 0", "length must be at least 1, got 0"),
        ("--lengths 0", "lengths must be at least 1, got 0"),
        ("--head-dim 3", "head_dim must be even, got 3"),
    ],
)
def test_sizes_that_cannot_be_timed_are_one_line(arguments, words, capsys):
    assert run(f"bench linear-scan --quick --threads 1 {arguments}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1

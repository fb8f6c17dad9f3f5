"""The timings of transitions and exponentials: every row is there, and what is timed is what it is called."""

import itertools
import json

import pytest
import torch

from cases import TRANSITIONS
from torsor.bench.exponential import errors, random_skew
from torsor.bench.limits import Limits
from torsor.bench.looped import useful_flops, word_model
from torsor.bench.transitions import BASELINE, measure, one_by_one, operations, reflections, transitions
from torsor.cli import main
from torsor.cli.bench_content import print_case
from torsor.maps import Householder

LIMITS = Limits("a machine", 2, 1, "a torch", gemm=100.0, bandwidth=10.0)


def run(command: str) -> int:
    with pytest.raises(SystemExit) as ending:
        main(command.split())
    return ending.value.code


def test_every_kind_of_transition_is_timed():
    assert {type(each) for each in transitions(8).values()} == {type(case()) for case in TRANSITIONS.values()}


def test_reflections_one_by_one_are_the_map():
    build, (vectors, scale) = reflections(8, 3)
    assert isinstance(build(), Householder)
    x = torch.randn(5, 8)
    vectors, scale = vectors.detach(), scale.detach()
    torch.testing.assert_close(scale * one_by_one(x, vectors), build()(x), rtol=0, atol=1e-12)


def test_every_use_of_a_transition_is_timed_beside_the_conformal_map_s():
    torch.set_default_dtype(torch.float32)
    content = measure(LIMITS, 2, dims=(8, 16), tokens=4)
    assert content["growth"] == []  # of two widths
    rows = {row["case"]: row for row in content["rows"]}
    for dim, name in itertools.product((8, 16), transitions(8)):
        for use in ("build", "build and gradient", "apply", "8 steps"):
            row = rows[f"dim {dim}, {name}: {use}"]
            assert row.get("reference") == (None if name == BASELINE else f"dim {dim}, {BASELINE}: {use}")
            assert ("operations" in row) == (use in {"apply", "8 steps"})
    assert rows["dim 8, dim reflections: apply one by one"]["reference"] == "dim 8, dim reflections: apply"


def test_what_a_transition_s_map_cannot_do_without_is_counted_by_its_structure():
    counts = {name: operations(each()) for name, each in transitions(8).items()}
    assert (counts["diagonal"], counts[BASELINE]) == (8, 24)
    assert (counts["Cayley, 1 group"], counts["Cayley, 2 groups"]) == (128, 64)
    assert [operations(reflections(8, count)[0]()) for count in (1, 8)] == [32, 128]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--dims 12", "dims must be positive multiples of 8, got 12"),
        ("--dims 0", "dims must be positive multiples of 8, got 0"),
        ("--dims 8 --tokens 0", "tokens must be at least 1, got 0"),
        ("--dims 8 --rounds 0", "rounds must be at least 1, got 0"),
    ],
)
def test_a_width_or_a_count_that_cannot_be_timed_is_one_line(arguments, words, capsys):
    assert run(f"bench transitions --quick {arguments}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_looped_tells_the_share_of_the_matrix_peak(capsys):
    torch.set_default_dtype(torch.float32)
    assert run("bench looped --quick --widths 8 --widths 16 --threads 1 --json") == 0
    rows = json.loads(capsys.readouterr().out)["cases"]["looped"]["rows"]
    names = ["product of matrices of 16", "training step, width 8", "training step, width 16"]
    assert [row["case"] for row in rows] == [*names, "diagonal map", "conformal map"]
    assert all(row["share_of_peak"] > 0 for row in rows)
    assert rows[1]["operations"] == useful_flops(word_model(8), 2, 3, 8)
    assert run("bench looped --rounds 0") == 2
    assert capsys.readouterr().err == "torsor: rounds must be at least 1, got 0\n"


def test_exponential_tells_how_many_times_as_fast_and_how_exact_both_are(capsys):
    torch.set_default_dtype(torch.float32)
    assert run("bench exponential --quick --threads 1 --norm 3 --json") == 0
    content = json.loads(capsys.readouterr().out)["cases"]["exponential"]
    assert content["settings"]["norms up to"] == 3
    for row in content["rows"]:
        assert 0 < row["error"] < 8
        assert 0 < row["error_of_gradient"] < 1e-5
    print_case("exponential", content)
    out = capsys.readouterr().out
    for words in ("times as fast", "8 of 4 x 4, float32: ours", "2 of 4 x 4, complex64: PyTorch", "error of gradient"):
        assert words in out


def test_the_errors_of_an_exponential_are_those_that_it_makes():
    skew = random_skew(4, 6, torch.float64, norm=3.0)
    norms = torch.linalg.matrix_norm(skew, 2)
    torch.testing.assert_close(norms, torch.linspace(0, 3, 6), rtol=0, atol=1e-12)
    torch.testing.assert_close(skew, -skew.mT, rtol=0, atol=0)
    cotangent = torch.randn(6, 4, 4)

    def wrong(s):
        return torch.linalg.matrix_exp(s) * (1 + 1e-6)

    value, gradient = errors(wrong, skew, cotangent)
    assert value * torch.finfo(torch.float64).eps == pytest.approx(1e-6, rel=1e-4)
    assert gradient == pytest.approx(1e-6, rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--norm 0", "norm must be positive and at most 1000, got 0.0"),
        ("--norm nan", "norm must be positive and at most 1000, got nan"),
    ],
)
def test_exponentials_that_cannot_be_timed_are_one_line(arguments, words, capsys):
    assert run(f"bench exponential --quick {arguments}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1

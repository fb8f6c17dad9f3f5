"""The timings of transitions and exponentials: every row is there, and what is timed is what it is called."""

import json

import pytest
import torch

from cases import TRANSITIONS
from torsor.bench.exponential import errors, random_skew
from torsor.bench.transitions import BASELINE, measure, one_by_one, reflections, transitions
from torsor.cli import main
from torsor.maps import Householder


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


def test_every_row_has_its_times_and_its_ratio_to_the_conformal_map():
    torch.set_default_dtype(torch.float32)
    content = measure(dims=(8, 16), tokens=4, rounds=2)
    assert content["tokens"] == 4
    assert {row["dim"] for row in content["rows"]} == {8, 16}
    for row in content["rows"]:
        assert row["apply"] > 0
        if not row["transition"].endswith("one by one"):
            assert min(row["build"], row["build_gradient"], row["pass"]) > 0
            assert 0 < row["quartiles"][0] <= row["over_conformal"] <= row["quartiles"][1]
        if row["transition"] == BASELINE:
            assert row["over_conformal"] == 1
    json.dumps(content)


def test_the_command_prints_a_row_for_each(capsys):
    torch.set_default_dtype(torch.float32)
    assert run("bench transitions --dims 8 --tokens 4 --rounds 1 --threads 1") == 0
    out = capsys.readouterr().out
    for words in ("4 tokens, float32, 1 threads", "over conformal", "Cayley, 2 groups", "as 8 reflections, one by one"):
        assert words in out
    assert run("bench transitions --dims 8 --tokens 4 --rounds 1 --threads 1 --json") == 0
    assert json.loads(capsys.readouterr().out)["rows"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--dims 12", "dims must be positive multiples of 8, got 12"),
        ("--dims 0", "dims must be positive multiples of 8, got 0"),
        ("--dims 8 --tokens 0", "tokens and rounds must be at least 1, got 0 and 12"),
        ("--dims 8 --rounds 0", "tokens and rounds must be at least 1, got 4096 and 0"),
    ],
)
def test_a_width_or_a_count_that_cannot_be_timed_is_one_line(arguments, words, capsys):
    assert run(f"bench transitions {arguments}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_looped_prints_the_share_of_the_matrix_peak(monkeypatch, capsys):
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr("torsor.bench.looped.GEMM_SIZE", 16)
    assert run("bench looped --widths 8 --rounds 1 --threads 1") == 0
    out = capsys.readouterr().out
    for words in ("share of it", "turn by turn", "conformal map over diagonal"):
        assert words in out
    assert run("bench looped --rounds 0") == 2
    assert capsys.readouterr().err == "torsor: rounds must be at least 1, got 0\n"


def test_exponential_prints_how_many_times_as_fast_and_how_exact_both_are(monkeypatch, capsys):
    torch.set_default_dtype(torch.float32)
    cases = ((4, 8, torch.float32), (4, 2, torch.complex64))
    monkeypatch.setattr("torsor.bench.exponential.CASES", cases)
    assert run("bench exponential --rounds 1 --threads 1 --norm 3") == 0
    out = capsys.readouterr().out
    for words in ("norms up to 3, 1 threads; medians of 1 rounds", "times as fast", "complex64"):
        assert words in out
    assert run("bench exponential --rounds 1 --threads 1 --json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["dim"], row["batch"], row["numbers"]) for row in rows] == [(4, 8, "float32"), (4, 2, "complex64")]
    for row in rows:
        assert row["quartiles"][0] <= row["ratio"] <= row["quartiles"][1]
        assert row["ratio"] == pytest.approx(row["reference_seconds"] / row["seconds"])  # in a single round
        assert 0 < row["error"] < 8
        assert 0 < row["gradient_error"] < 1e-5


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
        ("--rounds 0", "rounds must be at least 1, got 0"),
        ("--norm 0", "norm must be positive and at most 1000, got 0.0"),
        ("--norm nan", "norm must be positive and at most 1000, got nan"),
    ],
)
def test_exponentials_that_cannot_be_timed_are_one_line(arguments, words, capsys):
    assert run(f"bench exponential {arguments}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1

"""The timing of generation: every row is there, and what is timed is what it is called."""

import json

import pytest
import torch

from torsor.bench.generation import measure, one_token, policies
from torsor.cli import main
from torsor.generation import LoopedReader
from torsor.models import parcae_transformer
from torsor.transitions import BlockConformal

TINY = {"width": 16, "contexts": (4, 8, 32), "steps": (1, 3), "rounds": 1, "recomputed": 8}


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def run(command: str) -> int:
    with pytest.raises(SystemExit) as ending:
        main(command.split())
    return ending.value.code


def test_every_context_and_policy_has_its_rate_and_the_short_ones_their_ratio_to_the_whole_sequence():
    content = measure(**TINY)
    assert [(row["context"], row["policy"]) for row in content["rows"]] == [
        (context, name) for context in (4, 8, 32) for name in policies(3)
    ]
    for row in content["rows"]:
        assert row["tokens_per_second"] > 0
        assert row["cache_bytes"] > 0
        assert ("whole_over_token" in row) == (row["context"] <= 8)
        assert row["over_first"] == 1 or row["context"] > 4
    assert [each["steps"] for each in content["depths"]] == [1, 3]
    json.dumps(content)


@pytest.mark.parametrize("name", policies(3))
def test_a_timed_call_reads_one_token_at_the_end_of_its_context(name):
    model = parcae_transformer(BlockConformal(16, groups=2), vocabulary=5, heads=4)
    call, _ = one_token(LoopedReader(model), policies(3)[name], 3, 9)
    seen = []
    model.coda.norm.register_forward_hook(lambda _module, inputs, _output: seen.append(inputs[0].shape))
    call()
    call()
    assert seen == [(1, 16), (1, 16)]


def test_the_command_prints_a_row_for_each(capsys):
    options = "--width 16 --contexts 4 --contexts 8 --steps 1 --steps 2 --rounds 1 --threads 1"
    assert run(f"bench generation {options}") == 0
    out = capsys.readouterr().out
    for words in ("width 16, 2 loops, float32, 1 threads", "whole over token", "budget 2", "tokens/s by loops at 8"):
        assert words in out
    assert run(f"bench generation {options} --json") == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--rounds 0", "rounds must be at least 1, got 0"),
        ("--contexts 1", "contexts must be at least 2, got 1"),
        ("--steps 0", "steps must be at least 1, got 0"),
        ("--width 12", "groups = 4, got 12"),
        ("--width 20", "2 * heads = 8, got 20"),
    ],
)
def test_what_cannot_be_timed_is_one_line(options, words, capsys):
    assert run(f"bench generation {options}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error or "multiple" in error

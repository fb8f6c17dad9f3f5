"""The timing of generation: every row is there, and what is timed is what it is called."""

import json

import pytest
import torch

from test_bench import LIMITS, run
from torsor.bench.generation import measure, one_token, policies, token_flops
from torsor.bench.looped import useful_flops
from torsor.generation import LoopedReader
from torsor.models import parcae_transformer
from torsor.transitions import BlockConformal

TINY = {"rounds": 1, "width": 16, "contexts": (4, 8, 12, 16, 32), "steps": (1, 3), "recomputed": 8}


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def test_every_context_and_policy_has_its_rate_and_the_short_ones_their_ratio_to_the_whole_sequence():
    content = measure(LIMITS, **TINY)
    rows = {row["case"]: row for row in content["rows"]}
    for context in TINY["contexts"]:
        for name in policies(3):
            row = rows[f"context {context}, {name}"]
            assert row["per_second"] == pytest.approx(1 / row["seconds"])
            assert row["cache_bytes"] > 0
            assert row.get("reference") == (f"context {context}, whole sequence" if context <= 8 else None)
    assert rows["context 32, last loop, 1 loops"]["reference"] == "context 32, last loop"
    assert [row["what"] for row in content["growth"]] == [f"seconds of a token, {name}" for name in policies(3)]
    json.dumps(content)


def test_the_operations_of_all_tokens_are_those_of_the_sequence():
    model = parcae_transformer(BlockConformal(16, groups=2), vocabulary=5, heads=4)
    tokens = sum(token_flops(model, context, 3) for context in range(1, 8))
    assert tokens == useful_flops(model, 1, 7, 3, training=False)


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
    assert run("bench generation --quick --contexts 4 --contexts 8 --threads 1") == 0
    out = capsys.readouterr().out
    for words in ("width 16, loops 2", "context 8, whole sequence", "context 8, budget 2", "last loop, 1 loops", "MB"):
        assert words in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--contexts 1", "contexts must be at least 2, got 1"),
        ("--steps 0", "steps must be at least 1, got 0"),
        ("--width 12", "groups = 4, got 12"),
        ("--width 20", "2 * heads = 8, got 20"),
    ],
)
def test_what_cannot_be_timed_is_one_line(options, words, capsys):
    assert run(f"bench generation --quick {options}") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error or "multiple" in error

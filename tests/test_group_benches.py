"""The benches of models on groups: what is timed is one computation, and the drift is the one that is there."""

import json
import math

import pytest
import torch

from test_bench import run
from torsor.bench.drift import scan
from torsor.bench.group_models import measure
from torsor.groups import Orthogonal
from torsor.models import GroupRNN


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def test_both_forms_of_a_training_step_begin_with_the_same_loss():
    content = measure(rounds=1, batch=2, context=5, width=3)
    assert [row["model"] for row in content["rows"]] == ["GroupTransformer", "GroupRNN"]
    for row in content["rows"]:
        assert row["difference"] < 1e-5
        assert row["ratio"] == pytest.approx(row["plain_seconds"] / row["seconds"])
    json.dumps(content)


def test_a_scan_in_pieces_scores_as_the_whole_text_and_a_polish_lowers_the_departure():
    model, text = GroupRNN(Orthogonal(8), 65), torch.randint(0, 65, (1200,))
    never, always = (scan(model, text, beyond) for beyond in (math.inf, 0.0))
    with torch.no_grad():
        logits = model(text[None], polish_beyond=math.inf)[0][0, :-1].double()
    nats = torch.nn.functional.cross_entropy(logits, text[1:])
    assert never["bits"] == pytest.approx(float(nats) / math.log(2), rel=1e-5)
    assert always["bits"] == pytest.approx(never["bits"], rel=1e-3)
    assert always["largest"] < never["largest"]
    assert never["largest"] >= never["last"] > 0


def test_the_commands_print_their_rows_and_refuse_in_one_line(capsys):
    assert run("bench group-transformer --rounds 1 --batch 2 --context 3 --width 3 --threads 1") == 0
    out = capsys.readouterr().out
    for words in ("batch 2, context 3, width 3, float32, 1 threads", "times as fast", "GroupRNN"):
        assert words in out
    assert run("bench drift --tokens 20 --rounds 1 --threads 1 --json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 10
    assert {row["polish_beyond"] for row in rows} == {"inf", "5e-05"}
    for options, words in (
        ("group-transformer --batch 0", "batch must be at least 1, got 0"),
        ("drift --tokens 1", "tokens must be at least 2 and rounds at least 1, got 1 and 5"),
    ):
        assert run(f"bench {options}") == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1

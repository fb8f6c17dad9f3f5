"""The benches of models on groups: what is timed is one computation, and the drift is the one that is there."""

import json
import math

import pytest
import torch

from test_bench import LIMITS, run
from torsor.bench.drift import scan
from torsor.bench.group_models import measure
from torsor.bench.jobs import group_recurrent_training
from torsor.groups import Orthogonal
from torsor.models import GroupRNN


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def test_both_forms_of_a_training_step_begin_with_the_same_loss():
    content = measure(LIMITS, 1, batch=2, context=5, width=3)
    forms = [f"{model}, {form}" for model in ("GroupTransformer", "GroupRNN") for form in ("plain", "ours")]
    assert [row["case"] for row in content["rows"]] == forms
    assert [row.get("reference") for row in content["rows"]] == [None, forms[0], None, forms[2]]
    assert max(content["differences"].values()) < 1e-5
    job = group_recurrent_training(3, 2, 5)
    # ten tokens: five products of 3 x 3, a mixing of 3 x 3, and 65 similarities of nine numbers, three times
    assert content["rows"][2]["operations"] == job.operations == 3 * 10 * (5 * 54 + 18 + 2 * 9 * 65)
    assert content["rows"][2]["moved_bytes"] == content["rows"][3]["moved_bytes"] == job.moved
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
    assert run("bench group-transformer --quick --threads 1") == 0
    out = capsys.readouterr().out
    for words in ("batch 2, context 3, width 3", "times as fast", "GroupRNN, ours", "differences"):
        assert words in out
    assert run("bench drift --quick --threads 1 --json") == 0
    content = json.loads(capsys.readouterr().out)["cases"]["drift"]
    assert (len(content["rows"]), len(content["departures"])) == (15, 10)
    assert {row["polished_beyond"] for row in content["departures"]} == {"inf", 5e-05}
    assert content["rows"][1]["operations"] == 3 * content["rows"][2]["operations"] == 3 * 64 * 16**3
    for options, words in (
        ("group-transformer --batch 0", "batch must be at least 1, got 0"),
        ("drift --tokens 1", "tokens must be at least 2, got 1"),
    ):
        assert run(f"bench {options} --quick") == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1

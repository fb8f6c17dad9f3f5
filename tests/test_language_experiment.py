"""The language-model experiment: it trains, scores at every depth, resumes, and refuses what cannot be."""

import json
import random

import pytest
import torch

from torsor.cli import main
from torsor.experiments.catalogue import EXPERIMENTS, TABLES
from torsor.experiments.language import DEPTHS
from torsor.experiments.run_table import complete, results
from torsor.experiments.sampled_depth import SampledDepth
from torsor.experiments.table_run import Order

LANGUAGE = "rotate-the-loop/language"
TINY = {
    "shrink": 32,
    "entries": 300,
    "context": 16,
    "batch": 4,
    "updates": 6,
    "mean_steps": 3.0,
    "largest_steps": 6,
    "grad_steps": 2,
    "positions": 200,
}
OPTIONS = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in TINY.items()) + " --threads 1"


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A made text of a few hundred different words."""
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklm", k=chance.randint(2, 7))) for _ in range(300)]
    path = tmp_path_factory.mktemp("text") / "made.txt"
    path.write_text(" ".join(chance.choice(words) for _ in range(4000)))
    return path


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def build(text, **arguments):
    experiment = EXPERIMENTS[LANGUAGE]
    return experiment.build(**experiment.arguments(**{**TINY, "text": str(text), **arguments}))


def test_a_run_scores_perplexity_at_every_depth_and_records_the_hashes_of_its_text(text, tmp_path, capsys):
    path = tmp_path / "run"
    assert run(f"train {LANGUAGE} {OPTIONS} --text {text} --out {path}") == 0
    out = capsys.readouterr().out
    content = json.loads((path / "evaluation.json").read_text())
    assert [each["steps"] for each in content["perplexity_by_depth"]] == list(DEPTHS)
    for each in content["perplexity_by_depth"]:
        assert 1 < each["perplexity"] < 1000
        assert each["positions"] == 192
        assert f"{each['perplexity']:.3f}" in out
    assert content["lambada_by_depth"] == []
    assert len(content["text"]["tokenizer_sha256"]) == len(content["text"]["training_sha256"]) == 64
    assert (path / "geometry.json").is_file()
    assert run(f"measure {path}") == 0


def test_a_run_that_is_interrupted_ends_as_if_nobody_had(text, tmp_path, monkeypatch):
    command = f"train {LANGUAGE} {OPTIONS} --text {text} --checkpoint-every 2"
    assert run(f"{command} --out {tmp_path / 'whole'}") == 0
    sound = SampledDepth.forward

    def interrupted(self, model, tokens, update, rows):
        if update == 5:
            raise KeyboardInterrupt
        return sound(self, model, tokens, update, rows)

    monkeypatch.setattr(SampledDepth, "forward", interrupted)
    assert run(f"{command} --out {tmp_path / 'cut'}") == 130
    monkeypatch.setattr(SampledDepth, "forward", sound)
    assert run(f"{command} --out {tmp_path / 'cut'}") == 0
    files = ("metrics.jsonl", "evaluation.json", "geometry.json", "generated.json", "checkpoint/model.safetensors")
    for file in files:
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        {"transition": "diagonal"},
        {"transition": "tied"},
        {"transition": "cayley"},
        {"values": "published", "size": "140M"},
        {"values": "none", "optimizer": "adamw"},
        {"precision": "bfloat16", "recompute": True, "parts": 2},
    ],
    ids=str,
)
def test_every_choice_trains(arguments, text):
    from torsor.training import TrainState, train

    study = build(text, **arguments)
    state = TrainState(study.model, study.optimizer)
    records = list(train(state, study.task, study.plan, forward=study.step.forward, engine=study.engine))
    assert len(records) == 6
    assert all(record.loss < 8 for record in records)


@pytest.mark.parametrize(("size", "millions"), [("60M", 60.30), ("140M", 144.32), ("370M", 388.00)])
@pytest.mark.parametrize("transition", ["diagonal", "conformal"])
def test_the_paper_s_sizes_have_the_published_number_of_parameters(size, millions, transition, text, monkeypatch):
    from torsor.experiments import language_data
    from torsor.experiments.language_data import LanguageData
    from torsor.text import BytePairRecipe

    tokenizer = BytePairRecipe(300).train([text.read_text()])
    stream = torch.zeros(5000, dtype=torch.int64)
    data = LanguageData("made", tokenizer, stream, stream, {})
    monkeypatch.setattr(language_data, "language_data", lambda text, entries: data)
    monkeypatch.setattr(type(tokenizer), "vocabulary", 32_768)
    experiment = EXPERIMENTS[LANGUAGE]
    arguments = experiment.arguments(scale="paper", size=size, transition=transition, text="x", lambada=False)
    with torch.device("meta"):
        study = experiment.build(**arguments)
    assert round(sum(p.numel() for p in study.model.parameters()) / 1e6, 2) == millions
    tokens = study.plan.updates * study.plan.batch * study.task.context
    assert tokens == pytest.approx(80 * millions * 1e6, rel=1e-3)


@pytest.mark.parametrize("name", ["rotate-the-loop/language", "rotate-the-loop/toeplitz"])
def test_both_tables_share_their_runs_and_stand_beside_the_paper_s_numbers(name, text, tmp_path):
    table = TABLES[name]
    order = Order(table, table.rows[:2], "laptop", 1, tmp_path, given={**TINY, "text": str(text)})

    def silently(updates, path):
        for _ in updates:
            pass

    complete(order, silently)
    diagonal, conformal = results(order)
    headline = table.reading.scores[0]
    assert all(cell["ours"][headline]["mean"] is not None for cell in diagonal["columns"].values())
    if name == "rotate-the-loop/toeplitz":
        assert conformal["columns"]["T=32"]["ours"]["own blocks"]["mean"] < 1e-14
        assert conformal["columns"]["T=32"]["ours"]["whole vector"]["mean"] < 0.5
        assert diagonal["columns"]["T=8"]["paper"] == {"value": 0.059, "spread": 0.011}
    else:
        assert diagonal["columns"]["T=8"]["paper"]["value"] == 22.45
        assert conformal["columns"]["T=48"]["paper"]["value"] == 18.62


def test_a_plan_needs_no_text_and_a_made_one_can_be_trained_on(tmp_path, capsys):
    sizes = OPTIONS.replace("--updates 6", "").replace("--threads 1", "")
    assert run(f"plan {LANGUAGE} {sizes} --scale paper --json") == 0
    counted = json.loads(capsys.readouterr().out)
    assert counted["tokens"] >= 80 * counted["parameters"]
    assert counted["products_in"] == "bfloat16"
    assert run(f"train {LANGUAGE} {OPTIONS} --text made --out {tmp_path / 'run'}") == 0
    content = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert content["perplexity_by_depth"][0]["perplexity"] > 250  # nothing to learn: 299 symbols, equally likely


def test_the_text_of_a_table_s_runs_can_be_named(text, tmp_path, capsys):
    assert run(f"table {LANGUAGE} --dry-run --text {text} --out {tmp_path}") == 0
    assert f"--text {text}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--text nowhere", "text must be a data set, a text file or a prepared folder, got 'nowhere'"),
        ("--scale paper", "text must name a data set"),
        ("--text {text} --shrink 7", "shrink must divide 64, got 7"),
        ("--text {text} --entries 100", "entries must be at least 259"),
        ("--text {text} --context 100000", "context must be less than"),
        ("--text {text} --parts 0", "parts must be at least 1, got 0"),
        ("--text {text} --mean-steps 0.4", "mean_steps must be in 1 .. largest_steps = 6, got 0.4"),
        ("--text {text} --mean-steps 7", "mean_steps must be in 1 .. largest_steps = 6, got 7.0"),
        ("--text {empty}", "empty.txt must hold the text to learn from, it is empty"),
        ("--text {short}", "short.txt has 19 characters, whose first 90 percent give "),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(options, words, text, tmp_path, capsys):
    files = {name: text.with_name(f"{name}.txt") for name in ("empty", "short")}
    files["empty"].write_text("")
    files["short"].write_text("to be or not to be.")
    keep = {k: v for k, v in TINY.items() if f"--{k.replace('_', '-')}" not in options}
    typed = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in keep.items())
    assert run(f"train {LANGUAGE} {typed} {options.format(text=text, **files)} --out {tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())

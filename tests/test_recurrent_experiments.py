"""The recurrent experiments: they train, score, stream and resume, and their tables can be built and printed."""

import json
import random

import numpy as np
import pytest
import torch
from torch import nn

import torsor.text
from torsor.cli import main
from torsor.experiments.catalogue import EXPERIMENTS, TABLES
from torsor.experiments.list_ops_examination import ListOpsExamination, MeanPass, summary
from torsor.experiments.recurrent_readings import AccuracyByLength, ListOpsAccuracy
from torsor.experiments.run_table import complete, results
from torsor.experiments.state_examination import StateExamination
from torsor.experiments.study import NonFiniteLogitsError, WholePass
from torsor.experiments.table_run import Order
from torsor.groups import symmetric
from torsor.tasks import ListOps, WordProblem
from torsor.tasks.list_trees import MAX, MIN, PAD, SUM_MOD

WORDS = {"length": 6, "updates": 6, "batch": 4, "warmup": 1, "words": 20, "stream_length": 300, "stream_words": 3}
LISTS = {"shortest": 4, "longest": 20, "updates": 6, "batch": 4, "warmup": 1, "expressions": 30, "width": 8, "heads": 2}
TEXT = {"context": 8, "updates": 6, "batch": 4, "warmup": 1}
TINY = {"recurrent/s3": WORDS, "recurrent/list-ops": LISTS, "recurrent/tiny-shakespeare": TEXT}


@pytest.fixture(autouse=True)
def users_numerics(monkeypatch):
    torch.set_default_dtype(torch.float32)
    text = "".join(random.Random(0).choices("abcdefgh \n", k=2000))
    monkeypatch.setattr(torsor.text, "texts_of", {"tiny-shakespeare": (text,)}.__getitem__)


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def typed(arguments: dict) -> str:
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in arguments.items())


def silently(updates, _path):
    for _ in updates:
        pass


@pytest.mark.parametrize("name", TINY)
def test_every_row_trains_and_stands_in_its_table_beside_what_the_paper_says(name, tmp_path, capsys):
    table = TABLES[name]
    # sizes of the rows that are too large for a test
    small = {} if "list" in name else {"width": 4, "layers": 1, "heads": 2, "hidden": 4, "key_dim": 3, "value_dim": 2}
    order = Order(table, table.rows, "laptop", 1, tmp_path, given={**TINY[name], **small})
    complete(order, silently)
    found = results(order)
    assert len(found) == len(table.rows)
    for row, content in zip(table.rows, found, strict=True):
        assert tuple(content["columns"]) == table.columns
        for column, cell in content["columns"].items():
            headline = cell["ours"][table.reading.scores[0]]
            assert headline["mean"] is not None
            paper = row.paper.get(column)
            assert cell["paper"] == (None if paper is None else {"value": paper.value, "spread": None})
    (run_folder, *_) = sorted(each.parent for each in tmp_path.rglob("evaluation.json"))
    assert np.isfinite(table.reading.merit(run_folder))
    assert run(f"table {name} --dry-run --out {tmp_path / 'elsewhere'}") == 0
    out = capsys.readouterr().out
    assert table.summary in out
    assert f"torsor train {name}" in out
    assert "not run" in out
    assert run(f"table {name} --dry-run --markdown --out {tmp_path / 'elsewhere'}") == 0
    assert run(f"table {name} --dry-run --tune --scale paper --out {tmp_path / 'elsewhere'}") == 0


def test_the_paper_s_numbers_for_s3_are_those_of_m2rnn_and_gru_at_three_lengths():
    rows = {
        row.label: {column: paper.value for column, paper in row.paper.items()} for row in TABLES["recurrent/s3"].rows
    }
    lengths = {"128": 0.995, "256": 0.995, "512": 0.995}
    assert {label: paper for label, paper in rows.items() if paper} == {"M²RNN": lengths, "GRU": lengths}
    assert EXPERIMENTS["recurrent/s3"].arguments()["length"] == 128
    assert EXPERIMENTS["recurrent/s3"].arguments()["stream_length"] == 65_536
    assert "at least 0.995" in TABLES["recurrent/s3"].summary


def test_rows_of_one_table_have_nearly_one_number_of_parameters():
    for name, (low, high) in {
        "recurrent/s3": (28_000, 31_000),
        "recurrent/list-ops": (39_000, 40_000),
        "recurrent/tiny-shakespeare": (97_000, 101_000),
    }.items():
        for row in TABLES[name].rows:
            given = {} if "shakespeare" in name else {"longest": 64} if "list" in name else {"length": 4}
            study = EXPERIMENTS[name].build(**EXPERIMENTS[name].arguments(**row.arguments, **given))
            vocabulary = 65 - study.task.vocabulary if "shakespeare" in name else 0
            count = sum(p.numel() for p in study.model.parameters())
            if vocabulary:  # the made text has fewer symbols than Tiny Shakespeare
                from torsor.experiments.recurrent_kinds import RecurrentSizes, recurrent_model

                given = EXPERIMENTS[name].arguments(**row.arguments)
                names = ("width", "layers", "heads", "key_dim", "value_dim", "hidden", "std")
                model, _ = recurrent_model(given["model"], RecurrentSizes(*map(given.get, names)), 65, 65, 0)
                count = sum(p.numel() for p in model.parameters())
            assert low < count < high, (name, row.label, count)


@pytest.mark.parametrize("name", TINY)
def test_the_larger_scale_names_arguments_that_there_are(name):
    experiment = EXPERIMENTS[name]
    paper = experiment.arguments(scale="paper")
    assert set(paper) == set(experiment.arguments())
    assert paper["updates"] > experiment.arguments()["updates"]
    if name == "recurrent/list-ops":
        assert (paper["depth"], paper["arguments"], paper["shortest"], paper["longest"]) == (10, 10, 501, 1999)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("recurrent/s3", {**WORDS, "model": "m2rnn", "width": 4, "key_dim": 3, "value_dim": 2}),
        ("recurrent/list-ops", {**LISTS, "model": "decay"}),
        ("recurrent/tiny-shakespeare", {**TEXT, "model": "rotrnn", "width": 8}),
    ],
)
def test_a_run_that_is_interrupted_ends_as_if_nobody_had(name, options, tmp_path, monkeypatch):
    command = f"train {name} {typed(options)} --threads 1 --checkpoint-every 2"
    assert run(f"{command} --out {tmp_path / 'whole'}") == 0
    step = MeanPass if name == "recurrent/list-ops" else WholePass
    sound = step.forward

    def interrupted(self, model, tokens, update, rows):
        if update == 5 and model.training:
            raise KeyboardInterrupt
        return sound(self, model, tokens, update, rows)

    monkeypatch.setattr(step, "forward", interrupted)
    assert run(f"{command} --out {tmp_path / 'cut'}") == 130
    monkeypatch.setattr(step, "forward", sound)
    assert run(f"{command} --out {tmp_path / 'cut'}") == 0
    for file in ("metrics.jsonl", "evaluation.json", "checkpoint/model.safetensors"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_a_run_records_every_position_the_stream_its_parameters_and_its_time_and_can_be_reported(tmp_path, capsys):
    path = tmp_path / "run"
    assert run(f"train recurrent/s3 --model gru --width 5 {typed(WORDS)} --threads 1 --out {path}") == 0
    out = capsys.readouterr().out
    content = json.loads((path / "evaluation.json").read_text())
    assert [each["length"] for each in content["lengths"]] == [6, 12, 24]
    assert [len(each["position"]) for each in content["lengths"]] == [6, 12, 24]
    assert content["lengths"][0]["position"] == content["lengths"][2]["position"][:6]
    assert content["stream"]["length"] == 300
    assert content["stream"]["positions"] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert json.loads((path / "run.json").read_text())["about"]["parameters"] == 3 * 5 * (7 + 5 + 2) + 6 * 6
    assert len((path / "timing.jsonl").read_text().splitlines()) == 6
    for words in ("GRU, 5 units", "300 streamed", f"{content['stream']['token']:.4f}"):
        assert words in out
    assert run(f"report {path}") == 0
    assert (path / "report.html").is_file()


def test_an_expression_run_prints_its_controls(tmp_path, capsys):
    path = tmp_path / "run"
    assert run(f"train recurrent/list-ops {typed(LISTS)} --threads 1 --out {path}") == 0
    out = capsys.readouterr().out
    content = json.loads((path / "evaluation.json").read_text())
    assert content["task"] == {"depth": 10, "arguments": 10, "shortest": 4, "longest": 20}
    for part in ("validation", "test"):
        scores = content["expressions"][part]
        assert scores["expressions"] == sum(scores["values"]) == 30
        assert f"{scores['first_operator']:.3f}" in out
    assert content["expressions"]["validation"]["values"] != content["expressions"]["test"]["values"]
    assert run(f"report {path}") == 0


# The examinations, on models that are known by heart.


class Knowing(nn.Module):
    """Tracks S3 without an error, but for one wrong answer at given positions of every word."""

    def __init__(self, task: WordProblem, wrong: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.task, self.wrong, self.weight = task, wrong, nn.Parameter(torch.zeros(()))

    def forward(self, tokens, state=None):
        position, product = (0, None) if state is None else state
        answers = []
        for column in tokens.unbind(1):
            if position == 0:
                product = torch.zeros(len(column), dtype=torch.long)
            else:
                table = torch.tensor(self.task.group.table.tolist())
                product = table[product, torch.tensor(self.task.letters)[column]]
            answers.append((product + (position in self.wrong)) % 6)
            position += 1
        return nn.functional.one_hot(torch.stack(answers, dim=1), 6).float() + 0 * self.weight, (position, product)


def test_a_model_that_errs_at_known_positions_has_the_known_accuracies():
    task = WordProblem(symmetric(3), 8, alphabet="all", seed=2)
    examined = StateExamination(task, words=30, stream_length=600, stream_words=5)
    content = examined.evaluate(Knowing(task), 0)
    assert all(each["token"] == each["joint"] == 1 for each in (*content["lengths"], content["stream"]))
    assert content["stream"]["accuracy"] == content["stream"]["unbroken"] == [1.0] * 11
    content = examined.evaluate(Knowing(task, wrong=(10, 300, 301, 600)), 0)
    first, second, third = content["lengths"]
    assert (first["token"], second["token"], third["token"]) == (1.0, 15 / 16, 31 / 32)
    assert (second["joint"], second["last"]) == (0, 1)
    assert second["position"] == [*[1.0] * 9, 0.0, *[1.0] * 6]
    stream = content["stream"]
    assert stream["token"] == pytest.approx(596 / 600)
    assert (stream["joint"], stream["last"], stream["last_interval"][0]) == (0, 0, 0)
    assert stream["accuracy"] == pytest.approx([*[1.0] * 4, 7 / 8, *[1.0] * 4, 254 / 256, 87 / 88])
    assert stream["unbroken"] == [*[1.0] * 4, *[0.0] * 7]


def test_answers_beyond_the_elements_are_wrong_and_logits_that_are_not_finite_are_refused():
    task = WordProblem(symmetric(3), 4, alphabet="all")
    examined = StateExamination(task, words=8, stream_length=30, stream_words=2)

    class Beyond(nn.Module):
        def __init__(self, fill):
            super().__init__()
            self.fill = nn.Parameter(torch.tensor(fill))

        def forward(self, tokens, state=None):
            return nn.functional.one_hot(torch.full_like(tokens, 6), 7) * self.fill, torch.zeros(len(tokens))

    content = examined.evaluate(Beyond(1.0), 3)
    assert content["stream"]["token"] == content["lengths"][2]["token"] == 0
    with pytest.raises(NonFiniteLogitsError, match="update 3 left a model whose logits are not finite"):
        examined.evaluate(Beyond(float("nan")), 3)


def test_the_mean_pass_averages_over_an_expression_without_its_padding():
    class Counting(nn.Module):
        def forward(self, tokens):
            return torch.stack([tokens.double(), tokens.double() ** 2], dim=-1), None

    tokens = torch.tensor([[10, 1, 2, 14, PAD, PAD], [11, 0, 9, 3, 3, 14]])
    logits = MeanPass().forward(Counting(), tokens, 0, slice(0, 2))
    for row, words in ((0, [10, 1, 2, 14]), (1, [11, 0, 9, 3, 3, 14])):
        expected = torch.tensor([sum(words), sum(each**2 for each in words)]).double() / len(words)
        assert torch.allclose(logits[row], expected.expand(6, 2))


def test_the_controls_are_the_best_fixed_answers():
    tokens = torch.tensor([[MIN], [MIN], [MIN], [MAX], [MAX], [SUM_MOD]])
    truth = torch.tensor([0, 0, 1, 9, 9, 4])
    found = summary(tokens, truth, torch.tensor([0, 0, 0, 9, 1, 4]))
    assert found["accuracy"] == pytest.approx(4 / 6)
    assert found["balanced"] == pytest.approx((1 + 0 + 1 / 2 + 1) / 4)
    assert found["commonest"] == pytest.approx(2 / 6)
    assert found["first_operator"] == pytest.approx(5 / 6)
    assert found["by_operator"]["min"] == {"expressions": 3, "right": 2}
    assert found["by_operator"]["median"] == {"expressions": 0, "right": 0}
    assert found["values"] == [2, 1, 0, 0, 1, 0, 0, 0, 0, 2]


def test_a_model_that_knows_the_values_has_every_expression_right():
    task = ListOps(depth=3, arguments=4, shortest=4, longest=20)

    class Evaluating(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(()))

        def forward(self, tokens):
            answers = torch.tensor([task.value(each) for each in tokens])
            return nn.functional.one_hot(answers, 10)[:, None].expand(-1, tokens.shape[1], -1) + self.weight, None

    content = ListOpsExamination(task, WholePass(), 120).evaluate(Evaluating(), 0)
    assert content["expressions"]["validation"]["accuracy"] == content["expressions"]["test"]["balanced"] == 1


def test_the_readings_take_what_the_examinations_give(tmp_path):
    lengths = [{"token": 0.9, "last": 0.8, "joint": 0.7, "words": 5}] * 3
    stream = {"token": 0.6, "last": 0.5, "joint": 0.4, "words": 2}
    scores = {"accuracy": 0.3, "balanced": 0.2, "first_operator": 0.1, "expressions": 7}
    content = {"lengths": lengths, "stream": stream, "expressions": {"validation": scores, "test": scores}}
    (tmp_path / "evaluation.json").write_text(json.dumps(content))
    *_, last = AccuracyByLength().cells(tmp_path)
    assert last.values == {"accuracy": 0.6, "last": 0.5, "joint": 0.4}
    assert last.counts["joint"] == 2
    assert AccuracyByLength().merit(tmp_path) == pytest.approx(0.9)
    assert ListOpsAccuracy().merit(tmp_path) == 0.3
    assert ListOpsAccuracy().cells(tmp_path)[1].values["first operator"] == 0.1


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("recurrent/s3 --group Q3X", "Q3X"),
        ("recurrent/s3 --length 0", "length must be at least 1, got 0"),
        ("recurrent/s3 --words 0", "words must be at least 1, got 0"),
        ("recurrent/s3 --stream-length 0", "stream_length must be at least 1, got 0"),
        ("recurrent/s3 --model rotrnn --width 10", "must be a positive multiple of 2 * heads = 8, got 10"),
        ("recurrent/s3 --model elman", "elman"),
        ("recurrent/list-ops --longest 20", "longest must be at least shortest = 32, got 20"),
        ("recurrent/list-ops --expressions 0", "expressions must be at least 1, got 0"),
        ("recurrent/tiny-shakespeare --model gru --width 0", "hidden must be at least 1, got 0"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(command, words, tmp_path, capsys):
    assert run(f"train {command} --out {tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", TINY)
def test_help_shows_every_argument(name, capsys):
    assert run(f"train {name} --help") == 0
    out = capsys.readouterr().out
    for argument in EXPERIMENTS[name].arguments():
        assert f"--{argument.replace('_', '-')}" in out

"""``torsor track``: a run's model and a user's own on the command line, what is written, and what is refused."""

import csv
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tiny_training import Echo
from torsor.bench.jobs import streaming_tracking
from torsor.cli import main
from torsor.cli.bench_content import print_case
from torsor.cli.patience import PATIENCE
from torsor.cli.work_left import WorkLeft, shown_work
from torsor.experiments import examined_run
from torsor.experiments.run import load
from torsor.groups import named
from torsor.models import LSTM, Transformer
from torsor.tasks import WordProblem
from torsor.tracking import HeldOutPairs, Suite, choose_pairs, evaluate, evaluate_depths
from torsor.tracking.tracked import Portion

MODELS = '''
"""Models of a user."""
import torch
from torch import nn
from torsor.groups import named
from torsor.models import LSTM
from torsor.tasks import WordProblem
from torsor.tracking import Chunked

task = WordProblem(named("S3"), 4, "all")
number = 3
made = nn.Linear(2, 6)

def needy(width):
    return made

def right():
    return lambda tokens: nn.functional.one_hot(task.label(tokens).clamp(min=0), 6).float()

def counting():
    return Chunked(LSTM(7, hidden=4, classes=6).eval(), 16)

def narrow():
    return nn.Sequential(nn.Embedding(5, 8), nn.Linear(8, 6))

def few():
    return lambda tokens: torch.zeros(*tokens.shape, 5)

def endless():
    return lambda tokens: torch.full((*tokens.shape, 6), float("inf"))

def meddling():
    return lambda tokens: torch.zeros(*tokens.fill_(0).shape, 6)

def short():
    places = nn.Embedding(6, 6)
    return lambda tokens: places(torch.arange(tokens.shape[1])).expand(len(tokens), -1, -1)

def mismatched():
    weight = torch.zeros(9, 6)
    return lambda tokens: nn.functional.one_hot(tokens, 7).float() @ weight

def nothing():
    return None

def failing():
    raise KeyError("mine")
'''


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def models(tmp_path, monkeypatch):
    """A folder with a module of models, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "users_models", raising=False)
    (tmp_path / "users_models.py").write_text(MODELS)
    (tmp_path / "broken_models.py").write_text("def model(:\n")
    return tmp_path


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    torch.set_default_dtype(torch.float32)
    path = tmp_path_factory.mktemp("runs") / "tiny"
    sizes = "--width 8 --heads 2 --length 4 --smallest-steps 1 --largest-steps 2 --updates 2 --batch 4 --words 20"
    assert run(f"train rotate-the-loop/s3 {sizes} --out {path} --threads 1") == 0
    return path


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


# Runs.


def test_a_looped_run_is_examined_at_the_depths_of_its_own_evaluation(trained, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(f"track {trained} --words 30 --lengths 4,8 --out {out} --threads 1") == 0
    text = capsys.readouterr().out
    content = json.loads((out / "tracking.json").read_text())
    study = load(trained)
    expected = evaluate_depths(study.model, Suite(study.task, words=30, at_lengths=(4, 8)), (1, 2, 3))
    assert [each["steps"] for each in content["readings"]] == list(expected)
    for reading in content["readings"]:
        found = [entry["scores"]["joint"] for entry in reading["lengths"]]
        assert found == [entry.scores.joint.value for entry in expected[reading["steps"]].lengths]
    assert content["trained_steps"] == 2
    assert content["means"]["of"] == "state"
    assert content["stream"] is None
    assert content["task"]["group"] == "S3"
    assert content["task"]["train_length"] == 4
    for words in ("2*", "95 %", "frontier .75", "order-blind", "chance", "abelian control", "no stage", "d_H", "exact"):
        assert words in text
    assert "[g in H - e]" in text  # brackets are no markup


def test_the_tables_hold_the_numbers_of_the_json(trained, tmp_path):
    assert run(f"track {trained} --words 30 --lengths 4,100 --out {tmp_path} --threads 1") == 0
    content = json.loads((tmp_path / "tracking.json").read_text())
    with (tmp_path / "tracking.csv").open() as file:
        rows = list(csv.DictReader(file))
    with (tmp_path / "tracking-positions.csv").open() as file:
        points = list(csv.DictReader(file))
    entries = [(each["steps"], entry) for each in content["readings"] for entry in each["lengths"]]
    assert len(rows) == len(entries) == 6
    for row, (steps, entry) in zip(rows, entries, strict=True):
        assert (int(row["steps"]), int(row["length"])) == (steps, entry["length"])
        assert float(row["joint"]) == entry["scores"]["joint"]
        assert [float(row["joint_low"]), float(row["joint_high"])] == entry["scores"]["joint_interval"]
        assert [int(row[f"frontier_{at}"]) for at in ("0.75", "0.90", "0.99")] == [
            each["value"] for each in entry["frontiers"]
        ]
        assert float(row["order_blind"]) == entry["ceiling"]["value"]
        mine = [each for each in points if (int(each["steps"]), int(each["length"])) == (steps, entry["length"])]
        assert [int(each["position"]) for each in mine] == entry["positions"]
        assert [float(each["unbroken"]) for each in mine] == entry["scores"]["curve"]
        assert [float(each["right"]) for each in mine] == entry["scores"]["position"]


def test_a_run_s_files_go_to_its_own_folder_and_the_report_shows_them(trained, tmp_path, capsys):
    folder = tmp_path / "run"
    subprocess.run(["cp", "-r", trained, folder], check=True)
    assert run(f"track {folder} --words 20 --lengths 4 --threads 1 --seed 5") == 0
    assert "torsor report" in capsys.readouterr().out
    assert json.loads((folder / "tracking.json").read_text())["task"]["seed"] == 5
    first = {each.name: each.read_bytes() for each in folder.glob("tracking*")}
    assert run(f"track {folder} --words 20 --lengths 4 --threads 1 --seed 5") == 0
    assert first == {each.name: each.read_bytes() for each in folder.glob("tracking*")}
    assert len(first) == 3
    assert run(f"report {folder}") == 0
    assert "State tracking" in (folder / "report.html").read_text()


def test_a_file_that_cannot_be_written_is_one_line_and_leaves_the_earlier_one(trained, tmp_path, capsys):
    (tmp_path / "tracking.csv").mkdir()
    earlier = '{"format": 1, "readings": []}'
    (tmp_path / "tracking.json").write_text(earlier)
    assert run(f"track {trained} --words 20 --lengths 4 --out {tmp_path} --threads 1") == 2
    error = capsys.readouterr().err
    assert f"cannot write to {tmp_path}" in error
    assert error.count("\n") == 1
    assert (tmp_path / "tracking.json").read_text() == earlier


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tracking.json", '{"parcel": 7}'),
        ("tracking.json", "mine"),
        ("tracking.csv", "date,parcel\n"),
        ("tracking-positions.csv", "x,y\n"),
    ],
)
def test_a_file_of_somebody_else_s_is_never_written_over(name, content, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("torsor.tracking.tracked.track", lambda *_, **__: pytest.fail("it was worked on before"))
    (tmp_path / name).write_text(content)
    assert run(f"track {trained} --words 20 --lengths 4 --out {tmp_path} --threads 1") == 2
    said = capsys.readouterr().err
    assert f"{tmp_path / name} is another file: name another folder, or move it away" in said
    assert said.count("\n") == 1
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [(name, content)]


def test_what_a_track_left_that_was_cut_off_is_written_anew(trained, tmp_path, capsys):
    command = f"track {trained} --words 20 --lengths 4 --out {tmp_path} --threads 1"
    assert run(command) == 0
    whole = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert run(command) == 0
    assert whole == {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    capsys.readouterr()


def test_a_run_with_a_state_is_read_on_and_one_with_held_out_pairs_is_examined_with_them(trained, monkeypatch, capsys):
    task = WordProblem(named("S3"), 6, "all")
    pairs = HeldOutPairs(task, choose_pairs(task, 0.1))
    model = LSTM(7, hidden=4, classes=6)
    study = replace(load(trained), model=model, task=pairs, label="mine [x]", transition=None)
    monkeypatch.setattr(examined_run, "load", lambda path: study)
    assert run(f"track {trained} --words 25 --lengths 6 --stream 40 --json --threads 1 --out {trained}-out") == 0
    found = json.loads(capsys.readouterr().out)
    expected = evaluate(model, Suite(task, words=25, held_out=pairs, at_lengths=(6,))).lengths[0]
    (entry,) = found["readings"][0]["lengths"]
    assert entry["forced"]["joint"] == expected.forced.joint.value
    assert entry["familiar"]["token"] == expected.familiar.token
    assert found["task"]["held_out"] == [list(pair) for pair in pairs.pairs]
    assert (found["stream"]["length"], found["stream"]["words"]) == (40, 25)
    assert found["means"]["of"] == "state"
    assert found["closure"]["verdict"] == "refuted"
    assert found["model"] == "mine [x], seed 0"
    assert run(f"track {trained} --words 25 --lengths 6 --stream 0 --threads 1 --out {trained}-out") == 0
    text = capsys.readouterr().out
    assert "without pairs" in text
    assert "mine [x], seed 0: S3" in text
    assert "read on:" not in text
    reseeded = examined_run.examined_run(trained, seed=9)
    assert (reseeded.task.seed, reseeded.held_out.task.seed, reseeded.held_out.pairs) == (9, 9, pairs.pairs)
    study = replace(study, model=Transformer(7, 8, 1, 2))
    attending = examined_run.examined_run(trained)
    assert attending.subject.read_on is None
    assert attending.stream(25, None) is None
    growing = replace(attending, subject=replace(attending.subject, read_on=model.step, grows=True))
    assert growing.stream(25, None) is None  # a million letters are not asked of it by itself
    assert growing.stream(25, 40).length == 40


def test_a_run_of_another_task_is_refused_in_one_line(trained, monkeypatch, capsys):
    study = replace(load(trained), task=Echo(), label="characters")
    monkeypatch.setattr(examined_run, "load", lambda path: study)
    assert run(f"track {trained}") == 2
    assert "must hold a model of a word problem, it holds one of characters" in capsys.readouterr().err


# A user's own model.


def test_a_model_of_a_user_is_examined_and_its_folder_is_a_page(models, capsys):
    command = "track --model users_models:right --group S3 --alphabet all --words 20 --lengths 4 8 --threads 1"
    assert run(f"{command} --out found") == 0
    text = capsys.readouterr().out
    assert "users_models:right: S3, order 6, 6 letters (all), trained at length 4, 20 words of each length" in text
    assert "no stage: no errors" in text
    content = json.loads((models / "found" / "tracking.json").read_text())
    assert [entry["scores"]["joint"] for entry in content["readings"][0]["lengths"]] == [1.0, 1.0]
    assert run("report found") == 0
    page = (models / "found" / "report.html").read_text()
    assert "examined and not trained here" in page
    assert "Tracking of S3 from all its elements" in page


def test_what_is_kept_in_no_file_is_said_with_the_option_that_keeps_it(models, capsys):
    before = sorted(each.name for each in models.iterdir() if each.name != "__pycache__")
    command = "track --model users_models:right --group S3 --alphabet all --words 20 --lengths 4 --threads 1"
    said = "\nno file was written; --out FOLDER keeps this, and torsor report FOLDER makes a page of it\n"
    assert run(command) == 0
    assert capsys.readouterr().out.endswith(said)
    assert sorted(each.name for each in models.iterdir() if each.name != "__pycache__") == before
    assert run(f"{command} --out kept") == 0
    assert said not in capsys.readouterr().out
    assert run(f"{command} --json") == 0
    assert json.loads(capsys.readouterr().out)


def test_a_chunked_model_of_a_user_is_read_on(models, capsys):
    command = "track --model users_models:counting --group S3 --alphabet all --words 20 --lengths 4 --threads 1"
    assert run(f"{command} --stream 64") == 0
    text = capsys.readouterr().out
    assert "read on: 0 of 20 words without an error in 64 tokens" in text
    assert not list(models.glob("tracking*"))


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (GPT2Config(vocab_size=7, n_embd=8, n_layer=1, n_head=2, n_positions=16), GPT2LMHeadModel),
        (
            LlamaConfig(vocab_size=7, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2),
            LlamaForCausalLM,
        ),
    ],
    ids=["GPT-2", "Llama"],
)
def test_a_model_of_hugging_face_is_examined_through_one_line(config, kind):
    model = kind(config).eval()
    task = WordProblem(named("S3"), 8, "all")
    found = evaluate(lambda tokens: model(input_ids=tokens).logits, Suite(task, (1,), 20)).lengths[0]
    batch = task.evaluation(20)
    answers = model(batch.tokens).logits.argmax(-1)
    assert found.scores.token == pytest.approx(float((answers == batch.targets)[:, 1:].double().mean()))
    if kind is GPT2LMHeadModel:
        with pytest.raises(ValueError, match="the model must read words of 33 tokens, got index out of range"):
            evaluate(lambda tokens: model(input_ids=tokens).logits, Suite(task, (4,), 20))
    with pytest.raises(ValueError, match=r"the model must read the tokens 0 \.\. 24, 24 letters and the token"):
        evaluate(lambda tokens: model(input_ids=tokens).logits, Suite(WordProblem(named("S4"), 4, "all"), (1,), 20))


OWN = "track --words 4 --lengths 4,8 --threads 1"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("track", "name a run folder, torsor track RUN, or your own model"),
        ("track nowhere", "is no run folder"),
        ("track here --model users_models:right --group S3", "name a run folder"),
        ("track nowhere --group S3", "nowhere names its group and its alphabet"),
        ("track my_models:tracker", "is named so: torsor track --model my_models:tracker --group S5"),
        ("track my_models:tracker --group S3", "is named so: torsor track --model my_models:tracker --group S3"),
        (f"{OWN} --model users_models:right", "name the group of your model: --group S5"),
        (f"{OWN} --model users_models:right --group M11", "nearest"),
        (f"{OWN} --model users_models --group S3", "must be written pkg.module:factory, got 'users_models'"),
        (f"{OWN} --model os.system('ls'):x --group S3", "must be written pkg.module:factory"),
        (f"{OWN} --model no_such_module:right --group S3", "the module no_such_module cannot be imported: No module"),
        (f"{OWN} --model broken_models:model --group S3", "the module broken_models is not Python"),
        (f"{OWN} --model users_models:rigth --group S3", "has no 'rigth'; did you mean 'right'?"),
        (
            f"{OWN} --model users_models:number --group S3",
            "a function without arguments that returns the model, got an int",
        ),
        (f"{OWN} --model users_models:made --group S3", "without arguments that returns the model, got a Linear"),
        (f"{OWN} --model users_models:needy --group S3", "needs no arguments: missing a required argument: 'width'"),
        (f"{OWN} --model users_models:nothing --group S3", "must give a callable tokens -> logits"),
        (f"{OWN} --model users_models:narrow --group S3 --alphabet all", "must read the tokens 0 .. 6, 6 letters and"),
        (
            f"{OWN} --model users_models:narrow --group A5",
            "must tell the 60 elements of the group apart, got 6 outputs",
        ),
        (f"{OWN} --model users_models:few --group S3", "must tell the 6 elements of the group apart, got 5 outputs"),
        (f"{OWN} --model users_models:endless --group S3", "logits must be finite, got 120 of 120"),
        (f"{OWN} --model users_models:meddling --group S3", "must not change its input"),
        (f"{OWN} --model users_models:short --group S3", "must read words of 9 tokens, got index out of range"),
        (f"{OWN} --model users_models:mismatched --group S3", "must read the tokens 0 .. 2"),
        (f"{OWN} --model users_models:right --group S3 --stream 5", "must have a state to be streamed"),
        (f"{OWN} --model users_models:counting --group S3 --stream -5", "stream must be a number of letters"),
        (f"{OWN} --model users_models:right --group S3 --lengths 4,3", "lengths must ascend from at least 1"),
        (f"{OWN} --model users_models:right --group S3 --lengths 1.5", "unable to convert '1.5' into a whole number"),
        ("track --model users_models:right --group S3 --words 1", "words must be an integer of at least 2, got 1"),
        (f"{OWN} --model users_models:right --group S3 --seed -1", "seed must be an integer in 0 .. 2**64 - 1"),
        (f"{OWN} --model users_models:right --group S3 --alphabet some", "some"),
        (f"{OWN} --model users_models:right --group S3 --device gpu", "device must be auto, cpu"),
        ("track --model users_models:right --group S3 --words 100000000000", "must be at most"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(command, words, models, capsys):
    before = sorted(each.name for each in models.iterdir())
    assert run(f"{command} --out found" if "--out" not in command else command) == 2
    error = capsys.readouterr().err
    assert words in error, error
    assert error.count("\n") == 1
    assert sorted(each.name for each in models.iterdir() if each.name != "__pycache__") == before


def test_what_a_user_s_own_code_raises_keeps_its_traceback(models):
    with pytest.raises(KeyError, match="mine"):
        main(f"{OWN} --model users_models:failing --group S3".split())


def test_help_answers_without_torch():
    script = (
        "import sys; from torsor.cli import main\n"
        "try: main()\nexcept SystemExit as ending: sys.exit(ending.code or ('torch' in sys.modules) * 99)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "track", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--lengths" in done.stdout


# The time that is left.


def test_the_time_left_is_right_for_a_cost_that_grows_with_the_length():
    work = WorkLeft([Portion(10, 100), Portion(20, 100), Portion(40, 100)])
    assert (work.left, work.done) == (0.0, 0.0)
    cost = {10: 1 + 10 * 0.5, 20: 1 + 20 * 0.5, 40: 1 + 40 * 0.5}
    work.take(0, 100, 100 * cost[10])
    assert work.left == pytest.approx(200 * cost[10])  # nothing is known of other lengths
    work.take(1, 50, 50 * cost[20])
    assert work.left == pytest.approx(50 * cost[20] + 100 * cost[40])
    work.take(2, 100, 100 * cost[40])  # what was given up before does not count any more
    assert work.left == pytest.approx(0, abs=1e-6)
    assert work.done == pytest.approx(1)
    falling = WorkLeft([Portion(10, 100), Portion(20, 200)])
    falling.take(0, 100, 300.0)
    falling.take(1, 100, 100.0)
    assert falling.left == pytest.approx(100 * 400 / 200)  # never cheaper for longer words


def test_nothing_is_said_for_two_seconds_and_then_a_line_now_and_then(capsys, monkeypatch):
    clock = [0.0]
    for module in ("work_left", "shown_left"):
        monkeypatch.setattr(f"torsor.cli.{module}.monotonic", lambda: clock[0])
    monkeypatch.setattr("torsor.cli.shown_left.PATIENCE", PATIENCE)
    with shown_work([Portion(10, 100)], "it") as watch:
        for tick in range(40):
            clock[0] = tick / 2
            watch(0, 0)
            clock[0] += 0.5
            watch(0, 2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["it  8 tokens  8 %  23 s left", "it  68 tokens  68 %  8 s left"]


def test_the_bench_of_streaming_reads_every_word_to_its_end(capsys):
    assert run("bench streaming --quick --words 3 --length 20 --group S3 --threads 1 --json") == 0
    content = json.loads(capsys.readouterr().out)["cases"]["streaming"]
    assert [row["case"] for row in content["rows"]][:2] == ["LSTM", "GRU"]
    job = streaming_tracking(3, 20, group="S3")
    for row in content["rows"]:
        assert row["cpu_minutes"] == pytest.approx(row["cpu_seconds"] * 100 * 2**20 / 60)
        assert row["minutes"] == pytest.approx(100 * 2**20 / row["per_second"] / 60)
        assert row["moved_bytes"] == job.moved
    print_case("streaming", content)
    assert "100 words of 1,048,576" in capsys.readouterr().out

"""The command line: what it prints, what it refuses in one line, and what it leaves behind."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from refusal import refused
from torsor.cli import main
from torsor.experiments.run import glances, load
from torsor.experiments.sampled_depth import SampledDepth

TINY = (
    "--width 8 --heads 2 --length 4 --smallest-steps 1 --largest-steps 2 --updates 12 --batch 4 --words 20 --warmup 2"
)
S3 = "train rotate-the-loop/s3"

ANSWER_WITHOUT_TORCH = """
import sys
from torsor.cli import main
try:
    main()
except SystemExit as ending:
    sys.exit(ending.code or ("torch" in sys.modules) * 99)
"""

HOLD_THE_LOCK = """
import sys, time
from pathlib import Path
from torsor.training.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    torch.set_default_dtype(torch.float32)
    path = tmp_path_factory.mktemp("runs") / "tiny"
    assert run(f"{S3} {TINY} --out {path} --checkpoint-every 5 --threads 1") == 0
    return path


@pytest.mark.parametrize(
    "command", ["--help", "train --help", "export --help", "train rotate-the-loop/a5 --help", "list", "--version"]
)
def test_help_and_list_answer_without_torch(command):
    done = subprocess.run(
        [sys.executable, "-c", ANSWER_WITHOUT_TORCH, *command.split()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_help_shows_the_experiment_s_own_arguments(capsys):
    assert run("train rotate-the-loop/a5 --help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--width" in text
    assert "[default: A5]" in text
    assert "--checkpoint-every" in text


def test_a_run_leaves_the_files_of_the_contract(trained):
    described = json.loads((trained / "run.json").read_text())
    assert described["experiment"] == "rotate-the-loop/s3"
    assert described["arguments"]["width"] == 8
    assert described["status"] == "finished"
    assert described["about"]["label"] == "conformal, 2 groups"
    metrics = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [each["update"] for each in metrics] == list(range(1, 13))
    assert not any("seconds" in each or "tokens_per_second" in each for each in metrics)
    assert len((trained / "timing.jsonl").read_text().splitlines()) == 12
    assert {each.suffix for each in (trained / "checkpoint").iterdir()} == {".safetensors", ".json"}
    evaluation = json.loads((trained / "evaluation.json").read_text())
    assert [each["steps"] for each in evaluation["depths"]] == [1, 2, 3]
    geometry = json.loads((trained / "geometry.json").read_text())
    assert geometry["readability"]["own"] < 1e-12
    assert geometry["toeplitz"]["own"]["mean"] < 1e-13


def test_the_same_command_on_a_finished_run_changes_nothing(trained, capsys):
    before = {each: each.read_bytes() for each in trained.rglob("*") if each.is_file()}
    assert run(f"{S3} {TINY} --out {trained}") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"finished earlier: {trained}, 12 updates; nothing was trained now\n")
    assert "conformal, 2 groups, seed 0" in said
    assert run(f"{S3} {TINY} --out {trained} --json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["run"] == str(trained)
    assert said.err.startswith("finished earlier: ")
    assert before == {each: each.read_bytes() for each in trained.rglob("*") if each.is_file()}


def test_another_number_of_threads_than_a_run_began_with_is_told(tmp_path, monkeypatch, capsys):
    path = tmp_path / "run"

    def interrupted(self, model, tokens, update, rows):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SampledDepth, "forward", interrupted)
        assert run(f"{S3} {TINY} --out {path} --threads 1") == 130
        capsys.readouterr()
        assert run(f"{S3} {TINY} --out {path} --threads 1") == 130
        assert "began with" not in capsys.readouterr().err
    said = f"torsor: {path} began with --threads 1, not 2: from here on last bits may differ\n"
    assert run(f"{S3} {TINY} --out {path} --threads 2") == 0
    assert said in capsys.readouterr().err
    assert run(f"{S3} {TINY} --out {path} --threads 2") == 0  # it is finished: nothing differs any more
    assert "began with" not in capsys.readouterr().err


def test_the_scores_of_a_finished_run_that_were_deleted_are_made_again_to_the_last_byte(trained, tmp_path, capsys):
    folder = _copy(trained, tmp_path / "run")
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    (folder / "evaluation.json").unlink()
    assert run(f"{S3} {TINY} --out {folder}") == 0
    assert "nothing was trained now; its model was examined again\n" in capsys.readouterr().out
    assert before == {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def test_measure_prints_defects_over_both_scopes_and_their_formulas(trained, capsys):
    assert run(f"measure {trained}") == 0
    out = capsys.readouterr().out
    for words in ("own blocks", "whole vector", "readability", "Toeplitz", "|M'M - c^2 I|_F", "untrained"):
        assert words in out
    assert run(f"measure {trained} --json") == 0
    assert json.loads(capsys.readouterr().out)["toeplitz"]["probes"] == 256


def test_a_trained_run_comes_back_with_its_weights(trained):
    study = load(str(trained))
    stored = load_file(trained / "checkpoint" / "model.safetensors")
    assert all(torch.equal(stored[name], value) for name, value in study.model.state_dict().items())
    scores = json.loads((trained / "evaluation.json").read_text())["depths"]
    assert [each["joint"] for each in study.examination.evaluate(study.model, 12)["depths"]] == [
        each["joint"] for each in scores
    ]


def test_report_writes_one_page(trained, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert run(f"report {trained} --out {page}") == 0
    assert str(page) in capsys.readouterr().out
    assert "conformal, 2 groups" in page.read_text()


def test_a_report_of_a_truncated_log_is_written_and_says_so_on_stderr(trained, tmp_path, capsys):
    folder = _copy(trained, tmp_path / "run")
    log = folder / "metrics.jsonl"
    log.write_bytes(log.read_bytes()[:-10])
    assert run(f"report {folder}") == 0
    captured = capsys.readouterr()
    assert captured.err == f"torsor: {folder}: metrics.jsonl is truncated: it ends at update 11 of 12\n"
    assert "truncated: it ends at update 11 of 12" in (folder / "report.html").read_text()


def test_doctor_finds_a_working_installation(capsys):
    assert run("doctor") == 0
    assert "the fast form equals its matrix" in capsys.readouterr().out


def test_demo_ends_with_both_tables_and_the_report(tmp_path, monkeypatch, capsys):
    from torsor.cli import demo

    monkeypatch.setattr(demo, "EXPERIMENT", "rotate-the-loop/s3")
    assert run(f"demo --updates 3 --seeds 1 --threads 1 --out {tmp_path}") == 0
    out = capsys.readouterr().out
    for words in ("diagonal, seed 0", "conformal, 2 groups, seed 0", "8*", "12", "readability", "report.html"):
        assert words in out
    assert (tmp_path / "report.html").is_file()
    assert run(f"demo --updates 3 --seeds 1 --threads 1 --out {tmp_path} --json") == 0
    runs = [f"{tmp_path}/{name}" for name in ("diagonal-0", "conformal-0")]
    told = json.loads(capsys.readouterr().out)
    assert told == {"runs": runs, "report": f"{tmp_path}/report.html", "replaced": True}
    (tmp_path / "report.html").write_text("mine")
    assert run(f"demo --updates 3 --seeds 1 --threads 1 --out {tmp_path / 'other'}") == 0
    assert "(replaced)" not in capsys.readouterr().out
    assert run(f"demo --updates 3 --seeds 2 --threads 1 --out {tmp_path}") == 2
    assert "page that torsor wrote" in capsys.readouterr().err
    assert not (tmp_path / "diagonal-1").exists()  # nothing was trained before it was refused
    assert (tmp_path / "report.html").read_text() == "mine"


def test_a_report_of_many_runs_says_how_many_are_read_and_nothing_of_it_to_a_pipe_s_stdout(
    trained, tmp_path, monkeypatch, capsys
):
    for name in ("PATIENCE", "LINE_EVERY"):
        monkeypatch.setattr(f"torsor.cli.shown_left.{name}", 0.0)
    runs = [_copy(trained, tmp_path / name) for name in "abcd"]
    assert run(f"report {' '.join(map(str, runs))} --out {tmp_path / 'page.html'}") == 0
    captured = capsys.readouterr()
    shares = [line.split()[2] for line in captured.err.splitlines() if line.startswith("reading runs  ")]
    assert shares == ["25", "50", "75", "100"]
    assert captured.out == f"report: {tmp_path / 'page.html'}\n"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("trian", 'Did you mean "train"'),
        ("train", "name an experiment"),
        ("train rotate-the-loop/s4", "did you mean 'rotate-the-loop/s5'?"),
        (f"{S3} --widht 8", "Did you mean --width?"),
        (f"{S3} --width eight", "Invalid value for --width: unable to convert 'eight' into a whole number"),
        (f"{S3} --updates 1.5", "unable to convert '1.5' into a whole number"),
        (f"{S3} --batch 1000000000000", "batch must be at most"),
        (f"{S3} --words 100000000000000", "words must be at most"),
        (f"{S3} --largest-steps 9223372036854775807", "1 <= low <= high <= 1000000"),
        (f"{S3} --threads 99999999999999999999", "threads must be at most 1024"),
        (f"{S3} --clip inf", "clip"),
        (f"{S3} --transition diagnoal", "diagnoal"),
        (f"{S3} --width 7", "dim, the width, must be a positive multiple of 2 * groups = 4, got 7"),
        (f"{S3} --width 0", "dim, the width, must be a positive multiple of 2 * groups = 4, got 0"),
        (f"{S3} --width 64 --groups 3", "2 * groups = 6, got 64"),
        (f"{S3} --width 64 --groups 0", "2 * groups = 0, got 64"),
        (f"{S3} --width 12 --heads 4", "width must be a positive multiple of 2 * heads = 8, got 12"),
        (f"{S3} --smallest-steps 0", "1 <= low <= high <= 1000000, got low = 0"),
        (f"{S3} --largest-steps 3", "1 <= low <= high <= 1000000, got low = 6, high = 3"),
        (f"{S3} --length 0", "length must be at least 1, got 0"),
        (f"{S3} --group C1", "at least two elements"),
        (f"{S3} --group S9", "symmetric"),
        (f"{S3} --group M11", "nearest"),
        (f"{S3} --updates 0", "updates must be at least 1, got 0"),
        (f"{S3} --batch 0", "batch must be at least 1, got 0"),
        (f"{S3} --learning-rate 0", "learning_rate must be positive and finite, got 0.0"),
        (f"{S3} --learning-rate nan", "learning_rate must be positive and finite, got nan"),
        (f"{S3} --grad-steps 0", "grad_steps must be at least 1"),
        (f"{S3} --core-layers 0", "layers of the core must be at least 1, got 0"),
        (f"{S3} --checkpoint-every 0", "checkpoint_every must be at least 1, got 0"),
        (f"{S3} --threads 0", "threads must be at least 1, got 0"),
        (f"{S3} --words 0", "words must be at least 1, got 0"),
        (f"{S3} --seed -1", "seed must be an integer in 0 .. 2**64 - 1, got -1"),
        ("measure nowhere", "is no run folder"),
        ("report nowhere --threads 2", "Unknown option: --threads. torsor report --help names the options that it has"),
        ("report nowhere", "nowhere"),
        ("report", "name at least one run folder"),
        ("demo --seeds 0", "seeds must be at least 1, got 0"),
        ("demo --seeds 1.5", "unable to convert '1.5' into a whole number"),
    ],
)
def test_a_mistake_is_one_line_with_the_right_value_and_leaves_nothing(command, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(command) == 2
    caught = capsys.readouterr()
    assert words in caught.err
    assert caught.err.count("\n") == 1
    assert not any(tmp_path.iterdir())


def _copy(source: Path, target: Path) -> Path:
    subprocess.run(["cp", "-r", source, target], check=True)
    return target


def _damage(name: str, change):
    def apply(folder: Path) -> None:
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return apply


def _altered(folder: Path) -> None:
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(content | {"arguments": [1]}))


def _newer(folder: Path) -> None:
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(content | {"format": content["format"] + 1}))


@pytest.mark.parametrize(
    ("damage", "command", "words"),
    [
        (lambda _: None, "train rotate-the-loop/a5 --out {run}", "holds the experiment rotate-the-loop/s3"),
        (lambda _: None, f"{S3} {TINY} --seed 1 --out {{run}}", "seed=0, not 1"),
        (lambda _: None, f"{S3} {TINY} --groups 1 --out {{run}}", "groups=2, not 1"),
        (_newer, f"{S3} {TINY} --out {{run}}", "newer"),
        (_newer, "measure {run}", "newer"),
        (_damage("checkpoint/model.safetensors", lambda b: b[:-7]), f"{S3} {TINY} --out {{run}}", "model.safetensors"),
        (
            _damage("checkpoint/model.safetensors", lambda b: b[:-1] + bytes([b[-1] ^ 1])),
            "measure {run}",
            "model.safetensors",
        ),
        (
            _damage("checkpoint/state.json", lambda b: b.replace(b"12", b"11")),
            f"{S3} {TINY} --out {{run}}",
            "state.json",
        ),
        (_damage("run.json", lambda b: b[:40]), f"{S3} {TINY} --out {{run}}", "run.json"),
        (_altered, f"{S3} {TINY} --out {{run}}", "'arguments' must hold dict"),
        (_altered, "measure {run}", "'arguments' must hold dict"),
        (lambda folder: (folder / "run.json").unlink(), f"{S3} {TINY} --out {{run}}", "run.json"),
        (
            _damage("evaluation.json", lambda b: b[:500]),
            f"{S3} {TINY} --out {{run}}",
            "evaluation.json is not JSON: ",
        ),
        (_damage("evaluation.json", lambda b: b[:500]), f"{S3} {TINY} --out {{run}}", "examines the model again"),
        (_damage("evaluation.json", lambda _: b"[]"), f"{S3} {TINY} --json --out {{run}}", "; delete it, and "),
    ],
)
def test_a_folder_that_cannot_be_used_is_one_line_and_stays_as_it_is(damage, command, words, trained, tmp_path, capsys):
    folder = _copy(trained, tmp_path / "run")
    damage(folder)
    before = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    assert run(command.format(run=folder)) == 2
    caught = capsys.readouterr()
    assert words in caught.err
    assert caught.err.count("\n") == 1
    assert before == {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def _half(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _one_line(capsys) -> str:
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said.strip()


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("checkpoint/model.safetensors", "again"),
        ("checkpoint/state.json", "measure {run}"),
        ("metrics.jsonl", "again"),
        ("run.json", "again"),
        ("run.json", "report {run}"),
    ],
)
def test_the_advice_on_a_file_that_nothing_else_holds_makes_the_same_run_again(
    name, command, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "run"
    again = f"{S3} --width 8 --heads 2 --length 3 --updates 3 --batch 2 --words 4 --threads 1 --out {folder}"
    monkeypatch.setattr(sys, "argv", ["torsor", *again.split()])  # what a run remembers as its command
    assert run(again) == 0
    same = ("metrics.jsonl", "evaluation.json", "geometry.json", "checkpoint/model.safetensors")
    before = [(folder / each).read_bytes() for each in same]
    _damage(name, _half)(folder)
    capsys.readouterr()
    assert run(again if command == "again" else command.format(run=folder)) == 2
    said = _one_line(capsys)
    told = f"; put a copy of it back, or delete {folder} and train it anew with"
    assert told in said
    if name != "run.json":  # which held the command
        assert said.endswith(f"{told}: torsor {again}")
    shutil.rmtree(folder)
    assert run(again) == 0
    assert before == [(folder / each).read_bytes() for each in same]


@pytest.fixture
def moved(tmp_path, monkeypatch, capsys) -> Path:
    """A copy of a run that remembers the command of another folder."""
    folder = tmp_path / "ref"
    command = f"{S3} --width 8 --heads 2 --length 3 --updates 3 --batch 2 --words 4 --threads 1 --out {folder}"
    monkeypatch.setattr(sys, "argv", ["torsor", *command.split()])
    assert run(command) == 0
    capsys.readouterr()
    return _copy(folder, tmp_path / "moved")


@pytest.mark.parametrize(
    ("damage", "command"),
    [
        (lambda folder: (folder / "evaluation.json").unlink(), "measure {run} --verify"),
        (_damage("evaluation.json", lambda _: b"["), "measure {run} --verify"),
        (_damage("checkpoint/model.safetensors", _half), "measure {run}"),
        (_damage("metrics.jsonl", _half), "again"),
    ],
)
def test_the_advice_on_a_run_that_was_copied_names_the_copy(damage, command, moved, capsys):
    original = moved.parent / "ref"
    good = {name: (moved / name).read_bytes() for name in ("evaluation.json", "checkpoint/model.safetensors")}
    stored = json.loads((moved / "run.json").read_text())["about"]["command"].removeprefix("torsor ")
    again = stored.replace(str(original), str(moved))
    damage(moved)
    assert run(again if command == "again" else command.format(run=moved)) == 2
    said = _one_line(capsys)
    assert f"torsor {again}" in said
    assert str(original) not in said
    if "evaluation.json" not in said:
        assert f"delete {moved} and train it anew with" in said
        shutil.rmtree(moved)
    elif "delete it" in said:
        (moved / "evaluation.json").unlink()
    assert run(again) == 0
    assert {name: (moved / name).read_bytes() for name in good} == good


@pytest.mark.parametrize(
    "command", ["measure {run}", "export {run}", "again", "report {run}", "measure {run} --verify"]
)
def test_a_run_without_its_run_file_is_no_stranger(command, moved, capsys):
    stored = json.loads((moved / "run.json").read_text())["about"]["command"].removeprefix("torsor ")
    (moved / "run.json").unlink()
    assert run(stored.replace("/ref", "/moved") if command == "again" else command.format(run=moved)) == 2
    said = _one_line(capsys)
    assert (
        f"{moved} has lost its run.json, which says what the run is: put a copy of it back, or delete {moved}" in said
    )
    assert said.endswith(f"train it anew with the command that made it and --out {moved}")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: (folder / "metrics.jsonl").unlink(), "metrics.jsonl is missing: the checkpoint was written"),
        (_damage("metrics.jsonl", lambda b: b[:-1]), "metrics.jsonl is shorter than it was: the checkpoint was"),
    ],
)
def test_a_run_whose_log_was_lost_or_cut_is_not_verified(damage, said, moved, capsys):
    damage(moved)
    assert run(f"measure {moved} --verify") == 1
    caught = capsys.readouterr()
    assert caught.out.startswith(f"{moved}: {said}")
    assert (caught.out.count("\n"), caught.err.count("\n")) == (1, 1)
    assert "equal" not in caught.out
    assert f"--out {moved}\n" in caught.out


@pytest.mark.parametrize(("line", "said"), [("{", "line 2 is not JSON"), ("7", "line 2 is no JSON object")])
def test_a_log_that_was_altered_is_named_with_its_line_where_its_glances_are_read(line, said, trained, tmp_path):
    folder = _copy(trained, tmp_path / "run")
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert len(glances(folder)) == 12
    (folder / "metrics.jsonl").write_text("\n".join([lines[0], line, *lines[2:]]))
    with refused(
        f"metrics.jsonl was altered: {said}; put a copy of it back, or delete {folder} and train it anew with: "
    ):
        glances(folder)


@pytest.mark.parametrize("name", ["geometry.json", "evaluation.json", "tracking.json"])
def test_the_advice_on_a_file_that_is_made_again_makes_it_again(name, trained, tmp_path, capsys):
    folder = _copy(trained, tmp_path / "run")
    track = f"track {folder} --words 4 --lengths 3 --threads 1"
    assert run(track) == 0
    good = (folder / name).read_bytes()
    _damage(name, _half)(folder)
    capsys.readouterr()
    assert run(f"report {folder}") == 2
    said = _one_line(capsys).rpartition("; ")[2]
    if name == "evaluation.json":
        assert said == f"delete it, and the command that trained the run makes it again, with --out {folder}"
        (folder / name).unlink()
        assert run(f"{S3} {TINY} --out {folder}") == 0
    else:
        command = said.removeprefix("torsor ").removesuffix(" writes it again")
        assert command == f"{'measure' if name == 'geometry.json' else 'track'} {folder}"
        assert run(track if command.startswith("track") else command) == 0
    assert (folder / name).read_bytes() == good
    assert run(f"report {folder}") == 0


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, capsys):
    occupied = tmp_path / "file"
    occupied.write_text("mine")
    assert run(f"{S3} {TINY} --out {occupied}/run") == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert occupied.read_text() == "mine"


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(self, model, tokens, update, rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(SampledDepth, "forward", interrupted)
    assert run(f"{S3} {TINY} --out {tmp_path / 'run'}") == 130
    command = f"torsor {S3} {TINY} --out {tmp_path / 'run'}"
    said = f"torsor: interrupted; it has no checkpoint yet; begin again with: {command}\n"
    assert capsys.readouterr().err == said


def test_sizes_that_no_memory_holds_are_one_line(tmp_path, capsys):
    assert run(f"{S3} --width 100000000 --heads 1 --out {tmp_path / 'run'}") == 1
    assert capsys.readouterr().err == "torsor: not enough memory for these sizes: choose smaller ones\n"
    assert not any(tmp_path.iterdir())


def test_a_page_that_cannot_be_written_is_one_line_and_keeps_the_earlier_one(trained, tmp_path, capsys):
    assert run(f"report {trained} --out {tmp_path}") == 2
    error = capsys.readouterr().err
    assert "cannot write" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [b"", b"mine", b"<!doctype html>\n<title>torsor report: mine</title>", b'{"content": "torsor"}', b"\xff" * 9],
)
@pytest.mark.parametrize("command", ["report {run} --out {page}", "explore {run} --out {page}", "explore --out {page}"])
def test_a_file_that_is_no_page_of_torsor_s_is_never_written_over(
    command, content, trained, tmp_path, monkeypatch, capsys
):
    def works(*_, **__):
        raise AssertionError("it was worked on before it was refused")

    for name in ("torsor.experiments.run.load", "torsor.report.page.read_run", "torsor.report.explorer.described_map"):
        monkeypatch.setattr(name, works)
    page = tmp_path / "page.html"
    page.write_bytes(content)
    assert run(command.format(run=trained, page=page)) == 2
    said = capsys.readouterr()
    line = f"torsor: out must be a new file or a page that torsor wrote, {page} is neither: name another file, or move"
    assert said.err.startswith(line)
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert page.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_a_page_of_torsor_s_is_replaced_and_the_command_says_so(trained, tmp_path, capsys):
    page = tmp_path / "page.html"
    for command, kind in (("report {run} --out {page}", "report"), ("explore --out {page}", "explorer")):
        page.unlink(missing_ok=True)
        for said in (f"{kind}: {page}\n", f"{kind}: {page} (replaced)\n"):
            assert run(command.format(run=trained, page=page)) == 0
            assert capsys.readouterr().out == said
    assert run(f"report {trained} --out {page}") == 0  # the one kind over the other
    assert capsys.readouterr().out == f"report: {page} (replaced)\n"
    page.write_text(
        "<!doctype html>\n<html>\n<head>\n<title>torsor: geometry explorer</title>"
    )  # an explorer of before
    assert run(f"explore --out {page}") == 0
    assert "(replaced)" in capsys.readouterr().out


def test_a_second_process_on_one_run_folder_is_one_line(trained, capsys):
    holder = subprocess.Popen([sys.executable, "-c", HOLD_THE_LOCK, trained], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        assert run(f"{S3} {TINY} --out {trained}") == 2
        error = capsys.readouterr().err
        assert str(holder.pid) in error
        assert error.count("\n") == 1
    finally:
        holder.kill()
        holder.communicate()


def test_a_loss_that_is_not_finite_stops_with_the_update_s_number_and_keeps_the_checkpoint(
    trained, tmp_path, monkeypatch, capsys
):
    sound = SampledDepth.forward

    def poisoned(self, model, tokens, update, rows):
        return sound(self, model, tokens, update, rows) * (float("nan") if update == 7 else 1.0)

    path = tmp_path / "run"
    command = f"{S3} {TINY} --out {path} --checkpoint-every 5"
    monkeypatch.setattr(SampledDepth, "forward", poisoned)
    assert run(command) == 1
    error = capsys.readouterr().err
    where = "the loss, while the outputs of all modules are finite"
    what = f"update 8 has loss nan and gradient norm nan, not finite first in {where}"
    kept = "the last checkpoint is of update 5; try a smaller --learning-rate"
    assert error == f"torsor: {what}; the parameters are those before it; {kept}\n"
    described = json.loads((path / "run.json").read_text())
    assert described["checkpoint"]["update"] == 5
    assert described["status"].startswith("stopped: update 8 has loss nan")
    monkeypatch.setattr(SampledDepth, "forward", sound)
    assert run(command) == 0
    for name in ("metrics.jsonl", "checkpoint/model.safetensors"):
        assert (path / name).read_bytes() == (trained / name).read_bytes()


@pytest.mark.parametrize(
    ("device", "words"),
    [
        ("gpu", "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        ("meta", "device must be auto, cpu, cuda or cuda:N, got 'meta'"),
        ("cuda:77", "device must be (one of the|auto or cpu, since torch finds no GPU)"),
    ],
)
def test_a_device_that_is_not_there_is_one_line_and_leaves_nothing(device, words, tmp_path, capsys):
    assert run(f"{S3} {TINY} --device {device} --out {tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert re.search(words, error)
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


def test_the_device_of_a_run_is_recorded(trained):
    assert json.loads((trained / "run.json").read_text())["about"]["device"].startswith(("cpu", "cuda"))


def test_a_clock_that_is_set_back_changes_nothing(trained, tmp_path, monkeypatch, capsys):
    sound = SampledDepth.forward

    def interrupted(self, model, tokens, update, rows):
        if update == 7:
            raise KeyboardInterrupt
        return sound(self, model, tokens, update, rows)

    path = tmp_path / "run"
    command = f"{S3} {TINY} --out {path} --checkpoint-every 5"
    monkeypatch.setattr(SampledDepth, "forward", interrupted)
    assert run(command) == 130
    assert capsys.readouterr().err.endswith(f"interrupted; go on from its last checkpoint with: torsor {command}\n")
    monkeypatch.setattr(SampledDepth, "forward", sound)
    for number, file in enumerate(sorted(path.rglob("*"))):
        os.utime(file, (4e9 - number, 4e9 - number))  # written in the year 2096, the newest first
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert run(command) == 0
    for name in ("metrics.jsonl", "evaluation.json", "geometry.json", "checkpoint/model.safetensors"):
        assert (path / name).read_bytes() == (trained / name).read_bytes()


def test_a_model_that_ends_with_logits_that_are_not_finite_is_no_finished_run(tmp_path, capsys):
    path = tmp_path / "run"
    assert run(f"{S3} {TINY} --learning-rate 1e30 --out {path}") == 1
    said = "logits are not finite; there is no checkpoint yet; try a smaller --learning-rate\n"
    assert capsys.readouterr().err.endswith(said)
    described = json.loads((path / "run.json").read_text())
    assert described["status"].startswith("stopped: ")
    assert described["checkpoint"] is None


def test_killed_at_ten_random_moments_a_run_ends_as_if_nobody_had(tmp_path):
    script = Path(__file__).with_name("kill_and_resume.py")
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["10", "kills"]
    for name in (
        "metrics.jsonl",
        "checkpoint/model.safetensors",
        "checkpoint/training.safetensors",
        "evaluation.json",
        "geometry.json",
    ):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name

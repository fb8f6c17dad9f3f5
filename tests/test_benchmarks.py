"""The scripts in ``benchmarks`` run through; what they measure is not looked at."""

import json
import random
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torsor.cli import main
from torsor.experiments import language
from torsor.tasks import LastWords

ROOT = Path(__file__).parents[1]


def test_the_script_for_a_gpu_runs_through_at_a_tiny_size_on_a_cpu(tmp_path):
    options = ["--tiny", "--seconds", "0.1", "--a5-seconds", "0.1", "--out", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "gpu.py", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert [run["name"] for run in found["runs"]] == [
        "60M, diagonal",
        "60M, conformal",
        "A5, diagonal",
        "A5, conformal",
    ]
    for name, row in found["kernels"]["recurrences"].items():
        assert row["right"] is not False, name
        assert min(case["seconds"] for case in row["cases"].values()) > 0
        assert {"torch", "loop"} <= set(row["cases"])
    assert len(found["kernels"]["recurrences"]) == 3
    for run in found["runs"]:
        assert run["updates"] >= 1
        assert run["share_of_matrix_peak"] > 0
        assert run["evaluation"]


def test_letters_that_have_learned_nothing_are_far_from_a_representation(tmp_path, capsys, monkeypatch):
    torch.set_default_dtype(torch.float32)
    sizes = "--updates 2 --length 2 --words 4 --stream-length 4 --stream-words 2 --batch 4 --threads 1"
    with pytest.raises(SystemExit, match="0"):
        main(f"train tracking/a5 --model rotations {sizes} --out {tmp_path / 'run'}".split())
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["learned_rotations.py", str(tmp_path / "run")])
    runpy.run_path(str(ROOT / "benchmarks" / "learned_rotations.py"), run_name="__main__")
    products, weight, trace = (line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines())
    assert float(products) > 0.1
    assert float(weight) < 0.1
    assert float(trace) > 0.01


def test_a_window_as_long_as_the_text_has_the_bits_of_the_state_carried_through_it(tmp_path, capsys, monkeypatch):
    torch.set_default_dtype(torch.float32)
    (tmp_path / "text").write_text("to be or not to be, that is the question. " * 40)
    run = tmp_path / "run"
    sizes = "--model lstm --width 8 --context 16 --updates 20 --batch 4 --threads 1"
    with pytest.raises(SystemExit, match="0"):
        main(f"train subgroups/tiny-shakespeare-recurrent --text {tmp_path / 'text'} {sizes} --out {run}".split())
    scored = json.loads((run / "evaluation.json").read_text())["validation"]
    capsys.readouterr()
    script = str(ROOT / "benchmarks" / "bits_from_a_fresh_state.py")
    monkeypatch.setattr("sys.argv", [script, str(run), str(scored["characters"] + 1), "8"])
    runpy.run_path(script, run_name="__main__")
    _, whole, short = capsys.readouterr().out.splitlines()
    assert float(whole.split(": ")[1].split(";")[0]) == pytest.approx(scored["bits_per_character"], abs=1e-3)
    assert short.startswith("8: ")
    assert short.endswith(f"1: {short.split(': ')[1].split(';')[0]}")
    monkeypatch.setattr("sys.argv", [script, str(run), "1000000"])
    with pytest.raises(SystemExit, match=r"LENGTH must be between 2 and the 168 characters of the text, got 1000000"):
        runpy.run_path(script, run_name="__main__")


def test_last_words_scored_after_a_training_are_those_that_it_scores_itself(tmp_path, capsys, monkeypatch):
    torch.set_default_dtype(torch.float32)
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklm", k=chance.randint(2, 7))) for _ in range(300)]
    (tmp_path / "text").write_text(" ".join(chance.choice(words) for _ in range(4000)))
    passages = [" ".join(chance.choices(words[:20], k=6)) for _ in range(40)]
    monkeypatch.setattr(language, "_last_words", lambda of: LastWords(passages, of.encode, of.begin))
    sizes = "--shrink 32 --entries 300 --context 16 --batch 4 --updates 30 --positions 200 --threads 1"
    for run, more in (("with", " --lambada"), ("without", "")):
        command = f"train rotate-the-loop/language {sizes} --text {tmp_path / 'text'} --out {tmp_path / run}{more}"
        with pytest.raises(SystemExit, match="0"):
            main(command.split())
    scored = json.loads((tmp_path / "with" / "evaluation.json").read_text())["lambada_by_depth"]
    capsys.readouterr()
    script = str(ROOT / "benchmarks" / "last_words_of_a_run.py")
    monkeypatch.setattr("sys.argv", [script, str(tmp_path / "without"), "1", "8"])
    runpy.run_path(script, run_name="__main__")
    _, *found = capsys.readouterr().out.splitlines()
    expected = [each for each in scored if each["steps"] in {1, 8}]
    assert [line.partition(" of")[0] for line in found] == [f"{each['steps']}: {each['right']}" for each in expected]
    assert [float(line.rpartition("; ")[2]) for line in found] == pytest.approx(
        [each["perplexity"] for each in expected], abs=0.06
    )


def test_a_tracker_that_is_right_leads_at_every_look(tmp_path, capsys, monkeypatch):
    torch.set_default_dtype(torch.float32)
    sizes = "--length 4 --words 4 --stream-length 4 --stream-words 2 --batch 16 --threads 1"
    for run, more in (("right", "--updates 150"), ("wrong", "--updates 1")):
        with pytest.raises(SystemExit, match="0"):
            main(f"train tracking/a5 --group S3 --model codes {more} {sizes} --out {tmp_path / run}".split())
    script = str(ROOT / "benchmarks" / "lead_over_time.py")
    found = {}
    for run in ("right", "wrong"):
        capsys.readouterr()
        monkeypatch.setattr("sys.argv", [script, str(tmp_path / run), "2048", "3", "float64"])
        runpy.run_path(script, run_name="__main__")
        head, *lines = capsys.readouterr().out.splitlines()
        assert "float64" in head
        assert lines[-1].startswith("2,048: ")
        found[run] = [line.rpartition("; ")[2] for line in lines]
        mean, least = (float(each) for each in lines[-1].partition(": ")[2].partition(";")[0].split(", "))
        assert (least > 1) == (run == "right")
        assert mean >= least
    assert found == {"right": ["0"] * 8, "wrong": ["3"] * 8}
    capsys.readouterr()
    pairs = str(ROOT / "benchmarks" / "pairs_by_heart.py")
    monkeypatch.setattr("sys.argv", [pairs, str(tmp_path / "right"), str(tmp_path / "wrong")])
    runpy.run_path(pairs, run_name="__main__")
    right, wrong = (line.partition(": ")[2] for line in capsys.readouterr().out.splitlines())
    assert right == "34 of 34 pairs of training, 2 of 2 others"
    assert int(wrong.partition(" ")[0]) < 34
    monkeypatch.setattr("sys.argv", [script, str(tmp_path / "right"), "100"])
    with pytest.raises(SystemExit, match="LETTERS must be at least 2048 and WORDS 1, got 100 and 24"):
        runpy.run_path(script, run_name="__main__")

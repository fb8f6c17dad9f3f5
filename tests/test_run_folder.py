"""Run folders: what they hold, whom they refuse, and that a kill at any moment costs nothing."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch

from refusal import refused
from tiny_training import ARGUMENTS, Echo, complete, equal, open_run, plan, snapshot, state, tensors
from torsor.training import RunFolder, default_path, read_run, train
from torsor.training.run_description import describe_environment

TESTS = Path(__file__).parent


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_says_what_it_is_and_keeps_times_beside_what_is_equal_between_two_runs(tmp_path):
    complete(tmp_path / "first", updates=7, every=3)
    complete(tmp_path / "second", updates=7, every=2)
    described = json.loads((tmp_path / "first" / "run.json").read_bytes())
    assert described["experiment"] == "tests/echo"
    assert described["arguments"] == {"width": 8, "lengths": [2, 4, 6]}
    assert described["seed"] == 0
    assert described["status"] == "finished"
    assert described["format"] == 1
    assert described["versions"].keys() == {"torsor", "torch", "numpy", "python"}
    assert described["versions"]["torch"] == torch.__version__
    assert (described["threads"], described["dtype"]) == (1, "float64")
    assert described["checkpoint"]["update"] == 7
    first, second = snapshot(tmp_path / "first"), snapshot(tmp_path / "second")
    assert first.keys() == second.keys()
    assert {name for name in first if first[name] != second[name]} <= {
        "run.json",
        "timing.jsonl",
        "checkpoint/state.json",
    }
    metrics, timing = lines(tmp_path / "first" / "metrics.jsonl"), lines(tmp_path / "first" / "timing.jsonl")
    assert [line["update"] for line in metrics] == [line["update"] for line in timing] == list(range(1, 8))
    assert metrics[0].keys() == {"update", "loss", "gradient_norm", "learning_rate", "length"}
    assert timing[0].keys() == {"update", "seconds", "tokens_per_second"}
    assert all(line["seconds"] > 0 for line in timing)


def test_scores_stand_in_the_metrics_line_of_their_update(tmp_path):
    with open_run(tmp_path) as run:
        for record in islice(train(state(), Echo(), plan(8)), 2):
            run.log(record, {"accuracy": 0.5} if record.update == 2 else None)
    assert [line.get("accuracy") for line in lines(tmp_path / "metrics.jsonl")] == [None, 0.5]


def test_opening_a_folder_again_forgets_what_came_after_the_checkpoint(tmp_path):
    with open_run(tmp_path) as run:
        current = state()
        for record in islice(train(current, Echo(), plan(8)), 5):
            run.log(record)
            if record.update == 3:
                run.save(current)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"update": 6, "lo')
    with open_run(tmp_path) as run:
        assert run.update == 3
    assert [line["update"] for line in lines(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert [line["update"] for line in lines(tmp_path / "timing.jsonl")] == [1, 2, 3]


def test_whoever_goes_on_hears_how_many_bytes_of_the_checkpoint_are_checked_and_each_is_read_once(tmp_path):
    heard = []

    def opened():
        return RunFolder(tmp_path, "tiny/echo", ARGUMENTS, 0, watch=lambda done, of: heard.append((done, of)))

    with opened() as run:
        assert not heard
        run.save(state())
    with opened():
        size = sum(file.stat().st_size for file in (tmp_path / "checkpoint").iterdir())
        assert heard[-1] == (size, size)
        assert len(heard) == len({done for done, _ in heard})  # a second reading would begin again


def test_results_are_written_as_a_whole_beside_the_run(tmp_path):
    with open_run(tmp_path) as run:
        run.replace_json("evaluation.json", {"accuracy": 0.1 + 0.2})
        run.replace_json("evaluation.json", {"accuracy": 1 / 3})
        for name in ("run.json", "../evaluation.json", "evaluation.txt"):
            with refused("name must be a JSON file's other than run.json"):
                run.replace_json(name, {})
        with refused("not JSON compliant"):
            run.replace_json("evaluation.json", {"accuracy": float("nan")})
        with refused("cannot write .*geometry.json: "):
            (tmp_path / "geometry.json").mkdir()
            run.replace_json("geometry.json", {})
    assert json.loads((tmp_path / "evaluation.json").read_bytes()) == {"accuracy": 1 / 3}


def test_a_half_written_result_is_gone_when_the_folder_is_opened_again(tmp_path):
    open_run(tmp_path).close()
    before = snapshot(tmp_path)
    (tmp_path / "evaluation.json.tmp").write_text('{"accu')
    open_run(tmp_path).close()
    assert snapshot(tmp_path) == before


def test_a_run_is_running_stopped_or_finished(tmp_path):
    current = state()
    with open_run(tmp_path) as run:
        assert run.description.status == "running"
        for record in islice(train(current, Echo(), plan(8)), 1):
            run.log(record)
        with refused("has updates after its checkpoint: save before finish"):
            run.finish()
        run.stop("the loss was nan")
        assert read_run(tmp_path).status == "stopped: the loss was nan"
    with open_run(tmp_path) as run:
        assert read_run(tmp_path).status == "running"
        run.save(current)
        run.finish()
    assert read_run(tmp_path).status == "finished"


def test_a_run_that_went_on_in_other_circumstances_says_so(tmp_path):
    open_run(tmp_path).close()
    assert read_run(tmp_path).resumed_with == []
    torch.set_default_dtype(torch.float32)
    open_run(tmp_path).close()
    open_run(tmp_path).close()
    torch.set_default_dtype(torch.float64)
    open_run(tmp_path).close()
    assert [other["dtype"] for other in read_run(tmp_path).resumed_with] == ["float32", "float64"]
    assert read_run(tmp_path).resumed_with[1] == {"update": 0} | describe_environment()


def test_what_a_reader_wants_to_know_of_a_run_is_kept_from_its_beginning_and_never_compared(tmp_path):
    for label in ("first", "second"):
        RunFolder(tmp_path, "tests/echo", ARGUMENTS, seed=0, about={"label": label}).close()
    assert read_run(tmp_path).about == {"label": "first"}


def test_the_default_folder_is_named_by_the_experiment_and_the_seed():
    assert default_path("rotate-the-loop/a5", 3) == Path("runs/a5-3")


# --- refusals ----------------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path):
    open_run(tmp_path / "run").close()
    return tmp_path / "run"


def test_another_experiment_is_refused(made):
    before = snapshot(made)
    with refused("run holds the experiment tests/echo, not tests/other: choose another folder with --out$"):
        RunFolder(made, "tests/other", ARGUMENTS, seed=0)
    assert snapshot(made) == before


@pytest.mark.parametrize(
    ("arguments", "seed", "message"),
    [
        (ARGUMENTS | {"width": 16}, 0, "holds a run with width=8, not 16: choose"),
        (ARGUMENTS, 1, "holds a run with seed=0, not 1: choose"),
        (ARGUMENTS | {"width": 16, "lengths": (2,)}, 0, r"width=8, not 16; lengths=\[2, 4, 6\], not \[2\]: choose"),
        ({"lengths": (2, 4, 6)}, 0, "holds a run with width=8, not unset: choose"),
        (ARGUMENTS | {"steps": 3}, 0, "holds a run with steps=unset, not 3: choose"),
        (ARGUMENTS | {"width": 8.0}, 0, "holds a run with width=8, not 8.0: choose"),
        (ARGUMENTS | {"width": object()}, 0, "argument width must be something JSON can hold, got <object"),
        (ARGUMENTS | {"width": float("nan")}, 0, "argument width must be something JSON can hold, got nan"),
    ],
)
def test_other_arguments_are_named_with_both_values(made, arguments, seed, message):
    before = snapshot(made)
    with refused(message):
        RunFolder(made, "tests/echo", arguments, seed)
    assert snapshot(made) == before


def test_a_newer_format_is_refused(made):
    content = json.loads((made / "run.json").read_bytes())
    (made / "run.json").write_text(json.dumps(content | {"format": 2, "novelty": True}))
    before = snapshot(made)
    for read in (open_run, read_run):
        with refused(
            "was written by a newer torsor: format 2, this one reads up to 1; use that one, or choose another folder$"
        ):
            read(made)
    assert snapshot(made) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "run.json is not JSON: "),
        (b"\n", "run.json is empty"),
        (b"[]", "run.json must hold an integer under 'format'"),
        (b'{"format": "1"}', "run.json must hold an integer under 'format'"),
        (b'{"format": 1}', "run.json was altered: missing or unexpected .*arguments, checkpoint, dtype, "),
        (b"\xff", "run.json is not JSON: "),
    ],
)
def test_a_run_file_that_was_altered_is_refused(made, content, message):
    (made / "run.json").write_bytes(content)
    before = snapshot(made)
    with refused(message):
        open_run(made)
    assert snapshot(made) == before


def test_a_run_file_with_other_names_is_refused(tmp_path):
    complete(tmp_path, updates=2, every=2)
    good = (tmp_path / "run.json").read_text()
    for old, new, message in (
        (
            '"state.json"',
            '"../state.json"',
            r"run.json was altered: missing or unexpected \.\./state.json, state.json; put a copy ",
        ),
        ('"update"', '"updates"', "run.json was altered: missing or unexpected update, updates; put a copy "),
        ('"seed"', '"sead"', "run.json was altered: missing or unexpected sead, seed; put a copy "),
    ):
        (tmp_path / "run.json").write_text(good.replace(old, new))
        with refused(message):
            open_run(tmp_path)


def test_a_folder_that_is_no_run_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with refused("has no run.json but holds thesis.tex: choose an empty or new folder with --out$"):
        open_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with refused("is no run folder: it has no run.json$"):
        read_run(tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/1/torsor")):
        with refused(f"^cannot use {path} as a run folder: "):
            open_run(path)
    assert (tmp_path / "file").read_text() == ""


def test_a_refused_folder_is_not_locked_any_more(made):
    with refused("holds the experiment"):
        RunFolder(made, "tests/other", ARGUMENTS, seed=0)
    open_run(made).close()


# --- processes ---------------------------------------------------------------------------------------------------

HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tiny_training import open_run
run = open_run(Path(sys.argv[2]))
print("open", flush=True)
time.sleep(600)
"""


def test_a_second_process_is_told_who_holds_the_folder_and_a_killed_one_holds_nothing(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(TESTS), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "open\n"
        before = snapshot(tmp_path)
        with refused(f"is in use by process {holder.pid}: wait for it or stop it$"):
            open_run(tmp_path)
        assert snapshot(tmp_path) == before
        assert read_run(tmp_path).status == "running"
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        holder.stdout.close()
    open_run(tmp_path).close()


def test_one_process_opens_a_folder_once(tmp_path):
    (tmp_path / ".lock").write_text("1234567890123\n")  # of a process that is gone
    with open_run(tmp_path) as run:
        with refused(f"is in use by process {os.getpid()}: "):
            open_run(tmp_path)
        run.close()
        open_run(tmp_path).close()


def test_a_run_that_is_killed_again_and_again_equals_one_that_nobody_killed(tmp_path):
    updates, every, kills = 90, 9, 3
    program = subprocess.run(
        [sys.executable, TESTS / "tiny_training.py", tmp_path / "killed", *map(str, (updates, every, kills))],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout)["met"] == kills
    whole = complete(tmp_path / "whole", updates, every)
    killed, unkilled = snapshot(tmp_path / "killed"), snapshot(tmp_path / "whole")
    assert killed.keys() == unkilled.keys()
    assert len(killed["timing.jsonl"].splitlines()) == updates
    for name in ("metrics.jsonl", "evaluation.json", "checkpoint/model.safetensors", "checkpoint/training.safetensors"):
        assert killed[name] == unkilled[name]
    with RunFolder(tmp_path / "killed", "tests/echo", ARGUMENTS, seed=0) as run:
        run.restore(restored := state(seed=1))
        assert run.description.finished
    assert equal(tensors(restored), tensors(whole))
    assert replace(restored.curriculum) == whole.curriculum

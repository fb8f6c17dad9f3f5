"""Checkpoints: plain files, checked before they are loaded, and whole whatever instant a crash comes at."""

import gc
import json
import os
import resource
import shutil
import stat
import tracemalloc
from functools import cache, partial
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from damage import flip, truncate
from refusal import refused
from tiny_training import Echo, complete, equal, model, open_run, plan, snapshot, state, tensors
from torsor.training import RunFolderError, SingleProcess, load_weights, read_run, train
from torsor.training.engine import read_tensors, write_tensors

BESIDE = {".lock", "run.json", "metrics.jsonl", "timing.jsonl"}
FILES = ["model.safetensors", "training.safetensors", "state.json"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Wait for no disk: no test can see what a disk forgets, only in which order it is asked."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def tmp_path(tmp_path):
    """A folder in main memory where there is such a thing: thousands of files are made and removed here."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@pytest.fixture
def saved(tmp_path):
    """A run of two updates with a checkpoint."""
    current = state()
    with open_run(tmp_path / "run") as run:
        for record in islice(train(current, Echo(), plan(8)), 2):
            run.log(record)
        run.save(current)
    return tmp_path / "run"


def restored(folder, into=None):
    """What opening a folder gives: the update, all tensors, and the logs."""
    with open_run(folder) as run:
        run.restore(current := into or state(seed=1))
        assert run.update == current.update
    return current, tensors(current), (folder / "metrics.jsonl").read_bytes()


def test_a_checkpoint_holds_safetensors_and_json_and_nothing_else(saved):
    assert sorted(path.name for path in (saved / "checkpoint").iterdir()) == sorted(FILES)
    weights = load_file(saved / "checkpoint" / "model.safetensors")
    assert weights.keys() == model().state_dict().keys()
    moments = load_file(saved / "checkpoint" / "training.safetensors")
    assert {key.partition("/")[0] for key in moments} == {"exp_avg", "exp_avg_sq", "step"}
    assert {key.partition("/")[2] for key in moments} == weights.keys()
    content = json.loads((saved / "checkpoint" / "state.json").read_bytes())
    assert content["update"] == 2
    assert content["logs"]["metrics.jsonl"] == (saved / "metrics.jsonl").stat().st_size


@pytest.mark.parametrize("largest", [2**26, 0], ids=["whole", "mapped"])
def test_tensors_of_every_kind_are_read_as_they_were_written_whole_or_mapped(tmp_path, monkeypatch, largest):
    monkeypatch.setattr("torsor.training.engine.READ_WHOLE", largest)
    written = {
        "one": torch.tensor(1.5, dtype=torch.float32),
        "none": torch.zeros(0, 3),
        "half": torch.randn(5, dtype=torch.bfloat16),
        "complex": torch.randn(3, dtype=torch.complex64),
        "step": torch.tensor(2**40),
    }
    write_tensors(written, tmp_path / "t.safetensors")
    read = read_tensors(tmp_path / "t.safetensors")
    assert read.keys() == written.keys()
    for name, tensor in written.items():
        assert read[name].dtype == tensor.dtype
        assert torch.equal(read[name], tensor)
    read["step"] += 1  # what is read may be written to


def test_reading_a_checkpoint_again_and_again_keeps_nothing(tmp_path):
    write_tensors({f"{n}": torch.randn(300 + n) for n in range(50)}, tmp_path / "t.safetensors")
    read_tensors(tmp_path / "t.safetensors")
    gc.collect()
    tracemalloc.start()
    for _ in range(40):
        read_tensors(tmp_path / "t.safetensors")
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept < 40 * 50 * 10  # mapped, it is 57 bytes a tensor


def test_files_of_a_checkpoint_can_be_read_by_whom_the_user_allows(saved):
    modes = {stat.S_IMODE((saved / "checkpoint" / name).stat().st_mode) for name in FILES}
    assert modes == {stat.S_IMODE((saved / "run.json").stat().st_mode)}


def test_all_is_on_the_disk_before_the_run_says_so_and_the_renames_before_the_old_files_go(saved, monkeypatch):
    steps = []

    def noted(name, *, of=str):
        step = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *arguments, **options: (
            steps.append((name, *(Path(of(argument)).name for argument in arguments))), step(*arguments, **options)
        )[1])  # fmt: skip

    run, save = save_again(saved)
    noted("fsync", of=lambda descriptor: Path(f"/proc/self/fd/{descriptor}").readlink())
    for name in ("rename", "replace", "rmdir"):
        noted(name)
    save()
    run.close()
    described = steps.index(("replace", "run.json.tmp", "run.json"))
    asked = {step[1] for step in steps[:described] if step[0] == "fsync"}
    assert asked == {*FILES, "checkpoint.new", "run", "metrics.jsonl", "timing.jsonl", "run.json.tmp"}
    assert steps[described - 1] == ("fsync", "run.json.tmp")
    assert steps[described + 1 :] == [
        ("fsync", "run"),
        ("rename", "checkpoint", "checkpoint.previous"),
        ("rename", "checkpoint.new", "checkpoint"),
        ("fsync", "run"),
        ("rmdir", "checkpoint.previous"),
    ]


# --- damage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [flip, truncate, os.remove])
def test_a_damaged_checkpoint_is_named_and_neither_loaded_nor_changed(saved, name, damage):
    damage(saved / "checkpoint" / name)
    before = snapshot(saved)
    reason = (
        "is missing" if damage is os.remove else "was truncated or altered: its SHA-256 must begin .{12}, found .{12}"
    )
    advice = (
        f"put a copy of it back, or delete {saved} and train it anew with the command that made it and --out {saved}$"
    )
    with refused(f"checkpoint/{name} {reason}; nothing was changed; {advice}"):
        open_run(saved)
    untouched = model()
    with refused(f"checkpoint/{name} {reason}; {advice}"):
        load_weights(saved, untouched)
    assert snapshot(saved) == before
    assert equal(untouched.state_dict(), model().state_dict())


def test_a_missing_checkpoint_is_named(saved):
    shutil.rmtree(saved / "checkpoint")
    with refused("checkpoint is missing; nothing was changed; put a copy of it back, or delete "):
        open_run(saved)


def test_a_checkpoint_that_the_run_does_not_know_is_left_alone(saved):
    content = json.loads((saved / "run.json").read_bytes())
    (saved / "run.json").write_text(json.dumps(content | {"checkpoint": None, "about": {}}))
    before = snapshot(saved)
    with refused("checkpoint is not known to run.json; nothing was changed; put a copy of it back, or delete "):
        open_run(saved)
    assert snapshot(saved) == before


def test_a_log_that_is_shorter_than_its_checkpoint_says_is_named(saved):
    truncate(saved / "metrics.jsonl")
    before = snapshot(saved)
    with refused("metrics.jsonl was truncated: the checkpoint was written after .*; nothing was changed; put a copy "):
        open_run(saved)
    assert snapshot(saved) == before


@pytest.mark.parametrize("name", ["checkpoint.new", "checkpoint.previous"])
@pytest.mark.parametrize("other", ["gone", "altered"])
def test_whichever_folder_the_run_describes_is_put_in_place(saved, name, other):
    expected = restored(saved)
    before = snapshot(saved)
    shutil.copytree(saved / "checkpoint", saved / name)
    if other == "gone":
        shutil.rmtree(saved / "checkpoint")
    else:
        flip(saved / "checkpoint" / "state.json")
    assert equal(restored(saved)[1], expected[1])
    assert snapshot(saved) == before


def test_weights_are_read_from_whichever_folder_counts_and_nothing_is_moved(saved):
    (saved / "checkpoint").rename(saved / "checkpoint.new")
    before = snapshot(saved)
    digest = load_weights(saved, read := model(seed=1))
    assert digest == read_run(saved).checkpoint
    assert snapshot(saved) == before
    assert equal(dict(read.state_dict()), restored(saved)[0].weights())


# --- crashes -----------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: no code of the package may catch this."""


STEPS = ["fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "ftruncate", "open"]


class Crash:
    """Stand before every step that reaches the file system, and stop at one of them."""

    def __init__(self, monkeypatch, at):
        self.steps = 0
        self.at = at
        for name in STEPS:
            monkeypatch.setattr(os, name, self.guarded(getattr(os, name)))
        original = SingleProcess.save

        def half_a_file(engine, tensors, path):
            if self.due():
                path.write_bytes(b"half a file")
                raise Killed
            original(engine, tensors, path)

        monkeypatch.setattr(SingleProcess, "save", half_a_file)

    def due(self):
        self.steps += 1
        return self.steps == self.at

    def guarded(self, step):
        def stop_or_go(*arguments, **options):
            if self.due():
                raise Killed
            return step(*arguments, **options)

        return stop_or_go


def crashed(action, at):
    """Run ``action`` up to its step number ``at``; whether that was before its end."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        crash = Crash(monkeypatch, at)
        try:
            action()
        except Killed:
            return True
        assert crash.steps < at
        return False


def open_and_close(folder):
    open_run(folder).close()


def history():
    """What must be found at each update: tensors, and the bytes of the metrics."""
    current, lines, found = state(), b"", {0: (None, b"")}
    found[0] = tensors(current), b""
    for record in islice(train(current, Echo(), plan(8)), 4):
        lines += json.dumps(record.metrics()).encode() + b"\n"
        found[record.update] = tensors(current), lines
    return found


@cache
def four_updates():
    """A state after four updates, and their records."""
    return (current := state()), list(islice(train(current, Echo(), plan(8)), 4))


@cache
def scratch():
    """A state to load into, again and again."""
    return state(seed=1)


def save_again(folder):
    """Open a run of two updates and log two more; return it, and the save that follows as a function."""
    run = open_run(folder)
    current, records = four_updates()
    for record in records[2:]:
        run.log(record)
    return run, partial(run.save, current)


def test_a_crash_at_any_step_of_a_save_and_any_step_of_the_recovery_leaves_old_or_new(saved, tmp_path):
    expected, met, tried = history(), {2: 0, 4: 0}, set()
    for at in count(1):
        broken = tmp_path / f"broken at {at}"
        shutil.copytree(saved, broken)
        run, save = save_again(broken)
        survived = not crashed(save, at)
        run.close()
        left = snapshot(broken)
        form = (*sorted(left), left["run.json"])
        for again in count(1):
            if form in tried:
                break  # the same files as after another step: its recovery was broken at each of its steps
            twice = tmp_path / f"broken at {at} and {again}"
            shutil.copytree(broken, twice)
            recovered = not crashed(partial(open_and_close, twice), again)
            check(twice, expected, met)
            shutil.rmtree(twice)
            if recovered:
                tried.add(form)
        check(broken, expected, met)
        shutil.rmtree(broken)
        if survived:
            break
    assert at > 20
    assert len(tried) > 10
    assert min(met.values()) > 20


def check(folder, expected, met):
    """Open ``folder`` and find exactly what belongs to one of the updates that were saved."""
    scratch().update = -1
    nn.init.zeros_(scratch().model[0].weight)
    current, found, lines = restored(folder, into=scratch())
    assert equal(found, expected[current.update][0]), folder
    assert lines == expected[current.update][1], folder
    assert {path.name for path in folder.iterdir()} == {*BESIDE, "checkpoint"}, folder
    met[current.update] += 1


def test_a_crash_at_any_step_of_the_first_save_or_of_the_making_of_the_folder_can_be_resumed(tmp_path):
    expected, met = history(), set()

    def begin():
        with open_run(tmp_path / "run") as run:
            current = state()
            for record in islice(train(current, Echo(), plan(8)), 2):
                run.log(record)
            run.save(current)

    for at in count(1):
        survived = not crashed(begin, at)
        with open_run(tmp_path / "run") as run:
            run.restore(current := state())
        assert equal(tensors(current), expected[current.update][0]), at
        assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == expected[current.update][1], at
        met.add(current.update)
        shutil.rmtree(tmp_path / "run")
        if survived:
            break
    assert at > 15
    assert met == {0, 2}


def test_after_a_save_that_failed_the_same_process_can_save_again_and_may_crash_in_that(saved, tmp_path):
    """As when a disk was full for a while."""
    expected, met, tried = history(), {2: 0, 4: 0}, set()
    for at in count(1):
        for again in count(1):
            broken = tmp_path / f"broken at {at} and {again}"
            shutil.copytree(saved, broken)
            run, save = save_again(broken)
            survived = not crashed(save, at)
            form = (*sorted(path.name for path in broken.iterdir()), (broken / "run.json").read_bytes())
            saved_again = form in tried or not crashed(save, again)
            run.close()
            check(broken, expected, met)
            shutil.rmtree(broken)
            if saved_again:
                tried.add(form)
                break
        if survived:
            break
    assert len(tried) >= 6
    assert min(met.values()) > 20


def test_a_full_disk_is_one_line_and_the_old_checkpoint_stays(saved):
    expected = restored(saved)
    run, save = save_again(saved)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, old[1]))
    try:
        with refused("cannot write the checkpoint of .*run: "):
            save()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        run.close()
    found = restored(saved)
    assert equal(found[1], expected[1])
    assert found[2] == expected[2]


def test_a_checkpoint_of_another_model_is_refused(saved):
    other = nn.Sequential(*model(), nn.Linear(2, 2, dtype=torch.float32))
    with refused("does not fit the model: missing 4.weight, missing 4.bias$"):
        load_weights(saved, other)


def test_a_run_without_a_checkpoint_has_no_weights(tmp_path):
    open_and_close(tmp_path)
    with refused("has no checkpoint yet"):
        load_weights(tmp_path, model())


def test_weights_can_be_read_while_the_run_goes_on(saved, monkeypatch):
    """Between reading ``run.json`` and the weights the run replaces its checkpoint."""
    run, save = save_again(saved)
    load = SingleProcess.load

    def late(engine, path):
        if not late.done:
            late.done = True
            save()
            raise FileNotFoundError(path)
        return load(engine, path)

    late.done = False
    monkeypatch.setattr(SingleProcess, "load", late)
    assert load_weights(saved, read := model(seed=1)).update == 4
    run.close()
    assert equal(dict(read.state_dict()), restored(saved)[0].weights())


def test_a_finished_run_stays_as_it_is(tmp_path):
    complete(tmp_path, updates=4, every=3)
    before = snapshot(tmp_path)
    open_and_close(tmp_path)
    assert snapshot(tmp_path) == before
    assert read_run(tmp_path).finished
    assert isinstance(RunFolderError("x"), ValueError)

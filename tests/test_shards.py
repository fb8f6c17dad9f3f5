"""A checkpoint that several processes have written, each its own rows, is read by one, or refused in one line."""

import json
import os
import re
from dataclasses import replace
from itertools import islice
from math import ceil

import pytest
import torch
from safetensors.torch import load_file

from damage import flip, truncate
from refusal import refused
from tiny_training import Echo, complete, equal, model, open_run, plan, snapshot, state, tensors
from torsor.training import RunFolderError, SingleProcess, load_weights, read_run, train
from torsor.training.checkpoint import Part, write_part
from torsor.training.shards import INDEX, Piece, read_shards


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def cut(piece: Piece, number: int, count: int) -> Piece | None:
    """The rows of one of several processes, as torch.chunk deals them; a point is the first one's."""
    if not piece.shape:
        return None if number else piece
    share = ceil(piece.shape[0] / count)
    start = min(number * share, piece.shape[0])
    return Piece(piece.rows[start : start + share].clone(), start, piece.shape)


def parts_of(current, count):
    """What each of several processes would write of a state."""
    whole = current.snapshot()
    for number in range(count):
        dealt = [
            {name: part for name, piece in kind.items() if (part := cut(piece, number, count)) is not None}
            for kind in (whole.weights, whole.moments)
        ]
        yield replace(whole, weights=dealt[0], moments=dealt[1])


def write(new, snapshots, monkeypatch):
    """What the processes say of the parts that they wrote."""
    parts = []
    for number, each in enumerate(snapshots):
        with monkeypatch.context() as patched:
            patched.setattr(SingleProcess, "shard", (number, len(snapshots)))
            parts.append(write_part(new, each, SingleProcess()))
    return parts


def save(run, current, count, monkeypatch):
    snapshots = list(parts_of(current, count))
    run.complete(snapshots[0], write(run.begin(), snapshots, monkeypatch))


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A run of three updates with a checkpoint of two shards, and its state; beside it, the one of two updates."""
    current = state()
    with open_run(tmp_path / "run") as run:
        for record in islice(train(current, Echo(), plan(8)), 3):
            run.log(record)
            if record.update >= 2:
                save(run, current, 2, monkeypatch)
            if record.update == 2:
                (tmp_path / "run" / "checkpoint").rename(tmp_path / "earlier")
                (tmp_path / "run" / "checkpoint").mkdir()
    return tmp_path / "run", current


@pytest.mark.parametrize("count", [2, 3, 9])
def test_one_process_goes_on_from_what_several_have_written_to_the_last_bit(count, tmp_path, monkeypatch):
    current = state()
    with open_run(tmp_path / "run") as run:
        for record in islice(train(current, Echo(), plan(8)), 3):
            run.log(record)
        save(run, current, count, monkeypatch)
    read = model(seed=1)
    digest = load_weights(tmp_path / "run", read)
    assert digest.update == 3
    assert equal(read.state_dict(), current.model.state_dict())
    with open_run(tmp_path / "run") as run:
        run.restore(resumed := state(seed=1))
    assert equal(tensors(resumed), tensors(current))
    ended = complete(tmp_path / "run", 8, 3)
    assert equal(tensors(ended), tensors(complete(tmp_path / "whole", 8, 3)))
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (tmp_path / "whole" / "metrics.jsonl").read_bytes()


def test_each_file_holds_the_rows_of_one_process_and_the_index_says_which(saved):
    folder, current = saved
    checkpoint = folder / "checkpoint"
    files = {f"{kind}-{number}-of-2.safetensors" for kind in ("model", "training") for number in (1, 2)}
    assert {each.name for each in checkpoint.iterdir()} == files | {"state.json", "shards.json"}
    index = json.loads((checkpoint / INDEX).read_text())
    assert index["model"]["1.weight"] == [
        {"file": "model-1-of-2.safetensors", "start": 0, "shape": [7, 8]},
        {"file": "model-2-of-2.safetensors", "start": 4, "shape": [7, 8]},
    ]
    weight = dict(current.model.named_parameters())["1.weight"]
    for number, rows in ((1, weight[:4]), (2, weight[4:])):
        held = load_file(checkpoint / f"model-{number}-of-2.safetensors")
        assert torch.equal(held["1.weight"], rows)
    assert read_run(folder).checkpoint.weights != read_run(folder).checkpoint.files["model-1-of-2.safetensors"]


def exchange(path):
    """One process's file in the place of another's."""
    other = path.with_name(path.name.replace("-1-of-", "-2-of-"))
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def take_an_earlier_one(path):
    path.write_bytes((path.parents[2] / "earlier" / path.name).read_bytes())


SHARDS = ("model-1-of-2.safetensors", "training-1-of-2.safetensors")
DAMAGES = [(name, damage) for name in (*SHARDS, INDEX) for damage in (flip, truncate, os.remove)]
DAMAGES += [(name, damage) for name in SHARDS for damage in (exchange, take_an_earlier_one)]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_a_shard_that_is_missing_cut_or_exchanged_is_named_and_neither_loaded_nor_changed(saved, name, damage):
    folder, _ = saved
    damage(folder / "checkpoint" / name)
    before = snapshot(folder)
    reason = "is missing" if damage is os.remove else "was truncated or altered: its SHA-256 must begin .{12}"
    line = rf"checkpoint/{re.escape(name)} {reason}.*; put a copy of it back, or delete {folder} and train it anew with"
    with refused(line):
        open_run(folder)
    untouched = model()
    with refused(line):
        load_weights(folder, untouched)
    assert snapshot(folder) == before
    assert equal(untouched.state_dict(), model().state_dict())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: index.pop("model"), "must say under 'model' where every tensor lies"),
        (lambda index: index["model"].update({"1.bias": [{"file": "a"}]}), "must say under 'model'"),
        (lambda index: index["model"]["1.weight"].pop(), "must name every row of 1.weight once, it does not"),
        (lambda index: index["model"]["1.weight"].pop(0), "must name every row of 1.weight once, it does not"),
        (lambda index: index["model"]["1.weight"][1].update(start=3), "must name every row of 1.weight once"),
        (lambda index: index["model"]["1.weight"][1].update(shape=[7, 9]), "must name every row of 1.weight once"),
        (lambda index: index["model"]["1.weight"][1].update(file="../x"), "must name files of its folder, got '../x'"),
        (lambda index: index["model"]["1.weight"][1].update(file="gone"), "gone cannot be read: No such file"),
        (lambda index: index["model"].update(new=index["model"]["1.weight"]), "must hold rows of new, it does not"),
    ],
)
def test_an_index_that_does_not_fit_its_files_is_refused_in_one_line(change, message, saved):
    checkpoint = saved[0] / "checkpoint"
    index = json.loads((checkpoint / INDEX).read_text())
    change(index)
    (checkpoint / INDEX).write_text(json.dumps(index))
    with refused(message):
        read_shards(checkpoint, "model")


@pytest.mark.parametrize("count", [1, 2])
def test_a_process_that_dies_before_all_have_written_leaves_the_checkpoint_before(count, saved, monkeypatch):
    folder, current = saved
    with open_run(folder) as run:
        run.restore(state(seed=1))
        later = state(seed=2)
        write(run.begin(), list(parts_of(later, 2))[:count], monkeypatch)
    assert (folder / "checkpoint.new").is_dir()  # as the dead leave it
    with open_run(folder) as run:
        run.restore(resumed := state(seed=1))
    assert equal(tensors(resumed), tensors(current))
    assert not (folder / "checkpoint.new").exists()


def test_a_part_that_could_not_be_written_is_told_and_leaves_the_checkpoint_before(saved, monkeypatch):
    folder, current = saved
    with open_run(folder) as run:
        run.restore(resumed := state(seed=1))
        first = next(parts_of(resumed, 2))
        parts = write(run.begin(), list(parts_of(resumed, 2)), monkeypatch)
        with refused("process 2 of 2: cannot write its part of the checkpoint: No space left on device$"):
            run.complete(
                first, [parts[0], Part({}, {}, "cannot write its part of the checkpoint: No space left on device")]
            )
        (folder / "checkpoint.new" / "model-2-of-2.safetensors").unlink()
        with refused("model-2-of-2.safetensors must be seen by the main process: put the run on a disk that all"):
            run.complete(first, parts)
        untouched = model(seed=1)
        load_weights(folder, untouched)
        assert equal(untouched.state_dict(), current.model.state_dict())
        save(run, resumed, 2, monkeypatch)  # and the next one is saved
    assert equal(tensors(current), tensors(resumed))


@pytest.mark.parametrize("name", ["model-3-of-2.safetensors", "model.safetensors", "../model-1-of-2.safetensors"])
def test_a_description_that_names_other_files_is_refused(name, saved):
    folder, _ = saved
    content = json.loads((folder / "run.json").read_text())
    content["about"].pop("sha256")
    content["checkpoint"]["files"][name] = content["checkpoint"]["files"].pop("model-1-of-2.safetensors")
    (folder / "run.json").write_text(json.dumps(content))
    with pytest.raises(RunFolderError, match="was altered: missing or unexpected"):
        read_run(folder)

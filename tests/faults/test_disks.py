"""Disks that are really full or read-only: one line, nothing lost, and the same call goes on when there is room."""

import os
import subprocess
from pathlib import Path

import pytest

from refusal import refused
from tiny_training import complete, equal, model, open_run, snapshot
from torsor.report import write_report
from torsor.text import CharacterTokenizer, JsonLines, Preparation, PreparedText
from torsor.training import load_weights

KEPT = ("metrics.jsonl", "evaluation.json", "checkpoint/model.safetensors", "checkpoint/training.safetensors")
PAGE = 4096


def mount(*arguments: str) -> None:
    """Mount, or skip with what the system says."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"this system mounts no tmpfs for a test: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    """A disk of 256 KiB."""
    if os.geteuid():
        pytest.skip("only root may mount a disk")
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=256k", "torsor", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, free: int) -> Path:
    """Leave so many bytes of it free."""
    ballast = disk / "ballast"
    there = os.statvfs(disk)
    ballast.write_bytes(bytes(there.f_bavail * there.f_frsize - free))
    return ballast


@pytest.mark.parametrize("pages", [0, 1, 2, 4, 6, 9])
def test_training_on_a_full_disk_is_one_line_and_goes_on_when_there_is_room(disk, tmp_path, pages):
    complete(tmp_path / "whole", updates=12, every=2)
    ballast = fill(disk, pages * PAGE)
    with refused("^cannot (use|write) .*No space left on device"):
        complete(disk / "run", updates=12, every=2)
    ballast.unlink()
    complete(disk / "run", updates=12, every=2)
    found, whole = snapshot(disk / "run"), snapshot(tmp_path / "whole")
    assert found.keys() == whole.keys()
    assert all(found[name] == whole[name] for name in KEPT)


def test_a_checkpoint_is_kept_when_the_disk_fills_up_after_it(disk):
    complete(disk / "run", updates=4, every=2)
    before = snapshot(disk / "run")
    load_weights(disk / "run", kept := model())
    ballast = fill(disk, 0)
    with refused("^cannot write .*evaluation.json: No space left on device"), open_run(disk / "run") as run:
        run.replace_json("evaluation.json", {"bits": 1.0})
    ballast.unlink()
    open_run(disk / "run").close()
    assert snapshot(disk / "run") == before
    load_weights(disk / "run", again := model(seed=1))
    assert equal(dict(kept.state_dict()), dict(again.state_dict()))


def prepare(corpus: Path, folder: Path) -> None:
    for _ in Preparation(JsonLines(corpus), CharacterTokenizer("abc"), validation=0.2).into(folder):
        pass


@pytest.fixture
def corpus(tmp_path) -> Path:
    path = tmp_path / "corpus.jsonl"
    path.write_text("".join(f'{{"text": "{"abc"[n % 3] * (n % 40)}{"abc" * (n % 7)}"}}\n' for n in range(900)))
    return path


@pytest.mark.parametrize("pages", [0, 1, 3, 6])
def test_preparing_on_a_full_disk_is_one_line_and_goes_on_when_there_is_room(disk, tmp_path, corpus, pages):
    prepare(corpus, tmp_path / "whole")
    ballast = fill(disk, pages * PAGE)
    with refused("^cannot write .*No space left on device"):
        prepare(corpus, disk / "out")
    ballast.unlink()
    prepare(corpus, disk / "out")
    assert snapshot(disk / "out") == snapshot(tmp_path / "whole")


def test_a_report_on_a_full_disk_is_one_line_and_the_earlier_page_stays(disk, tmp_path):
    complete(tmp_path / "run", updates=2, every=2)
    write_report([tmp_path / "run"], disk / "page.html", "torsor report run")
    before = snapshot(disk)
    ballast = fill(disk, PAGE)
    with refused("^cannot write .*page.html: No space left on device"):
        write_report([tmp_path / "run"], disk / "page.html", "torsor report run")
    ballast.unlink()
    assert snapshot(disk) == before


def test_what_is_read_only_can_be_read_and_every_writer_says_so_in_one_line(disk, corpus, tmp_path):
    complete(disk / "run", updates=2, every=2)
    prepare(corpus, disk / "out")
    before = snapshot(disk)
    mount("-o", "remount,ro", str(disk))
    load_weights(disk / "run", model())
    PreparedText.open(disk / "out")
    write_report([disk / "run"], tmp_path / "page.html", "torsor report run")
    for action, line in (
        (lambda: open_run(disk / "run"), "cannot use .*run as a run folder: Read-only file system"),
        (lambda: open_run(disk / "new"), "cannot use .*new as a run folder: Read-only file system"),
        (lambda: prepare(corpus, disk / "other"), "cannot write .*other: Read-only file system"),
        (
            lambda: write_report([disk / "run"], disk / "page.html", ""),
            "cannot write .*page.html: Read-only file system",
        ),
    ):
        with refused(f"^{line}$"):
            action()
    assert snapshot(disk) == before

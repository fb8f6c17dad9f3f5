"""Ctrl-C, sent to a real process in the middle of its work: one line with the command that goes on, and no trace."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAIN = "train rotate-the-loop/s3 --width 16 --heads 2 --length 4 --words 20 --threads 1"
GOES_ON, BEGINS_AGAIN = "go on from its last checkpoint with", "nothing is kept of it; begin again with"
RUN_BEGINS_AGAIN = "this run begins again, those that ended are kept; go on with"
# Whoever runs the tests in the background has a shell that ignores Ctrl-C, and its children inherit that.
PROGRAM = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from torsor.cli import main; main()"


# An interruption at the moment at which a module is first looked for.
WHILE_IMPORTING = """
import os, signal, sys

wanted = sys.argv.pop(1)

class Interrupting:
    def find_spec(name, *_):
        if name == wanted:
            sys.meta_path.remove(Interrupting)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
"""


def started(command: str, folder: Path, before: str = "") -> subprocess.Popen:
    given = {name: value for name, value in os.environ.items() if name != "TORSOR_DATA"}
    return subprocess.Popen(
        [sys.executable, "-c", before + PROGRAM, *shlex.split(command)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**given, "OMP_NUM_THREADS": "1", "TORSOR_DATA": str(folder / "data")},
    )


def interrupted(command: str, folder: Path, begun) -> str:
    """What a command says last when it is interrupted once ``begun`` is true, and after a second at work."""
    process = started(command, folder)
    deadline = time.monotonic() + 240
    while not begun() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in said
    return said.splitlines()[-1]


def has_lines(path: Path, least: int = 3):
    return lambda: path.is_file() and path.read_bytes().count(b"\n") >= least


def is_loaded(folder: Path):
    """A command that leaves no file: what it does takes far longer than torch to import."""
    until = time.monotonic() + 15
    return lambda: time.monotonic() > until


def test_an_interrupted_training_prints_the_command_that_ends_it(tmp_path):
    command = f"{TRAIN} --updates 3000 --checkpoint-every 10 --out run"
    last = interrupted(command, tmp_path, has_lines(tmp_path / "run" / "metrics.jsonl", 30))
    assert last == f"torsor: interrupted; {GOES_ON}: torsor {command}"
    lines = (tmp_path / "run" / "metrics.jsonl").read_bytes()
    again = interrupted(
        last.rpartition(": torsor ")[2],
        tmp_path,
        lambda: len((tmp_path / "run" / "metrics.jsonl").read_bytes()) > len(lines) + 2000,
    )
    assert again == last
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes().startswith(b"".join(lines.splitlines(True)[:20]))


@pytest.mark.parametrize("module", ["torsor.cli.app", "cyclopts", "torsor.experiments.catalogue", "torch", "numpy"])
def test_an_interruption_while_the_program_starts_is_one_line(module, tmp_path):
    command = f"{TRAIN} --updates 3 --out run"
    process = started(f"{module} {command}", tmp_path, WHILE_IMPORTING)
    out, said = process.communicate(timeout=120)
    assert said == f"torsor: interrupted; nothing had begun; start again with: torsor {command}\n"
    assert (process.returncode, out) == (130, "")
    assert not any(tmp_path.iterdir())


def test_a_training_interrupted_before_its_first_checkpoint_begins_again(tmp_path):
    command = f"{TRAIN} --updates 3000 --checkpoint-every 3000 --out run"
    last = interrupted(command, tmp_path, has_lines(tmp_path / "run" / "metrics.jsonl"))
    assert last == f"torsor: interrupted; it has no checkpoint yet; begin again with: torsor {command}"


def corpus(folder: Path) -> str:
    (folder / "text.jsonl").write_text('{"text": "abcd efgh ijkl mnop"}\n' * 2_000_000)
    return "data prepare --source text.jsonl --train-tokenizer 300 --out prepared"


LONG = {
    "table": (
        lambda folder: "table rotate-the-loop/s5 --updates 2000 --threads 1 --out tables",
        lambda folder: lambda: any(has_lines(path)() for path in folder.rglob("metrics.jsonl")),
        RUN_BEGINS_AGAIN,
    ),
    "demo": (
        lambda folder: "demo --updates 2000 --threads 1 --out demo",
        lambda folder: has_lines(folder / "demo" / "diagonal-0" / "metrics.jsonl"),
        RUN_BEGINS_AGAIN,
    ),
    "data prepare": (corpus, lambda folder: (folder / "prepared").is_dir, GOES_ON),
    "bench": (lambda folder: "bench looped --rounds 500 --threads 1", is_loaded, BEGINS_AGAIN),
    "track": (
        lambda folder: "track --model slow_model:model --group S5 --words 4000 --lengths 4096",
        is_loaded,
        BEGINS_AGAIN,
    ),
}
SLOW = """
import torch
def model():
    return torch.nn.Sequential(torch.nn.Embedding(200, 64), torch.nn.Linear(64, 2048), torch.nn.Linear(2048, 120))
"""


@pytest.mark.long
@pytest.mark.parametrize("name", LONG)
def test_every_long_command_that_is_interrupted_prints_how_to_go_on(name, tmp_path):
    command, begun, how = LONG[name]
    (tmp_path / "slow_model.py").write_text(SLOW)
    typed = command(tmp_path)
    assert interrupted(typed, tmp_path, begun(tmp_path)) == f"torsor: interrupted; {how}: torsor {typed}"

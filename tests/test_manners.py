"""The command line's manners: what it lists and suggests, what it finds out, how it waits, what it says to a pipe."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import torch

from torsor.cli import doctor, main, patience
from torsor.cli.listing import GROUPS
from torsor.cli.patience import shown_waiting
from torsor.experiments.catalogue import EXPERIMENTS, TABLES

ROOT = Path(__file__).parents[1]
PROGRAM = """
import sys
from torsor.cli import main
try:
    main()
finally:
    if "torch" in sys.modules:
        print("torch was imported")
"""
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _torsor
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def program(*words: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    assert "torch was imported" not in done.stdout
    return done.stdout


def test_everything_is_listed_under_its_paper(capsys):
    assert {name.partition("/")[0] for name in (*EXPERIMENTS, *TABLES)} == set(GROUPS)
    assert run("list") == 0
    out = capsys.readouterr().out
    for each in (*EXPERIMENTS.values(), *TABLES.values(), *GROUPS.values()):
        assert (each if isinstance(each, str) else each.name) in out
    assert out.count("\ntrain ") == out.count("\ntable ") + 1 == len(GROUPS)  # the cosets have no table


def test_a_program_reads_the_list(capsys):
    assert run("list --json") == 0
    content = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in content["experiments"]] == list(EXPERIMENTS)
    assert [each["name"] for each in content["tables"]] == list(TABLES)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bench loped", "there is no torsor bench loped; did you mean 'looped'?"),
        ("list everything", "torsor list takes no further word, got 'everything'"),
        ("data fetch tiny-shakespere", "did you mean 'tiny-shakespeare'?"),
        ("table rotate-the-loop/a6", "did you mean 'rotate-the-loop/a5'?"),
        ("plan rotate-the-loop/a6", "did you mean 'rotate-the-loop/a5'?"),
        ("table rotate-the-loop/a5 --rows diagnal --dry-run", "did you mean 'diagonal'?"),
        ("data lst", 'Did you mean "list"?'),
        ("measure x --jsn", "Did you mean --json?"),
    ],
)
def test_a_slip_of_the_hand_is_answered_with_the_nearest_name(command, said, capsys):
    assert run(command) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_the_doctor_knows_every_extra():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(doctor.EXTRAS) == set(declared) - {"test", "dev"}
    for extra, (_, packages) in doctor.EXTRAS.items():
        assert set(packages) == {re.match(r"[\w-]+", each)[0] for each in declared[extra]}


def test_the_doctor_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORSOR_DATA", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setitem(doctor.EXTRAS, "hub", ("streams", ("no-such-package",)))
    assert run("doctor --json") == 0
    content = json.loads(capsys.readouterr().out)
    assert content["works"]
    found = {each["name"]: each for group in ("extras", "machine", "data") for each in content[group]}
    assert found["hub"]["state"] == "absent"
    assert found["hub"]["advice"] == "pip install 'torsor[hub]'"
    assert found["hf"]["what"].startswith("transformers ")
    assert found["tiny-shakespeare"]["advice"] == "torsor data fetch tiny-shakespeare"
    assert "OMP_NUM_THREADS=1" in found["threads"]["what"]
    assert found["maps"]["state"] == "ok"


def test_what_the_doctor_finds_wrong_is_one_line_and_an_exit_of_2(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORSOR_DATA", str(tmp_path))
    monkeypatch.setattr(doctor, "PACKAGES", ("torch", "no-such-package"))
    (tmp_path / "tiny-shakespeare").mkdir()
    for file in doctor.DATASETS["tiny-shakespeare"].files:
        (tmp_path / file.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.path).write_text("something else")
    assert run("doctor") == 2
    caught = capsys.readouterr()
    assert "pip install no-such-package" in caught.err
    assert "torsor data verify tiny-shakespeare" in caught.err
    assert caught.err.count("\n") == 1
    assert "wrong   no-such-package" in caught.out


def test_a_pipe_gets_no_colours_and_a_terminal_none_where_no_color_is_set():
    assert "\x1b" not in program("list", TERM="xterm-256color")
    assert "\x1b" not in program("train", "--help", TERM="xterm-256color")
    shown = on_a_terminal("train", "--help", NO_COLOR="1")
    assert "rotate-the-loop/s3" in shown
    assert not re.search(r"\x1b\[[\d;]*\b(3[0-8]|4[0-8]|9\d)", shown)
    assert re.search(r"\x1b\[[\d;]*\b(3[0-8]|4[0-8]|9\d)", on_a_terminal("train", "--help"))


def on_a_terminal(*words: str, **environment: str) -> str:
    """What a command prints where its output is a terminal."""
    ours, theirs = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**given, "TERM": "xterm-256color", **environment},
    ):
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # how Linux says that the other end is closed
            pass
        os.close(ours)
    return shown.decode()


def test_the_shell_completes_commands_experiments_and_options(tmp_path):
    script = tmp_path / "torsor.bash"
    home = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    program("--install-completion", "--shell", "bash", "--output", str(script), **home)
    for words, completed in (
        (["mea"], ["measure"]),
        (["train", "rotate-the-loop/s"], ["rotate-the-loop/s3", "rotate-the-loop/s5"]),
        (["train", "rotate-the-loop/s3", "--wid"], ["--width"]),
        (["train", "rotate-the-loop/s3", "--scale", ""], ["laptop", "paper"]),
    ):
        done = subprocess.run(
            ["bash", "-c", COMPLETE, "bash", script, "torsor", *words], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == completed


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self):
        return True


def test_what_goes_on_is_said_on_a_terminal_once_it_has_taken_a_while(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    for wait, stream, said in ((0.05, Terminal(), True), (60.0, Terminal(), False), (0.0, io.StringIO(), False)):
        monkeypatch.setattr(patience, "PATIENCE", wait)
        monkeypatch.setattr(sys, "stderr", stream)
        with shown_waiting("measuring a run"):
            time.sleep(0.4)
        assert ("measuring a run" in stream.getvalue()) == said

"""The command line's manners: what it lists and suggests, what it finds out, how it waits, what it says to a pipe."""

import inspect
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

from torsor.bench.catalogue import CASES
from torsor.cli import doctor, main, patience
from torsor.cli.app import app
from torsor.cli.listing import GROUPS
from torsor.cli.pace import Pace
from torsor.cli.patience import shown_waiting
from torsor.cli.shown_left import shown_left
from torsor.cli.table import counted
from torsor.experiments.catalogue import EXPERIMENTS, TABLES
from torsor.experiments.listening import listening, tell, telling_draws
from torsor.experiments.table_run import Order
from torsor.interop.watched_folder import watched_folder

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
    also = {each["name"]: each["also"] for each in content["tables"]}
    assert also["subgroups/2"] == ["subgroups/tiny-shakespeare-100k"]
    assert also["subgroups/6"] == []


def test_a_table_of_two_names_has_one_line_that_says_both(capsys):
    assert run("list") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "subgroups/tiny-shakespeare-100k " in line]
    assert len(lines) == 2  # the experiment and the table
    (line,) = (line for line in lines if "also subgroups/2)" in line)
    assert line.split()[:2] == ["table", "subgroups/tiny-shakespeare-100k"]


BEFORE_TORCH = """
import io, json, sys
from contextlib import redirect_stderr
from torsor.cli import main
told = []
for command in json.loads(sys.argv[1]):
    with redirect_stderr(io.StringIO()) as said:
        try:
            main(command.split())
        except SystemExit as ending:
            told.append([ending.code, said.getvalue(), "torch" in sys.modules])
print(json.dumps(told))
"""
SLIPS = {
    "train rotate-the-loop/s3 --group Q": "nearest to 'Q': Q8",
    "train tracking/a5 --group A5xQ": "nearest to 'Q': Q8",
    "train recurrent/s3 --group Q": "nearest to 'Q': Q8",
    "plan rotate-the-loop/a5 --group Q": "nearest to 'Q': Q8",
    "track --model a:b --group Q": "nearest to 'Q': Q8",
    "train rotate-the-loop/s3 --lr fast": "Invalid value for --lr",
    "table rotate-the-loop/a5 --lr fast": "Invalid value for --lr",
    "table rotate-the-loop/a6": "did you mean 'rotate-the-loop/a5'?",
    "table rotate-the-loop/a5 --rows diagnal": "did you mean 'diagonal'?",
    "plan rotate-the-loop/s3 --gpu h10": "did you mean 'h100'?",
    "demo --seeds 0": "seeds must be at least 1, got 0",
    **{f"{name} nowhere": "nowhere is no run folder" for name in ("measure", "explore", "track", "generate")},
    "export nowhere --to hf": "nowhere is no run folder",
}


def test_a_slip_in_a_name_or_a_value_is_answered_before_torch_is_imported(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BEFORE_TORCH, json.dumps(list(SLIPS))],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    told = json.loads(done.stdout)
    for (command, words), (code, said, torch_is_there) in zip(SLIPS.items(), told, strict=True):
        assert (code, torch_is_there) == (2, False), command
        assert words in said, command
    assert not any(tmp_path.iterdir())


def test_a_learning_rate_may_be_typed_as_lr(capsys):
    assert run("train rotate-the-loop/s3 --lr 0") == 2
    assert capsys.readouterr().err == "torsor: learning_rate must be positive and finite, got 0.0\n"


def test_a_number_of_threads_that_no_machine_has_is_one_line_of_every_bench(capsys):
    for words in ("looped", "exponential", "streaming", "group-transformer", "generation", "all"):
        assert run(f"bench {words} --threads 0") == 2
        assert capsys.readouterr().err == "torsor: threads must be at least 1, got 0\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bench all loped", "did you mean 'looped'?"),
        ("bench profile lopped", "did you mean 'looped'?"),
        ("train rotate-the-lop/s3", "did you mean 'rotate-the-loop/s3'?"),
        ("train s3 --seed 3", "there is no experiment 's3'; did you mean 'rotate-the-loop/s3' or 'recurrent/s3'?"),
        ("train S3 --json", "did you mean 'rotate-the-loop/s3' or 'recurrent/s3'?"),
        ("train Rotate-The-Loop/S3", "did you mean 'rotate-the-loop/s3'?"),
        ("train paper/list-ops", "did you mean 'recurrent/list-ops'?"),
        ("train rotate-the-loop", "of rotate-the-loop there are: rotate-the-loop/s3, rotate-the-loop/a5, "),
        ("train cosets/", "of cosets there are: cosets/plateau, cosets/passage\n"),
        ("train langage --width 4", "did you mean 'rotate-the-loop/language'?"),
        ("train --seed 3", "name an experiment: torsor train EXPERIMENT; there are: "),
        ("plan A5 --gpu h100", "did you mean 'rotate-the-loop/a5' or 'tracking/a5'?"),
        ("table A5 --width 16", "there is no table 'A5'; did you mean 'rotate-the-loop/a5'?"),
        ("table rotate-the-loop/a5 --wdith 16", "Did you mean --width?"),
        ("table rotate-the-loop/a5 --verifi", "Did you mean --verify?"),
        ("table A5 --dry-run", "there is no table 'A5'; did you mean 'rotate-the-loop/a5'?"),
        ("table subgroup", "of subgroups there are: subgroups/tiny-shakespeare-100k, "),
        ("data prepare", "name what to read: --source FILE or FOLDER of .parquet, .jsonl or .txt, fineweb, "),
        ("data prepare nowhere", "there is no file or folder nowhere, and no data set of that name; there are: fine"),
        (f"data prepare {ROOT}/README.md", "name the folder to fill: --out FOLDER"),
        ("train rotate-the-loop/s3 --wdith 4", "Did you mean --width?"),
        ("train rotate-the-loop/s3 --transition diagnal", 'Did you mean "diagonal"?'),
        ("train subgroups/tiny-shakespeare-recurrent --model lstn", 'Did you mean "lstm"?'),
        ("train rotate-the-loop/language --text tiny-shakespere", "did you mean 'tiny-shakespeare'?"),
        ("plan rotate-the-loop/s3 --gpu h10", "did you mean 'h100'?"),
        ("track --model a:b --group S5Q", "nearest to 'S5Q': S5"),
        ("data verify tiny-shakespere", "did you mean 'tiny-shakespeare'?"),
        ("data prepare --source fineweb-ed --tokenizer gpt2 --out nowhere", "did you mean 'fineweb-edu'?"),
        (f"data prepare --source {__file__[:-3]}.md --tokenizer x --out nowhere", "there is no file or folder"),
        (f"data prepare --source {ROOT}/README.md --tokenizer charcters --out nowhere", "did you mean 'characters'?"),
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


def commands(app, chain=()):
    """Every command that does something, with the arguments of its function."""
    for name in app:
        if not name.startswith("-"):
            yield from commands(app[name], (*chain, name))
    if app.default_command:
        yield " ".join(chain), inspect.signature(app.default_command).parameters


def test_every_command_prints_json_where_a_program_may_read():
    lacking = {name.partition(" ")[0] for name, given in commands(app) if "as_json" not in given}
    # the two that need a name, a text that is streamed, and a profile, which is a text
    assert lacking == {"train", "plan", "generate", "bench"}
    for name, given in commands(app):
        group, _, rest = name.partition(" ")
        if group in {"train", "plan"} and rest:
            assert "as_json" in given
        if group == "bench":
            assert "as_json" in given or rest == "profile"


def test_what_a_command_has_done_is_read_by_a_program(tmp_path, capsys):
    tiny = "--width 8 --heads 2 --length 3 --updates 2 --batch 2 --words 4 --threads 1"
    path, page, text = tmp_path / "run", tmp_path / "page.html", tmp_path / "text.txt"
    text.write_text("abc " * 40)

    def told(command):
        assert run(f"{command} --json") == 0
        return json.loads(capsys.readouterr().out)

    trained = told(f"train rotate-the-loop/s3 {tiny} --out {path}")
    assert trained == {"run": str(path), "evaluation": json.loads((path / "evaluation.json").read_text())}
    assert told(f"report {path} --out {page}") == {"report": str(page), "replaced": False}
    assert told(f"explore {path} --out {page}") == {"explorer": str(page), "replaced": True}
    exported = told(f"export {path} --to hf --out {tmp_path / 'hf'}")
    assert exported["class"] == "AutoModelForTokenClassification"
    prepared = told(f"data prepare --source {text} --tokenizer characters --out {tmp_path / 'tokens'}")
    assert prepared["parts"]["training"]["documents"] == 1
    assert told(f"data verify {tmp_path / 'tokens'}")["verified"]
    assert {each["name"] for each in told("bench")["cases"]} == set(CASES)


def test_how_long_it_still_takes_is_said_after_two_seconds_and_now_and_then(monkeypatch, capsys):
    clock = [0.0]
    for module in ("shown_left", "pace"):
        monkeypatch.setattr(f"torsor.cli.{module}.monotonic", lambda: clock[0])
    monkeypatch.setattr("torsor.cli.shown_left.PATIENCE", patience.PATIENCE)
    with shown_left("it: "):
        for second in range(41):
            clock[0] = float(second)
            tell("a half", 40 + second, 80)  # half of it was there before
    assert capsys.readouterr().err.splitlines() == [
        "it: a half  52 %  38 s left",
        "it: a half  71 %  23 s left",
        "it: a half  90 %  8 s left",
    ]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("bench conformal-growth --quick --json", r"^timing .*  \d+ %  \d+ s left$"),
        ("bench streaming --quick --json", r"^timing LSTM, GRU, .*  \d+ %  \d+ s left$"),
        ("plan rotate-the-loop/s3 --scale laptop --json", r"^counting operations  50 %  \d+ s left$"),
        (
            "train rotate-the-loop/s3 --width 8 --heads 2 --length 3 --updates 2 --batch 2 --words 1001 --threads 1",
            r"run  scoring  \d+ %  \d+ s left$",
        ),
    ],
)
def test_what_takes_long_says_how_long_on_stderr_and_nothing_of_it_on_stdout(
    command, said, tmp_path, monkeypatch, capsys
):
    for name in ("PATIENCE", "LINE_EVERY"):
        monkeypatch.setattr(f"torsor.cli.shown_left.{name}", 0.0)
    out = "" if command.startswith(("bench", "plan")) else f" --out {tmp_path / 'run'}"
    assert run(command + out) == 0
    captured = capsys.readouterr()
    assert re.search(said, captured.err, re.M)
    assert " left" not in captured.out
    if "--json" in command:
        json.loads(captured.out)


def told_on_stderr(command: str, monkeypatch, capsys) -> dict[str, list[int]]:
    """The shares that a command's lines have said, by what goes on."""
    for name in ("PATIENCE", "LINE_EVERY"):
        monkeypatch.setattr(f"torsor.cli.shown_left.{name}", 0.0)
    assert run(command) == 0
    captured = capsys.readouterr()
    assert " left" not in captured.out
    told = {}
    for line in captured.err.splitlines():
        what, share, left = line.rsplit("  ", 2)
        assert re.fullmatch(r"\d+ s left", left)
        told.setdefault(what, []).append(int(share.removesuffix(" %")))
    return told


def test_what_a_large_run_s_export_measure_and_explore_wait_for_is_told_to_its_end(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("torsor.interop.watched_folder.EVERY", 0.001)
    monkeypatch.setattr("torsor.training.durable.AT_ONCE", 4096)
    path = tmp_path / "run"
    tiny = "--width 16 --heads 2 --length 3 --updates 1 --batch 2 --words 4 --threads 1"
    assert run(f"train rotate-the-loop/s3 {tiny} --out {path}") == 0
    capsys.readouterr()
    for command, whats in (
        (f"measure {path}", {"building the model", "checking the checkpoint", "measuring the map"}),
        (f"explore {path} --out {tmp_path / 'page.html'}", {"building the model", "checking the checkpoint"}),
        (
            f"export {path} --out {tmp_path / 'hf'}",
            {"building the model", "checking the checkpoint", "writing the weights"},
        ),
    ):
        told = told_on_stderr(command, monkeypatch, capsys)
        assert set(told) == whats, command
        for what, shares in told.items():
            assert shares[-1] == 100, what
            for each in split_where_it_falls(shares):
                assert each == sorted(each)
        for what in {"building the model", "checking the checkpoint"}:
            assert len(set(told[what])) > 3, what  # on the way, too


def split_where_it_falls(shares: list[int]) -> list[list[int]]:
    """The measures of a map twice, say: the untrained one and the trained."""
    falls = [place for place in range(1, len(shares)) if shares[place - 1] == 100]
    return [shares[start:end] for start, end in zip([0, *falls], [*falls, len(shares)], strict=True)]


def test_what_is_written_by_another_s_code_is_told_in_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr("torsor.interop.watched_folder.EVERY", 0.01)
    told = []

    def watch(done: int, of: int) -> None:
        told.append((done, of))

    def fail() -> None:
        with watched_folder(tmp_path, 300, watch):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (300, 300) not in told  # what failed is not said to be done
    told.clear()
    with watched_folder(tmp_path, 300, watch):
        (tmp_path / "a").write_bytes(bytes(100))
        while (100, 300) not in told:
            time.sleep(0.01)
    assert told[0] == (0, 300)
    assert told[-1] == (300, 300)
    with watched_folder(tmp_path, 50, watch):
        while told[-1] != (50, 50):  # never more than was thought
            time.sleep(0.01)
    assert {done <= of for done, of in told} == {True}


def test_a_model_is_built_alike_whether_somebody_listens_or_not(tmp_path):
    build = EXPERIMENTS["rotate-the-loop/s3"].build
    given = EXPERIMENTS["rotate-the-loop/s3"].arguments(width=16, heads=2)
    alone = build(**given).model.state_dict()
    parameters = sum(each.numel() for each in build(**given).model.parameters())
    shares = []
    with listening(lambda _, share: shares.append(share)), telling_draws(parameters, "building the model"):
        watched = build(**given).model.state_dict()
    assert all(torch.equal(watched[name], value) for name, value in alone.items())
    assert shares[-2] > 0.8  # what is drawn is most of the model
    assert shares == sorted(shares)


def test_after_each_run_a_table_says_how_many_are_left_and_for_how_long(tmp_path, monkeypatch, capsys):
    clock = [0.0]
    monkeypatch.setattr("torsor.cli.table.monotonic", lambda: clock[0])
    table = TABLES["rotate-the-loop/a5"]
    followed = counted(Order(table, table.rows[:2], "laptop", 2, tmp_path), lambda _updates, _path: None)
    for second in (10.0, 30.0, 60.0, 90.0):
        clock[0] = second
        followed(iter(()), tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        "rotate-the-loop/a5  1 of at most 4 runs  at most 30 s left",
        "rotate-the-loop/a5  2 of at most 4 runs  at most 30 s left",
        "rotate-the-loop/a5  3 of at most 4 runs  at most 20 s left",
    ]


def test_a_bar_is_drawn_on_a_terminal_and_leaves_stdout_alone(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("torsor.cli.shown_left.PATIENCE", 0.0)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_left():
        for done in range(4):
            tell("it", done, 4)
            time.sleep(0.01)
        print("a result")
        tell("it", 4, 4)
    assert capsys.readouterr().out == "a result\n"
    assert "it" in stream.getvalue()
    assert "0 s left" in stream.getvalue()


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
        (["table", "rotate-the-loop/s5", "--wid"], ["--width"]),
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


def test_what_tells_how_far_it_is_has_its_time_left_on_the_line_that_waits(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    clock = [0.0]
    monkeypatch.setattr("torsor.cli.pace.monotonic", lambda: clock[0])
    monkeypatch.setattr(patience, "PATIENCE", 0.05)
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_left(), shown_waiting("drawing the page"):
        tell("reading runs", 0, 4)
        clock[0] = 5.0
        tell("reading runs", 1, 4)
        time.sleep(0.4)
    assert "reading runs" in stream.getvalue()
    assert "25 %  15 s left" in stream.getvalue()
    assert "━" in stream.getvalue()  # a bar


def test_a_thing_that_begins_anew_has_a_pace_of_its_own(monkeypatch):
    clock, pace = [0.0], Pace()
    monkeypatch.setattr("torsor.cli.pace.monotonic", lambda: clock[0])
    told = []
    for second, share in ((0.0, 0.0), (10.0, 0.5), (20.0, 0.0), (21.0, 0.5)):
        clock[0] = second
        told.append(pace.left("it", share))
    assert told == [None, 10.0, None, 1.0]  # 21.0 where the first attempt were counted


def test_the_program_is_the_package_too_and_a_reader_that_has_enough_ends_it_quietly():
    told = subprocess.run([sys.executable, "-m", "torsor", "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == program("--version")
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run([sys.executable, "-m", "torsor", "list", "--json"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert ended.returncode == 141
    assert ended.stderr == b""

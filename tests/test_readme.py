"""Every line of the README's shell blocks is carried out: made short in every run, as it is printed in a long one."""

import hashlib
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from torsor.cli import main
from torsor.cli.app import app
from torsor.text import DATASETS, DataFile, DataSet

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)  # with its end
BLOCKS = FENCED.findall(README)
LINES = [
    line.partition("#")[0].strip()
    for kind, block in BLOCKS
    if not kind
    for line in block.splitlines()
    if not line.startswith("#")
]
COMMANDS = [line for line in LINES if line.startswith("torsor ")]

WORDS = "to be or not to be, that is the question: whether it is nobler in the mind to suffer"

# What takes minutes is made short by options that come after the printed line, and by nothing else.
S3 = "--updates 2 --width 16 --heads 2 --length 4 --batch 4 --words 8 --threads 1"
A5 = "--updates 2 --batch 4 --length 4 --width 16 --words 8"
SHORTENED = {
    # a table's three lines must name the same runs: 3 rows of 3,000 updates of width 128
    "torsor table rotate-the-loop/a5 --dry-run": A5,
    "torsor table rotate-the-loop/a5 --picture runs/a5.svg": f"{A5} --threads 1",
    "torsor table rotate-the-loop/a5 --verify": f"{A5} --threads 1",
    "torsor table rotate-the-loop/a5": f"{A5} --threads 1",
    # a forward and a backward pass are counted, of width 128 or 512
    "torsor plan rotate-the-loop/a5": "--width 16 --length 4",
    "torsor plan rotate-the-loop/a5 --scale paper --gpu h100 --gpus 8": "--width 16 --length 4",
    # it streams to a million letters, and scores 500 words of each length
    "torsor track --model my_models:tracker --group S3 --alphabet all --lengths 16,64 --out runs/tracked": (
        "--words 4 --stream 64 --threads 1"
    ),
    "torsor track runs/s3-0": "--words 4 --lengths 4 --threads 1",
    # 1,000 updates or more
    "torsor train rotate-the-loop/s3 --device cpu --devices 2 --out runs/s3-two": S3,
    "torsor train rotate-the-loop/s3": S3,
    "torsor train rotate-the-loop/s3 --transition diagonal --out runs/s3-diagonal": S3,
    "torsor train tracking/a5": (
        "--updates 2 --batch 4 --length 16 --words 8 --stream-length 64 --stream-words 2 --threads 1"
    ),
    "torsor train rotate-the-loop/language": (
        "--text made.txt --shrink 32 --entries 280 --context 16 --batch 2 --updates 2 --mean-steps 2.0 "
        "--largest-steps 3 --grad-steps 1 --positions 60 --threads 1"
    ),
    "torsor train subgroups/tiny-shakespeare-recurrent": (
        "--width 4 --context 8 --updates 2 --batch 2 --warmup 1 --threads 1"
    ),
    # 500 characters
    "torsor generate runs/tiny-shakespeare-recurrent-0": "--characters 8 --threads 1",
    # a test touches no network
    "torsor data fetch tiny-shakespeare": "--from made.txt --offline",
    # 12 rounds of training steps of width 128 and 512
    "torsor bench looped": "--quick --threads 1",
}
AS_PRINTED = {
    "torsor list",
    "torsor measure runs/s3-0",
    "torsor explore runs/s3-0",
    "torsor report runs/tracked",
    "torsor report runs/s3-0 runs/s3-diagonal",
    "torsor export runs/s3-0 --to hf",
    "torsor doctor",
    "torsor --install-completion",
}
# Of what is no command of torsor's: both installations are tested by the long tests of test_packaging.py, from what is
# shipped; the targets are asked of make below.
INSTALLED = {"pip install -c constraints.txt torch", "pip install -c constraints.txt -e '.[text]'"}
MADE_BY_MAKE = {"make demo", "make test"}
# Of the pages, what is quick once the README's lines have left their runs, in this order.
ON_PAGES = (
    ("start", "torsor train rotate-the-loop/s3 --out runs/first", S3),
    ("start", "torsor train rotate-the-loop/s3 --out runs/first", S3),  # goes on: it is finished
    ("start", "torsor report runs/first", ""),
    (
        "subgroups",
        "torsor train subgroups/tiny-shakespeare-recurrent --text mine.txt --out runs/mine",
        "--width 4 --context 8 --updates 2 --batch 2 --warmup 1 --threads 1",
    ),
    ("subgroups", "torsor generate runs/mine", "--characters 8 --threads 1"),
    (
        "tracking",
        "torsor track --model my_models:tracker --group S3 --alphabet all --lengths 16,64 --out tracked",
        "--words 4 --stream 64 --threads 1",
    ),
    ("tracking", "torsor report tracked", ""),
    ("hugging_face", "torsor export runs/language-0 --to hf --out my-model", ""),
)
OWN_PROCESSES = "--devices 2"  # they join each other, which a process does once
NEEDS = {"--to hf": "transformers", "--devices 2": "lightning_fabric", "rotate-the-loop/language": "tokenizers"}
LEAVES = {
    "runs/s3-0/evaluation.json",
    "runs/s3-two/evaluation.json",
    "runs/s3-0/hf/model.safetensors",
    "runs/s3-0/tracking.json",
    "runs/tracked/report.html",
    "tracked/report.html",
    "runs/report.html",
    "runs/a5.svg",
    "runs/tiny-shakespeare-recurrent-0/evaluation.json",
    "runs/language-0/evaluation.json",
    "runs/mine/evaluation.json",
    "explore.html",
    "runs/first/report.html",
    "my-model/tokenizer.json",
}


def typed_on(page: str) -> list[tuple[str, list[str]]]:
    """The lines of a page that the program torsor takes: in its blocks, or indented; as printed, and as words."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    blocks = [block for kind, block in FENCED.findall(text) if kind in {"", "bash", "sh", "console"}]
    indented = re.findall(r"^    (torsor .*)$", FENCED.sub("", text), re.M)
    lines = [*(line for block in blocks for line in block.splitlines()), *indented]
    lines = [line for line in lines if line.startswith("torsor ")]
    return [(line.partition(" #")[0].strip(), shlex.split(line, comments=True)[1:]) for line in lines]


PAGES = sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))


def missing(line: str) -> str | None:
    """The package of an extra that a line needs and that is not there."""
    return next((name for part, name in NEEDS.items() if part in line and find_spec(name) is None), None)


def program_in(folder: Path) -> Path:
    """The program torsor as a file: of several processes each starts it anew."""
    program = folder / "torsor"
    program.write_text("from torsor.cli import main\n\nmain()\n")
    return program


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Where somebody works who has just installed torsor: an own home, no data yet, the README's model in a file."""
    for variable in ("TORSOR_OFFLINE", "XDG_DATA_HOME", "PYTHONPATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (model,) = (block for kind, block in BLOCKS if kind and "def tracker" in block)
    (tmp_path / "my_models.py").write_text(model)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def made_text(folder, monkeypatch) -> None:
    """A small text that goes by the name of the one that is fetched."""
    monkeypatch.setenv("TORSOR_DATA", str(folder / "data"))
    chance = random.Random(0)
    words = WORDS.split()
    text = "".join(chance.choice(words) + chance.choice("  \n") for _ in range(500)).encode()
    for name in ("made.txt", "mine.txt"):
        (folder / name).write_bytes(text)
    file = DataFile("tinyshakespeare/input.txt", len(text), hashlib.sha256(text).hexdigest(), ())
    monkeypatch.setitem(DATASETS, "tiny-shakespeare", DataSet("tiny-shakespeare", "made", (file,), "mine", "me"))


def test_every_line_is_carried_out_by_one_of_these_tests():
    assert len(set(COMMANDS)) == len(COMMANDS)
    assert set(LINES) == set(SHORTENED) | AS_PRINTED | INSTALLED | MADE_BY_MAKE
    assert not set(SHORTENED) & AS_PRINTED


@pytest.mark.parametrize("page", [page for page in PAGES if typed_on(page)])
def test_every_line_of_a_page_is_taken_as_it_is_printed(page):
    for line, words in typed_on(page):
        command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
        assert command.__name__ != "unknown", line  # which takes the name of an experiment that there is not
        assert bound.arguments or len(words) < 3, line


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize("line", sorted(MADE_BY_MAKE))
def test_make_knows_the_readme_s_targets(line):
    done = subprocess.run(["make", "-n", *line.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"make demo": "torsor demo", "make test": "-m pytest"}[line] in done.stdout


def test_every_line_of_the_readme_made_short_does_its_work_in_the_order_printed(folder, made_text, monkeypatch, capsys):
    torch.set_default_dtype(torch.float32)
    program = program_in(folder)
    for page, line, _ in ON_PAGES:
        assert line in [typed for typed, _ in typed_on(f"docs/{page}.md")]
    for line, options in (*((line, SHORTENED.get(line, "")) for line in COMMANDS), *(each[1:] for each in ON_PAGES)):
        if missing(line):
            continue
        words = shlex.split(f"{line} {options}")
        if OWN_PROCESSES in line:
            done = subprocess.run(
                [sys.executable, str(program), *words[1:]],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr)
            continue
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ending:
            main(words[1:])
        said = capsys.readouterr()
        assert ending.value.code == 0, (line, said.err)
        assert said.out, line
    wanted = {name for name in LEAVES if not (missing("--to hf") and ("/hf/" in name or "my-model" in name))}
    assert {name for name in wanted if not (folder / name).is_file()} == set()
    assert any("complet" in str(each) for each in folder.rglob("*"))  # in this home, and not in the user's


LIMITS = {
    "torsor table rotate-the-loop/a5 --picture runs/a5.svg": 3 * 3600,
    "torsor train rotate-the-loop/language": 3 * 3600,
}
LIMIT = 3600  # seconds, on a machine that does other work too
TEXTS = ("rotate-the-loop/language", "subgroups/tiny-shakespeare-recurrent", "runs/tiny-shakespeare-recurrent-0")
NETWORK = "torsor data fetch"
DATA = os.environ.get("TORSOR_DATA", "")


@pytest.fixture(scope="module")
def printed_folder(tmp_path_factory) -> Path:
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("each line needs what those before it left: pytest -m long without -n")
    folder = tmp_path_factory.mktemp("printed")
    (model,) = (block for kind, block in BLOCKS if kind and "def tracker" in block)
    (folder / "my_models.py").write_text(model)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("line", COMMANDS)
def test_a_line_of_the_readme_does_its_work_exactly_as_it_is_printed(line, printed_folder):
    """In the order printed, in one folder; a text that is not in the folder TORSOR_DATA is not fetched."""
    package = missing(line)
    if package:
        pytest.skip(f"{package} is not installed")
    has_text = (Path(DATA) / DATASETS["tiny-shakespeare"].files[0].path).is_file() if DATA else False
    if not has_text and (line.startswith(NETWORK) or any(part in line for part in TEXTS)):
        pytest.skip("TORSOR_DATA names no folder that holds tiny-shakespeare, and a test touches no network")
    given = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "OMP_NUM_THREADS"}}
    done = subprocess.run(
        [sys.executable, str(program_in(printed_folder)), *line.split()[1:]],
        capture_output=True,
        text=True,
        check=False,
        cwd=printed_folder,
        env={**given, "HOME": str(printed_folder), "SHELL": "/bin/bash"},
        timeout=LIMITS.get(line, LIMIT),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout

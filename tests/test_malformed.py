"""Files of right JSON and the wrong shape: whoever reads them refuses in one line, or takes them as they are."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

from malformed import malformed

from refusal import refused
from tiny_training import complete, open_run
from torsor.cli import main
from torsor.report import write_report
from torsor.text import BytePairRecipe, CharacterTokenizer, JsonLines, Preparation, PreparedText, load_tokenizer
from torsor.training import read_run

NUMBER = int(os.environ.get("TORSOR_CHANGES", "80"))


def one_line(action) -> bool:
    """Whether it was refused; anything but one line of a ValueError fails the test."""
    said = None
    try:
        action()
    except ValueError as error:
        said = str(error)
    assert said is None or "\n" not in said, said
    return said is not None


def every_shape_is_answered(path: Path, action, number: int = NUMBER) -> None:
    good = json.loads(path.read_bytes())
    refused = 0
    for content in malformed(good, number):
        path.write_bytes(content)
        try:
            refused += one_line(action)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error} of {content[:600]!r}") from error
    assert refused > number // 4


@pytest.fixture
def run(tmp_path) -> Path:
    complete(tmp_path / "run", updates=2, every=2)
    return tmp_path / "run"


def test_a_run_file_of_any_shape_is_read_or_refused_in_one_line(run):
    content = json.loads((run / "run.json").read_bytes())
    content["about"] = {"label": "a"}  # without the checksum, which would refuse everything
    (run / "run.json").write_text(json.dumps(content))

    def read() -> None:
        described = read_run(run)
        described.check_same_run(run, described.experiment, described.arguments, described.seed)

    every_shape_is_answered(run / "run.json", read)


def test_a_name_that_breaks_the_line_is_shown_on_one(run):
    content = json.loads((run / "run.json").read_bytes())
    del content["about"]["sha256"]
    (run / "run.json").write_text(json.dumps(content | {"a\nb": 1}))
    with refused(r"run.json was altered: missing or unexpected 'a\\nb'; put a copy "):
        read_run(run)
    content["arguments"]["a\nb"] = 1
    (run / "run.json").write_text(json.dumps(content))
    with refused(r"holds a run with 'a\\nb'=1, not unset: "):
        open_run(run)


@pytest.mark.parametrize("command", ["report {}", "measure {}", "export {} --to hf", "data verify {}", "track {}"])
def test_a_path_that_no_folder_takes_is_one_line(command, capsys):
    with pytest.raises(SystemExit) as ending:
        main(command.format("x" * 300).split())
    assert ending.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("name", ["run.json", "evaluation.json"])
def test_a_report_of_files_of_any_shape_is_written_or_refused_in_one_line(run, name, tmp_path):
    path = run / name
    if name == "evaluation.json":
        depth = {"steps": 2, "joint": 0.5, "joint_interval": [0.1, 0.9], "token": 0.5, "words": 20}
        path.write_text(json.dumps({"task": {"group": "S3", "length": 6}, "trained_steps": 2, "depths": [depth]}))
    good = json.loads(path.read_bytes())
    for content in malformed(good, NUMBER // 8):
        path.write_bytes(content)
        try:
            one_line(lambda: write_report([run], tmp_path / "page.html", "torsor report"))
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error} of {content[:600]!r}") from error


def test_a_tokenizer_file_of_any_shape_is_read_or_refused_in_one_line(tmp_path):
    path = tmp_path / "tokenizer.json"
    tokenizer = BytePairRecipe(262).train(["to be or not to be"])
    tokenizer.save(path)
    good = path.read_bytes()
    every_shape_is_answered(path, lambda: load_tokenizer(path))
    path.write_bytes(good)
    assert load_tokenizer(path).sha256 == tokenizer.sha256


def test_an_index_of_any_shape_is_read_or_refused_in_one_line(tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f'{{"text": "{"abc"[n % 3] * (n % 9)}"}}\n' for n in range(30)))
    for _ in Preparation(JsonLines(corpus), CharacterTokenizer("abc")).into(tmp_path / "out"):
        pass
    path = tmp_path / "out" / "index.json"
    content = json.loads(path.read_bytes())
    del content["sha256"]  # which would refuse everything
    path.write_text(json.dumps(content))
    every_shape_is_answered(path, lambda: len(PreparedText.open(tmp_path / "out").training))


def test_a_document_of_any_shape_is_read_or_refused_in_one_line(tmp_path):
    path = tmp_path / "documents.jsonl"
    path.write_text(json.dumps({"text": "to be"}))
    every_shape_is_answered(path, lambda: list(JsonLines(path).documents()))

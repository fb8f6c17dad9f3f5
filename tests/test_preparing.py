"""Preparing text: it goes on where it was killed, and what is wrong is one line that breaks nothing."""

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from refusal import refused
from torsor.cli import main
from torsor.text import (
    BytePairRecipe,
    CharacterRecipe,
    CharacterTokenizer,
    JsonLines,
    Preparation,
    PreparedText,
    TextFiles,
    preparing,
)

LETTERS = "abcdefgh "
TEXTS = ["".join(LETTERS[(7 * k * k + 3 * k * number) % 9] for k in range(number % 23)) for number in range(120)]
ANSWER_WITHOUT_TORCH = """
import sys
from torsor.cli import main
try:
    main()
except SystemExit as ending:
    sys.exit(ending.code or ("torch" in sys.modules) * 99)
"""


def write_lines(path: Path, texts) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


@pytest.fixture
def corpus(tmp_path) -> Path:
    return write_lines(tmp_path / "corpus.jsonl", TEXTS)


@pytest.fixture
def small_pieces(monkeypatch):
    """Everything happens often, and no disk is waited for."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(preparing, "SYNC_BYTES", 300)
    monkeypatch.setattr(preparing, "CHUNK_DOCUMENTS", 4)


def prepare(corpus: Path, folder: Path, tokenizer=None, **arguments) -> PreparedText:
    arguments = {"validation": 0.2, "shard_tokens": 150, **arguments}
    for _ in Preparation(JsonLines(corpus), tokenizer or CharacterTokenizer(LETTERS), **arguments).into(folder):
        pass
    return PreparedText.open(folder)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Going on


def test_killed_at_random_moments_it_goes_on_and_leaves_the_same_bytes(tmp_path):
    corpus = write_lines(tmp_path / "corpus.jsonl", TEXTS * 12)
    program = Path(__file__).with_name("kill_and_prepare.py")
    command = [sys.executable, str(program), str(corpus), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "20 kills\n"
    whole = contents(tmp_path / "whole")
    killed = list(tmp_path.glob("killed *"))
    assert killed
    for folder in killed:
        assert contents(folder) == whole
    assert {"index.json", "tokenizer.json", "training-00002.bin", "validation-00000.bin"} <= set(whole)
    assert "preparing.json" not in whole


class Killed(BaseException):
    """What no handler of errors catches."""


def stop_at(monkeypatch, moment: int) -> None:
    """The process ends just before, or in the middle of, the ``moment``-th call that changes the disk."""
    calls = count(1)

    def counted(change, halfway=None):
        def changed(*arguments, **named):
            if next(calls) == moment:
                if halfway:
                    halfway(*arguments)
                raise Killed
            return change(*arguments, **named)

        return changed

    monkeypatch.setattr(os, "fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    append = preparing.ShardWriter.append

    def half(writer, tokens, size):
        append(writer, tokens[: len(tokens) // 2], size)

    monkeypatch.setattr(preparing.ShardWriter, "append", counted(append, half))


def test_killed_at_any_write_it_goes_on_and_leaves_the_same_bytes(corpus, tmp_path, small_pieces):
    write_lines(corpus, TEXTS[:40])
    recipe = CharacterRecipe()
    prepare(corpus, tmp_path / "whole", recipe)
    whole, moments = contents(tmp_path / "whole"), 0
    for moment in count(1):
        folder = tmp_path / f"killed at {moment}"
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, moment)
            try:
                prepare(corpus, folder, recipe)
                break
            except Killed:
                moments += 1
        assert prepare(corpus, folder, recipe).index["parts"]
        assert contents(folder) == whole, moment
        shutil.rmtree(folder)
    assert moments > 60


def test_tokens_are_on_the_disk_before_the_journal_counts_them(corpus, tmp_path, small_pieces, monkeypatch):
    events = []
    append, replace = preparing.ShardWriter.append, Path.replace
    monkeypatch.setattr(
        preparing.ShardWriter, "append", lambda *arguments: events.append("written") or append(*arguments)
    )
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: events.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
    )
    monkeypatch.setattr(Path, "replace", lambda path, to: events.append(f"to {to.name}") or replace(path, to))
    prepare(corpus, tmp_path / "out", validation=0.0)
    kept = [place for place, event in enumerate(events) if event == "to preparing.json"]
    assert len(kept) > 8
    for place in kept[1:]:
        since = events[:place][::-1]
        synced = next(back for back, event in enumerate(since) if event.startswith("training-"))
        assert "written" not in since[:synced]
    assert events[-2:] == ["to index.json", "out"] or events[-3:] == ["to index.json", "out", "out"]


def test_what_is_complete_is_not_done_again_and_what_was_begun_otherwise_is_refused(corpus, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    prepare(corpus, folder)
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    (folder / ".index.json.0.part").write_bytes(b"left")
    prepare(corpus, folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    with refused("out was begun with another validation, shard_tokens: take the same, or another folder"):
        prepare(corpus, folder, validation=0.1, shard_tokens=151)
    with refused("out was begun with another tokenizer"):
        prepare(corpus, folder, CharacterRecipe())
    write_lines(corpus, [*TEXTS[:-1], "another last"])
    with refused("out was begun with another source"):
        prepare(corpus, folder)


def test_a_source_that_changed_while_it_was_read_is_refused(corpus, tmp_path, small_pieces):
    steps = Preparation(JsonLines(corpus), CharacterTokenizer(LETTERS)).into(tmp_path / "out")
    for _ in range(5):
        next(steps)
    steps.close()
    write_lines(corpus, TEXTS[1:])
    with refused("out was begun with another source"):
        prepare(corpus, tmp_path / "out", validation=0.0, shard_tokens=preparing.SHARD_TOKENS)


def test_a_folder_of_something_else_is_refused_and_stays(corpus, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with refused("out must be empty or begun by torsor data prepare, it holds mine.txt"):
        prepare(corpus, tmp_path / "out")
    assert contents(tmp_path / "out") == {"mine.txt": b"mine"}
    with refused("cannot write .*mine.txt: File exists"):
        prepare(corpus, tmp_path / "out" / "mine.txt")


def test_one_process_at_a_time_fills_a_folder(corpus, tmp_path, small_pieces):
    steps = Preparation(JsonLines(corpus), CharacterTokenizer(LETTERS)).into(tmp_path / "out")
    next(steps)
    with refused("out is being written by another process"):
        prepare(corpus, tmp_path / "out")
    steps.close()
    prepare(corpus, tmp_path / "out", validation=0.0, shard_tokens=preparing.SHARD_TOKENS)


# A disk that refuses


@pytest.mark.parametrize("limit", [50, 700, 1800])
def test_a_full_disk_is_one_line_and_the_same_command_goes_on_when_there_is_room(limit, corpus, tmp_path, small_pieces):
    prepare(corpus, tmp_path / "whole", shard_tokens=2000)
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        with refused("cannot write .*full/.*: File too large"):
            prepare(corpus, tmp_path / "full", shard_tokens=2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
    with refused("holds no prepared text" if limit == 50 else "full is not complete"):
        PreparedText.open(tmp_path / "full")
    prepare(corpus, tmp_path / "full", shard_tokens=2000)
    assert contents(tmp_path / "full") == contents(tmp_path / "whole")


@pytest.mark.parametrize("place", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.iterdir"])
def test_any_call_that_the_disk_refuses_is_one_line(place, corpus, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(place, refuse)
        with refused("cannot write .*out.*: No space left on device"):
            prepare(corpus, tmp_path / "out")
    prepare(corpus, tmp_path / "out")


def test_a_file_that_was_cut_short_before_going_on_is_refused(corpus, tmp_path, small_pieces):
    steps = Preparation(JsonLines(corpus), CharacterTokenizer(LETTERS), validation=0.2).into(tmp_path / "out")
    for _ in range(25):
        next(steps)
    steps.close()
    (tmp_path / "out" / "training-00000.bin").write_bytes(b"")
    with refused("training-00000.bin must have at least [0-9]+ bytes to go on: remove .*out and begin again"):
        prepare(corpus, tmp_path / "out", shard_tokens=preparing.SHARD_TOKENS)


# Opening


@pytest.fixture
def prepared(corpus, tmp_path) -> Path:
    prepare(corpus, tmp_path / "out")
    return tmp_path / "out"


def test_a_file_that_is_missing_cut_short_or_altered_is_one_line_at_opening(prepared):
    path = prepared / "training-00001.bin"
    content = path.read_bytes()
    altered = content[:9] + bytes([content[9] ^ 1]) + content[10:]
    path.write_bytes(altered)
    with refused("training-00001.bin must have sha256 [0-9a-f]{64}, got [0-9a-f]{64}: it was altered"):
        PreparedText.open(prepared)
    quick = PreparedText.open(prepared, checksums=False)  # known by its size alone
    with refused("it was altered"):
        quick.verify()
    for wrong in (content[:-1], content + b"\0", b""):
        path.write_bytes(wrong)
        for checksums in (True, False):
            with refused(f"training-00001.bin must have {len(content)} bytes, got {len(wrong)}"):
                PreparedText.open(prepared, checksums=checksums)
    path.unlink()
    with refused("training-00001.bin is missing; prepare .*out again"):
        PreparedText.open(prepared, checksums=False)
    path.write_bytes(content)
    PreparedText.open(prepared)


def test_another_tokenizer_in_the_folder_is_refused_at_opening(prepared):
    CharacterTokenizer("abc").save(prepared / "tokenizer.json")
    with refused("tokenizer.json must have sha256 [0-9a-f]{64}, got [0-9a-f]{64}: it was altered"):
        PreparedText.open(prepared, checksums=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda index: {**index, "format": 2}, "index.json must be an index of format 1"),
        (lambda index: [], "index.json must be an index of format 1"),
        (lambda index: {"format": 1}, "index.json is no whole index"),
        (lambda index: {**index, "parts": {"training": {}}}, "index.json is no whole index"),
        (lambda index: {**index, "parts": 3}, "index.json is no whole index"),
        (lambda index: {**index, "width": "float"}, "the width of a token must be uint16 or uint32, got 'float'"),
    ],
)
def test_an_index_that_is_none_is_refused(change, message, prepared):
    index = json.loads((prepared / "index.json").read_text())
    (prepared / "index.json").write_text(json.dumps(change(index)))
    with refused(message):
        PreparedText.open(prepared)


def test_a_folder_that_is_not_complete_or_not_prepared_is_refused(prepared, tmp_path):
    (prepared / "index.json").rename(prepared / "preparing.json")
    with refused("out is not complete: the command that began to prepare it goes on"):
        PreparedText.open(prepared)
    with refused("holds no prepared text; make it with: torsor data prepare"):
        PreparedText.open(tmp_path)


def test_a_model_of_another_vocabulary_or_another_tokenizer_is_refused(prepared):
    text = PreparedText.open(prepared)
    text.require_vocabulary(10)
    text.require_vocabulary(64)
    text.require_tokenizer(CharacterTokenizer(LETTERS).sha256)
    with refused("vocabulary must be at least the 10 tokens of .*out, got 9"):
        text.require_vocabulary(9)
    with refused(f"must have sha256 {CharacterTokenizer('ab').sha256}, got {text.tokenizer.sha256}"):
        text.require_tokenizer(CharacterTokenizer("ab").sha256)


def test_a_text_without_held_out_documents_has_no_validation_part(corpus, tmp_path):
    text = prepare(corpus, tmp_path / "out", validation=0.0)
    with refused("out has no validation part; prepare one with --validation FRACTION"):
        _ = text.validation
    assert set(text.sha256) == {"tokenizer", "training"}


def test_nothing_but_what_the_request_and_the_source_fix_is_in_the_folder(corpus, tmp_path):
    moved = tmp_path / "elsewhere" / "corpus.jsonl"
    moved.parent.mkdir()
    shutil.copy(corpus, moved)
    prepare(corpus, tmp_path / "one")
    prepare(moved, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert str(tmp_path).encode() not in contents(tmp_path / "one")["index.json"]


# What holds no documents, or wrong ones


@pytest.mark.parametrize(
    ("texts", "arguments", "message"),
    [
        ([], {}, "the source must hold a document to train on, got none"),
        (["", ""], {}, "the source must hold a document to train on, got none"),
        (["abc"], {"validation": 1e-9}, "no document was held out of 1: validation must be larger"),
        (["abc", "abz"], {}, "document 1 of the source cannot be encoded: .* got 'z' at position 2"),
        (
            ["abc", "", "a\ud800"],
            {},
            r"document 2 of the source must be of whole characters, got '\\ud800' at position 1",
        ),
        (["abc", 3], {}, "the field 'text' of line 2 of .*corpus.jsonl must be a text, got 3"),
        (["abc"], {"tokenizer": BytePairRecipe(300)}, "no tokenizer can be made: entries must be at most"),
        (["", ""], {"tokenizer": CharacterRecipe()}, "no tokenizer can be made: symbols must hold at least one"),
    ],
)
def test_documents_that_cannot_be_prepared_are_one_line(texts, arguments, message, corpus, tmp_path):
    write_lines(corpus, texts)
    with refused(message):
        prepare(corpus, tmp_path / "out", **{"validation": 0.0, **arguments})
    with refused("not complete"):
        PreparedText.open(tmp_path / "out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"validation": 1.0}, "validation must be at least 0 and below 1, got 1.0"),
        ({"validation": -0.1}, "validation must be at least 0 and below 1, got -0.1"),
        ({"documents": 0}, "documents must be at least 1, got 0"),
        ({"tokens": 0}, "tokens must be at least 1, got 0"),
        ({"shard_tokens": 0}, "shard_tokens must be at least 1, got 0"),
    ],
)
def test_a_preparation_of_inadmissible_arguments_is_refused(arguments, message):
    with refused(message):
        Preparation(TextFiles(Path("a")), CharacterRecipe(), **arguments)


def test_a_document_that_is_wrong_is_said_to_be_of_the_source_that_has_it(tmp_path):
    corpora = [tmp_path / name for name in ("training.jsonl", "validation.jsonl")]
    for corpus, text in zip(corpora, ("abc", "abz"), strict=True):
        corpus.write_text(json.dumps({"text": text}) + "\n")
    with refused("document 0 of the validation source cannot be encoded: .* got 'z' at position 2"):
        prepare(corpora[0], tmp_path / "out", validation=JsonLines(corpora[1]))


# The command


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def test_the_command_prepares_verifies_and_says_what_it_made(corpus, tmp_path, capsys):
    out = tmp_path / "out"
    command = f"data prepare --source {corpus} --train-tokenizer 300 --validation 0.2 --out {out}"
    assert run(command) == 0
    text = PreparedText.open(out)
    printed = capsys.readouterr().out
    for part in (text.training, text.validation):
        assert (
            f"{part.documents} documents  {part.bytes:,} bytes  {len(part):,} tokens  sha256 {part.sha256}" in printed
        )
    assert f"300 entries  sha256 {text.tokenizer.sha256}" in printed
    assert run(f"{command} --verify") == 0
    assert run(f"data verify {out}") == 0
    assert capsys.readouterr().out.endswith(f"verified {out}/validation-00000.bin\n")
    (out / "training-00000.bin").write_bytes(bytes(len(text.training) * 2))
    assert run(f"data verify {out}") == 2
    assert "it was altered" in capsys.readouterr().err


def test_the_command_takes_every_kind_of_file_and_a_source_of_its_own_for_validation(corpus, tmp_path, capsys):
    (tmp_path / "held").mkdir()
    (tmp_path / "held" / "a.txt").write_text("abc\n\nfed")
    (tmp_path / "tokenizer.json").write_text(json.dumps(CharacterTokenizer(LETTERS + "\n").content()))
    command = f"data prepare --source {corpus} --tokenizer {tmp_path}/tokenizer.json --out {tmp_path}"
    assert run(f"{command}/one --validation-source {tmp_path}/held --documents 50") == 0
    one = PreparedText.open(tmp_path / "one")
    assert one.tokenizer.decode(one.validation[:]) == "abc\n\nfed"
    assert one.training.documents == len([text for text in TEXTS[:50] if text])
    assert run(rf"{command}/two --separator \n\n".replace(str(corpus), f"{tmp_path}/held")) == 0
    assert PreparedText.open(tmp_path / "two").training.documents == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--source {0}/nowhere --tokenizer characters", "there is no file or folder .*nowhere, and no data set"),
        ("--source {0} --tokenizer characters", "files of one kind, .* got JSON lines and text"),
        ("--source {0}/mixed/b.bin --tokenizer characters", "by their ending .parquet, .*, got none of them"),
        ("--source {0}/corpus.jsonl", "name a tokenizer with --tokenizer gpt2, characters or FILE"),
        ("--source {0}/corpus.jsonl --tokenizer characters --train-tokenizer 300", "name a tokenizer"),
        ("--source {0}/corpus.jsonl --tokenizer {0}/mixed/b.bin", "b.bin is not JSON"),
        ("--source {0}/corpus.jsonl --tokenizer characters --field body", "line 1 of .* has no field 'body'"),
        ("--source {0}/corpus.jsonl --tokenizer characters --validation 2", "validation must be at least 0 and below"),
        (
            "--source {0}/corpus.jsonl --tokenizer characters --validation 0.1 --validation-source x",
            "hold out a share with --validation or name documents with --validation-source, not both",
        ),
    ],
)
def test_a_wrong_command_is_one_line_on_stderr(options, message, corpus, tmp_path, capsys):
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.txt").write_text("abc")
    (tmp_path / "mixed" / "b.bin").write_bytes(b"\xff")
    assert run(f"data prepare {options.format(tmp_path)} --out {tmp_path}/out") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    with refused(message):
        raise ValueError(error.strip())


def test_the_command_answers_without_torch(corpus, tmp_path):
    options = f"--source {corpus} --tokenizer characters --out {tmp_path}/out"
    for command in ("data prepare --help", f"data prepare {options}"):
        done = subprocess.run(
            [sys.executable, "-c", ANSWER_WITHOUT_TORCH, *command.split()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()


def test_a_command_that_takes_long_says_how_far_it_is(corpus, tmp_path, capsys, monkeypatch, small_pieces):
    for name in ("prepare.LINE_EVERY", "shown_left.LINE_EVERY", "shown_left.PATIENCE"):
        monkeypatch.setattr(f"torsor.cli.{name}", 0.0)
    for options, end in (("", r" \d+ %  \d+ s left"), ("--documents 120", " 100 %  0 s left"), ("--tokens 10", "left")):
        out = tmp_path / f"out{len(options)}"
        assert run(f"data prepare --source {corpus} --tokenizer characters {options} --out {out}") == 0
        last = capsys.readouterr().err.splitlines()[-1]
        training = PreparedText.open(out).training
        if "tokens" not in options:
            assert f"  120 documents  {len(training):,} tokens  " in last
        assert re.search(rf" tokens/s .*{end}$", last)


def test_the_tokens_of_a_large_vocabulary_are_wider(tmp_path):
    symbols = "".join(map(chr, range(32, 0xD800))) + "".join(map(chr, range(0xE000, 0xE000 + 2**16 - 0xD800 + 31)))
    assert len(symbols) == 2**16 - 1
    corpus = write_lines(tmp_path / "corpus.jsonl", [symbols[-3:]])
    narrow = prepare(corpus, tmp_path / "narrow", CharacterTokenizer(symbols), validation=0.0)
    wide = prepare(corpus, tmp_path / "wide", CharacterTokenizer(symbols + "\x01"), validation=0.0)
    assert narrow.training[:].dtype == np.dtype("<u2")
    assert wide.training[:].dtype == np.dtype("<u4")
    for each in (narrow, wide):
        assert each.training[:].tolist() == [0, 2**16 - 3, 2**16 - 2, 2**16 - 1]
        assert (each.folder / "training-00000.bin").stat().st_size == 4 * each.training[:].dtype.itemsize


REAL = Path(os.environ.get("TORSOR_DATA", "data"))
FILES = ("fineweb/fineweb_sample.txt", "gpt2_bpe/tokenizer.json")


@pytest.mark.skipif(
    not all((REAL / file).exists() for file in FILES), reason=f"the folder TORSOR_DATA holds no {' and '.join(FILES)}"
)
def test_the_sample_of_fineweb_is_217888_tokens_of_gpt2_after_one_begin_token(tmp_path):
    sample, tokenizer = (REAL / file for file in FILES)
    assert run(f"data prepare --source {sample} --tokenizer {tokenizer} --out {tmp_path}/out") == 0
    text = PreparedText.open(tmp_path / "out")
    tokens = text.training[:]
    assert len(tokens) == 217_889
    assert (tokens == text.tokenizer.begin).nonzero()[0].tolist() == [0]
    assert text.tokenizer.bytes_per_token[tokens].sum() == text.training.bytes == sample.stat().st_size

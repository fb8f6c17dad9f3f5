"""Data sets: where they lie, how they get there, what is refused, and what is known of the real ones."""

import hashlib
import json
import os
import re
import subprocess
import sys
from http.client import IncompleteRead
from pathlib import Path

import pytest

from refusal import refused
from torsor.cli import main
from torsor.tasks import Characters, Corpus
from torsor.text import DATASETS, DataFile, DataSet, data_folder, fetch, path_of, read_text, texts_of

CONTENT = {"letters/one.txt": b"one\r\n\xc3\xa9", "letters/two.txt": b"two" * 50_000}
REAL = Path(os.environ.get("TORSOR_DATA", "data"))

FETCH_IN_ANOTHER_PROCESS = """
import sys
from torsor.text import DATASETS, DataFile, DataSet, fetch
files = eval(sys.argv[1])
DATASETS["letters"] = DataSet("letters", "", tuple(DataFile(*file) for file in files), "", "")
sys.stdin.read()  # until all have started
fetch("letters")
"""

ANSWER_WITHOUT_TORCH = """
import sys
from torsor.cli import main
try:
    main()
except SystemExit as ending:
    sys.exit(ending.code or ("torch" in sys.modules) * 99)
"""


@pytest.fixture
def source(tmp_path) -> Path:
    """The addresses of two files, as a folder."""
    for path, content in CONTENT.items():
        (tmp_path / "source" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "source" / path).write_bytes(content)
    return tmp_path / "source"


@pytest.fixture(autouse=True)
def here(tmp_path, source, monkeypatch) -> Path:
    """The folder of all data, empty, and a data set that is fetched from files."""
    for variable in ("TORSOR_OFFLINE", "HF_HUB_OFFLINE", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TORSOR_DATA", str(tmp_path / "here"))
    files = tuple(
        DataFile(path, len(content), hashlib.sha256(content).hexdigest(), ((source / path).as_uri(),))
        for path, content in CONTENT.items()
    )
    monkeypatch.setitem(DATASETS, "letters", DataSet("letters", "two files", files, "mine", "me"))
    monkeypatch.setitem(DATASETS, "one", DataSet("one", "one file", files[:1], "mine", "me"))
    return tmp_path / "here"


def files_under(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def mirrored(monkeypatch, *urls: str) -> None:
    file = DATASETS["one"].files[0]
    replaced = DataFile(file.path, file.bytes, file.sha256, urls)
    monkeypatch.setitem(DATASETS, "one", DataSet("one", "", (replaced,), "mine", "me"))


def test_every_data_set_is_known_by_size_checksum_address_licence_and_origin():
    real = [DATASETS[name] for name in ("tiny-shakespeare", "penn-treebank", "lambada", "gpt2-bpe")]
    paths = [file.path for each in real for file in each.files]
    assert len(set(paths)) == len(paths) == 7
    for each in real:
        assert each.summary
        assert each.licence
        assert each.origin
        for file in each.files:
            assert file.bytes > 0
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.urls
            assert all(url.startswith("https://") for url in file.urls)
            assert all(Path(url).name == Path(file.path).name for url in file.urls)
    assert "LDC" in DATASETS["penn-treebank"].licence
    assert [Path(file.path).name for file in DATASETS["penn-treebank"].files] == [
        "ptb.train.txt",
        "ptb.valid.txt",
        "ptb.test.txt",
    ]


def test_data_lie_where_torsor_data_says_and_else_in_the_user_s_folder_for_data(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("TORSOR_DATA", "~/mine")
    assert data_folder() == Path("/home/me/mine")
    monkeypatch.setenv("TORSOR_DATA", "")
    assert data_folder() == Path("/home/me/.local/share/torsor")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_folder() == Path("/data/torsor")


def test_fetching_puts_every_file_under_its_name_and_nothing_else(here):
    paths = fetch("letters")
    assert paths == path_of("letters") == (here / "letters/one.txt", here / "letters/two.txt")
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert files_under(here) == set(CONTENT)
    assert texts_of("letters") == ("one\r\né", "two" * 50_000)


def test_fetching_again_reads_no_address_and_changes_no_file(here, source):
    before = [path.stat() for path in fetch("letters")]
    (source / "letters/one.txt").unlink()
    after = [path.stat() for path in fetch("letters", offline=True)]
    assert [(each.st_ino, each.st_mtime_ns) for each in before] == [(each.st_ino, each.st_mtime_ns) for each in after]
    (here / "letters/one.txt").unlink()
    with refused("cannot fetch letters"):  # the address is gone indeed
        fetch("letters")


def test_a_wrong_content_is_refused_with_both_checksums_and_gets_no_name(here, source):
    wrong = b"eno\r\n\xc3\xa9"
    (source / "letters/one.txt").write_bytes(wrong)
    with refused(f"must have 7 bytes and sha256 {sha256(CONTENT['letters/one.txt'])}, got 7 and {sha256(wrong)}"):
        fetch("letters")
    assert not files_under(here)


@pytest.mark.parametrize("content", [b"", b"one", b"one\r\n\xc3\xa9 and more"])
def test_a_content_of_the_wrong_size_is_refused(content, here, source):
    (source / "letters/one.txt").write_bytes(content)
    with refused("must have 7 bytes"):
        fetch("letters")
    assert not files_under(here)


def test_the_next_address_is_tried_where_one_fails_or_is_wrong(here, source, monkeypatch):
    (source / "wrong.txt").write_bytes(b"eno\r\n\xc3\xa9")
    right = DATASETS["one"].files[0].urls[0]
    mirrored(monkeypatch, (source / "nowhere.txt").as_uri(), (source / "wrong.txt").as_uri(), right)
    fetch("one")
    assert files_under(here) == {"letters/one.txt"}


def test_where_every_address_fails_the_line_names_each_and_how_to_take_one_s_own(source, monkeypatch):
    mirrored(monkeypatch, (source / "a.txt").as_uri(), (source / "b.txt").as_uri())
    with refused("cannot fetch one: .*a.txt.*; .*b.txt.*; with your own copy: torsor data fetch one --from PATH"):
        fetch("one")


def test_a_connection_that_breaks_off_is_one_line(monkeypatch, here):
    class Broken:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def read(self, size):
            raise IncompleteRead(b"on", 5)

    monkeypatch.setattr("urllib.request.urlopen", lambda url, timeout: Broken())
    with refused("IncompleteRead"):
        fetch("one")
    assert not files_under(here)


@pytest.mark.parametrize("failing", ["os.fsync", "pathlib.Path.replace"])
def test_a_file_has_its_name_only_when_it_is_whole_and_on_the_disk(failing, monkeypatch, here):
    def interrupted(*_):
        assert not (here / "letters/one.txt").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(failing, interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetch("one")
    assert not files_under(here)


def test_several_processes_at_once_leave_whole_files_and_nothing_else(here):
    files = [(file.path, file.bytes, file.sha256, file.urls) for file in DATASETS["letters"].files]
    command = [sys.executable, "-c", FETCH_IN_ANOTHER_PROCESS, repr(files)]
    fetching = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(4)]
    for each in fetching:
        each.stdin.close()
    assert [each.wait() for each in fetching] == [0] * 4
    assert files_under(here) == set(CONTENT)
    path_of("letters")


@pytest.mark.parametrize("place", ["source", "source/letters"])
def test_a_user_s_own_folder_is_taken_in_either_layout(place, here, tmp_path):
    fetch("letters", from_path=tmp_path / place, offline=True)
    assert files_under(here) == set(CONTENT)


def test_a_user_s_own_file_is_taken_under_any_name(here, source, tmp_path):
    (source / "letters/one.txt").rename(tmp_path / "mine.text")
    fetch("one", from_path=tmp_path / "mine.text")
    assert files_under(here) == {"letters/one.txt"}
    assert (tmp_path / "mine.text").exists()


def test_a_user_s_wrong_copy_is_refused_with_both_checksums(here, tmp_path):
    (tmp_path / "mine.txt").write_bytes(b"mine")
    expected = sha256(CONTENT["letters/one.txt"])
    with refused(f"mine.txt must have 7 bytes and sha256 {expected}, got 4 and {sha256(b'mine')}"):
        fetch("one", from_path=tmp_path / "mine.txt")
    assert not files_under(here)


def test_a_copy_that_is_not_there_or_not_a_folder_is_refused(source, tmp_path):
    with refused("there is no file .*nowhere"):
        fetch("one", from_path=tmp_path / "nowhere")
    with refused("there is no file .*letters/one.txt or .*one.txt"):
        fetch("letters", from_path=tmp_path)
    with refused("one.txt must be a folder that holds one.txt, two.txt"):
        fetch("letters", from_path=source / "letters/one.txt")


@pytest.mark.parametrize("variable", ["TORSOR_OFFLINE", "HF_HUB_OFFLINE", None])
def test_offline_no_address_is_read(variable, monkeypatch, here, source):
    def reached(*_, **__):
        raise AssertionError("an address was read")

    monkeypatch.setattr("urllib.request.urlopen", reached)
    if variable:
        monkeypatch.setenv(variable, "1")
    words = f"is missing and {variable or '--offline'} forbids the network; with your own copy: .* --from PATH"
    with refused(words):
        fetch("letters", offline=variable is None)
    fetch("letters", from_path=source, offline=variable is None)


def test_a_variable_that_says_no_is_not_offline(monkeypatch):
    monkeypatch.setenv("TORSOR_OFFLINE", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "")
    fetch("letters")


def test_a_missing_file_is_answered_with_the_command_that_fetches_it(here):
    with refused(f"{here}/letters/one.txt is missing; run: torsor data fetch letters"):
        path_of("letters")
    fetch("one")
    with refused(f"{here}/letters/two.txt is missing; run: torsor data fetch letters"):
        path_of("letters")


def test_a_file_is_verified_at_every_call_and_never_replaced(here):
    fetch("letters")
    path_of("letters")
    (here / "letters/one.txt").write_bytes(b"mine")
    with refused(f"got 4 and {sha256(b'mine')}; remove it and run: torsor data fetch letters"):
        path_of("letters")
    with refused("remove it and run"):
        texts_of("letters")
    with refused("got 4 .*; remove it first"):
        fetch("letters")
    assert (here / "letters/one.txt").read_bytes() == b"mine"


def test_a_folder_that_cannot_be_written_is_one_line(here):
    here.write_bytes(b"a file")
    with refused("cannot write .*letters/one.txt: Not a directory"):
        fetch("letters")


def test_an_unknown_data_set_is_answered_with_the_nearest(here):
    for ask in (fetch, path_of, texts_of):
        with refused("there is no data set 'leters'; did you mean 'letters'?"):
            ask("leters")
        with refused("there is no data set 'xyz'; there are: tiny-shakespeare, penn-treebank"):
            ask("xyz")


def test_a_text_that_is_not_utf_8_is_refused_with_the_place_and_line_ends_stay(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"abc\xff")
    with refused("text.txt must be UTF-8, got byte 0xff at 3"):
        read_text(path)
    with refused("cannot read .*: Is a directory"):
        read_text(tmp_path)
    path.write_bytes(b"a\r\nb\rc\n")
    assert read_text(path) == "a\r\nb\rc\n"


def test_the_command_line_lists_fetches_and_verifies(here, source, capsys):
    assert run("data list") == 0
    out = capsys.readouterr().out
    assert "penn-treebank" in out
    assert "LDC" in out
    assert str(here) in out
    assert run("data fetch letters") == 0
    assert (
        capsys.readouterr().out == f"verified {here}/letters/one.txt\nverified {here}/letters/two.txt\nlicence: mine\n"
    )
    assert run("data verify letters") == 0
    assert capsys.readouterr().out == f"verified {here}/letters/one.txt\nverified {here}/letters/two.txt\n"
    assert run("data verify") == 0
    (here / "letters/two.txt").write_bytes(b"mine")
    assert run("data list --json") == 0
    listed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert listed["folder"] == str(here)
    state = {each["name"]: each["here"] for each in listed["datasets"]}
    assert (state["one"], state["letters"], state["lambada"]) == ("yes", "wrong", "no")
    assert listed["datasets"][0]["files"][0]["bytes"] == 1_115_394
    assert run("data verify") == 2
    out, error = capsys.readouterr()
    assert f"verified {here}/letters/one.txt" in out
    assert sha256(b"mine") in error
    assert error.count("\n") == 1
    (here / "letters/two.txt").unlink()
    assert run(f"data fetch letters --from {source} --offline") == 0
    capsys.readouterr()
    assert run("data fetch letters --json") == 0
    verified = [f"{here}/letters/one.txt", f"{here}/letters/two.txt"]
    assert json.loads(capsys.readouterr().out) == {"verified": verified, "licence": "mine"}


def test_fetching_says_how_long_it_still_takes_on_stderr_and_counts_all_of_its_bytes(here, monkeypatch, capsys):
    monkeypatch.setattr("torsor.text.fetching._CHUNK", 50_000)
    for name in ("PATIENCE", "LINE_EVERY"):
        monkeypatch.setattr(f"torsor.cli.shown_left.{name}", 0.0)
    told, whole = [], sum(map(len, CONTENT.values()))
    fetch("letters", watch=lambda done, of: told.append((done, of)))
    assert [done for done, _ in told] == [0, 7, 7, 50_007, 100_007, 150_007]  # a file begins where those before it end
    assert {of for _, of in told} == {whole}
    for path in CONTENT:
        (here / path).unlink()
    assert run("data fetch letters --json") == 0
    captured = capsys.readouterr()
    assert re.search(r"^fetching letters  100 %  0 s left$", captured.err, re.M)
    assert json.loads(captured.out)["licence"] == "mine"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("data fetch", "name a data set: torsor data fetch NAME; there are: tiny-shakespeare"),
        ("data fetch tiny-shakspeare", "did you mean 'tiny-shakespeare'?"),
        ("data fetch tiny-shakespeare --offline", "--offline forbids the network"),
        ("data fetch tiny-shakespeare --from nowhere", "there is no file nowhere"),
        ("data fetch tiny-shakespeare --form nowhere", "--from"),
        ("data verify", "no data set lies in"),
        ("data verify lambda", "did you mean 'lambada'?"),
        ("data verify lambada", "lambada_test.jsonl is missing; run: torsor data fetch lambada"),
        ("data lits", 'Did you mean "list"'),
    ],
)
def test_a_mistake_is_one_line_with_the_right_value_and_leaves_nothing(command, words, here, capsys):
    assert run(command) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not here.exists()


@pytest.mark.parametrize("command", ["data --help", "data fetch --help", "data list"])
def test_the_data_commands_answer_without_torch(command):
    done = subprocess.run(
        [sys.executable, "-c", ANSWER_WITHOUT_TORCH, *command.split()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def real(name: str):
    there = all((REAL / file.path).exists() for file in DATASETS[name].files)
    return pytest.mark.skipif(not there, reason=f"the folder TORSOR_DATA holds no {name}")


@pytest.fixture
def real_data(monkeypatch):
    monkeypatch.setenv("TORSOR_DATA", str(REAL))


@real("tiny-shakespeare")
def test_tiny_shakespeare_has_65_symbols_and_the_documented_splits(real_data):
    (text,) = texts_of("tiny-shakespeare")
    assert text.isascii()
    sizes = {
        "80-10-10": (892_315, 111_539, 111_540),
        "90-5-5": (1_003_854, 55_770, 55_770),
        "90-10": (1_003_854, 111_540),
    }
    for split, expected in sizes.items():
        task = Characters(Corpus.cut(text, split), context=128)
        assert task.vocabulary == len(set(text)) == 65
        parts = [part for part in (task.training, task.validation, task.test) if part is not None]
        assert tuple(len(part) for part in parts) == expected
        assert "".join(task.decode(part) for part in parts) == text


@real("penn-treebank")
def test_penn_treebank_read_as_characters_has_50_symbols_in_train_and_valid_and_48_in_test(real_data):
    texts = texts_of("penn-treebank")
    assert [len(text) for text in texts] == [5_101_618, 399_782, 449_945]
    task = Characters(Corpus(*texts), context=128)
    assert task.vocabulary == 50
    assert [len(part.unique()) for part in (task.training, task.validation, task.test)] == [50, 50, 48]
    assert set(" \n") < set(task.symbols)


@real("lambada")
def test_lambada_has_5153_passages(real_data):
    (text,) = texts_of("lambada")
    assert len([json.loads(line)["text"] for line in text.splitlines()]) == 5153


@real("gpt2-bpe")
def test_gpt2_s_encoding_has_50257_tokens(real_data):
    encoder, merges = texts_of("gpt2-bpe")
    assert len(json.loads(encoder)) == 50_257
    assert len([line for line in merges.splitlines() if line and not line.startswith("#version")]) == 50_000

"""Numbers that cannot lie: verified from checkpoints, of a known commit, and on the same data."""

import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from campaign_order import order
from refusal import refused
from torsor.cli import main
from torsor.cli.paper_table import print_grid, print_markdown
from torsor.cli.verify import verify_table
from torsor.experiments.provenance import provenances
from torsor.experiments.run import carry_out
from torsor.experiments.run_table import results
from torsor.experiments.same_data import DATA
from torsor.experiments.verifying import compare, verify
from torsor.training import read_run
from torsor.training.commit import UNKNOWN, commit_of, package_commit


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A table of two rows, carried out."""
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    wanted, complete = order(tmp_path_factory.mktemp("tables"))
    complete()
    return wanted


def test_every_row_comes_out_again_from_its_checkpoint_to_the_last_digit(made, capsys):
    verify_table(made, None)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(" values are equal  " in line for line in lines)
    assert min(each.compared for each in verify(made)) > 20


def test_a_program_reads_what_was_compared_of_every_run_and_what_differs(made, capsys):
    path = next(iter(verify(made))).path / "evaluation.json"
    good = path.read_bytes()
    scores = json.loads(good)
    scores["depths"][0]["token"] = 2.0
    path.write_text(json.dumps(scores))
    try:
        with pytest.raises(ArithmeticError, match=r"^1 of 2 runs"):
            verify_table(made, None, as_json=True)
    finally:
        path.write_bytes(good)
    told = json.loads(capsys.readouterr().out)
    assert told["table"] == made.table.name
    first, second = told["runs"]
    assert (first["row"], first["seed"], first["path"]) == ("diagonal", 0, str(path.parent))
    assert [line.partition(" ")[0] for line in first["differences"]] == ["depths[0].token"]
    assert not second["differences"]
    assert min(each["compared"] for each in (first, second)) > 20


def test_a_number_that_was_changed_in_its_last_digit_is_found_and_its_row_named(made, capsys):
    path = next(iter(verify(made))).path / "evaluation.json"
    good = path.read_bytes()
    scores = json.loads(good)
    token = scores["depths"][0]["token"]
    scores["depths"][0]["token"] = other = token * (1 + 2**-52) or 5e-324
    path.write_text(json.dumps(scores))
    try:
        with pytest.raises(ArithmeticError, match=r"^1 of 2 runs do not come out again from their checkpoints$"):
            verify_table(made, None)
    finally:
        path.write_bytes(good)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"diagonal, seed 0: depths[0].token is stored as {other!r} and computed as {token!r}  ")
    assert "values are equal" in second


def test_a_table_without_finished_runs_has_nothing_to_verify(made, tmp_path):
    with refused("has no finished run in .* to verify"):
        verify_table(replace(made, root=tmp_path), None)


def test_values_are_compared_by_type_and_names_too():
    assert [line for line in compare({"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 2.0}]}) if line] == []
    for one, other in (({"a": 1}, {"a": 1.0}), ({"a": 1}, {}), ({"a": 1}, {"a": 1, "b": None, "c": 0}), ([1], [1, 2])):
        assert [line for line in compare(one, other) if line], (one, other)


def test_every_run_of_a_table_says_what_its_numbers_rest_on(made):
    told = provenances(made)
    assert [each["row"] for each in told] == ["diagonal", "block decay, 2 groups"] or len(told) == 2
    for each in told:
        assert each["seed"] == 0
        assert each["commit"] == package_commit()
        assert each["versions"].keys() == {"torsor", "torch", "numpy", "python"}
        assert each["data"] == "made from the seed, or not recorded"
        assert len(each["weights_sha256"]) == 64
        assert each["update"] == 12
        assert each["parameters"] > 1000
        timing = (Path(each["path"]) / "timing.jsonl").read_text().splitlines()
        assert len(timing) == 12
        assert each["seconds"] == pytest.approx(sum(json.loads(line)["seconds"] for line in timing), rel=1e-12)


def test_a_table_prints_what_was_tuned_and_what_its_runs_cost(made, capsys):
    content, runs = results(made), provenances(made)
    runs = [{**run, "seconds": 60.0 * (1 + place)} for place, run in enumerate([*runs, *runs])]
    for show in (print_grid, print_markdown):
        show(made.table, content, runs)
        shown = capsys.readouterr().out
        for row in (row["row"] for row in content):
            low, high = (place + 1 for place, run in enumerate(runs) if run["row"] == row)
            parameters = f"{runs[low - 1]['parameters']:,} parameters"
            assert f"{row}: {parameters}; {low} to {high} minutes of training a run, threads: 1" in shown, shown


def test_a_commit_is_told_of_the_package_s_own_checkout_and_of_no_other_repository(tmp_path):
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", "-C", tmp_path, *who, *arguments], capture_output=True, text=True, check=True
        ).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "somebody's project")
    assert commit_of(tmp_path) == UNKNOWN  # a repository, but not this package's
    package = tmp_path / "src" / "torsor"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    git("add", ".")
    git("commit", "-q", "-m", "the package")
    head = git("rev-parse", "HEAD")[:12]
    assert commit_of(tmp_path) == head
    (package / "__init__.py").write_text("x = 1\n")
    assert commit_of(tmp_path) == f"{head}-dirty"
    assert commit_of(tmp_path / "src") == UNKNOWN
    assert commit_of(tmp_path / "missing") == UNKNOWN


# The same data


def test_a_run_goes_on_with_the_same_data_or_not_at_all(tmp_path):
    from torsor.experiments.catalogue import find

    text = tmp_path / "text.txt"
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghijklm", k=chance.randint(2, 7))) for _ in range(300)]
    text.write_text(" ".join(chance.choices(words, k=4000)))
    experiment = find("rotate-the-loop/language")
    sizes = {"shrink": 32, "entries": 300, "context": 16, "batch": 4, "updates": 3, "positions": 200}
    arguments = experiment.arguments(text=str(text), **sizes)

    def run():
        for _ in carry_out(experiment, arguments, tmp_path / "run", checkpoint_every=1):
            break

    run()
    kept = json.loads((tmp_path / "run" / DATA).read_bytes())
    assert kept.keys() == {"tokenizer_sha256", "training_sha256", "validation_sha256"}
    run()
    (tmp_path / "run" / DATA).write_text("{")
    with refused(f"run/{DATA} is not JSON: .*; put a copy of it back, or delete it and make sure yourself that the"):
        run()
    (tmp_path / "run" / DATA).unlink()  # as it was told
    run()
    assert json.loads((tmp_path / "run" / DATA).read_bytes()) == kept
    text.write_text(text.read_text().replace("ab", "ba"))
    with refused(
        "run holds a run on data with .*training_sha256=[0-9a-f]{64}, not [0-9a-f]{64}.*: bring the same data"
    ):
        run()
    assert read_run(tmp_path / "run").status == "running"


# As it is typed


@pytest.fixture
def typed(made, monkeypatch, capsys):
    """What the command leaves with, and says, about the small table in place of the laptop's."""

    def call(words: str, root: Path = made.root) -> tuple[int, str, str]:
        small = lambda table, rows, scale, seeds, root, *_: replace(made, table=table, seeds=seeds, root=root)  # noqa: E731
        monkeypatch.setattr("torsor.experiments.table_run.Order", small)
        with pytest.raises(SystemExit) as ending:
            main(["table", *words.split(), "--out", str(root)])
        said = capsys.readouterr()
        return ending.value.code or 0, said.out, said.err

    return call


def test_typed_it_says_of_every_run_that_its_numbers_come_out_again(typed, made):
    rows = [row.label for row in made.rows]
    code, out, err = typed("rotate-the-loop/a5 --verify")
    assert (code, err) == (0, "")
    for row, line in zip(rows, out.splitlines(), strict=True):
        assert re.match(rf"{row}, seed 0: all \d+ values are equal  ", line), line
    code, out, _ = typed("rotate-the-loop/a5 --verify --json")
    told = json.loads(out)
    assert code == 0
    assert [(run["row"], run["differences"]) for run in told["runs"]] == [(row, []) for row in rows]


def test_typed_it_leaves_with_1_and_one_line_where_a_number_differs(typed, made):
    path = next(iter(verify(made))).path / "evaluation.json"
    good = path.read_bytes()
    scores = json.loads(good)
    scores["depths"][0]["token"] += 1e-9
    path.write_text(json.dumps(scores))
    try:
        code, out, err = typed("rotate-the-loop/a5 --verify")
    finally:
        path.write_bytes(good)
    assert (code, err.count("\n")) == (1, 1)
    assert "1 of 2 runs do not come out again from their checkpoints" in err
    assert "depths[0].token is stored as " in out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("rotate-the-loop/a5 --verify", "has no finished run in .* to verify"),
        ("rotate-the-loop/a6 --verify", "did you mean 'rotate-the-loop/a5'"),
        ("--verify", "name a table: torsor table TABLE"),
        ("rotate-the-loop/a5 --verify --threads 0", "threads must be at least 1, got 0"),
        ("rotate-the-loop/a5 --verify twice", "twice"),
        ("rotate-the-loop/a5 --verifi", "--verifi"),
    ],
)
def test_typed_wrongly_it_is_refused_in_one_line(typed, tmp_path, words, line):
    code, out, err = typed(words, tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert re.search(line, err), err


def test_the_help_of_a_table_says_what_verify_does(capsys):
    with pytest.raises(SystemExit) as ending:
        main(["table", "--help"])
    assert not ending.value.code
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "--verify" in said
    assert "compute the numbers of every finished run again from its checkpoint" in said


# One run


@pytest.fixture
def changed(made):
    """A run of the table, two of its scores changed for the test."""
    path = next(iter(verify(made))).path
    good = (path / "evaluation.json").read_bytes()
    scores = json.loads(good)
    scores["depths"][0]["token"] += 1e-9
    scores["depths"][1]["words"] += 1
    (path / "evaluation.json").write_text(json.dumps(scores))
    yield path
    (path / "evaluation.json").write_bytes(good)


def measure(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ending:
        main(["measure", *map(str, words), "--verify"])
    return ending.value.code or 0


def test_one_run_comes_out_again_from_its_checkpoint_and_nothing_of_it_changes(made, capsys):
    path = next(iter(verify(made))).path
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert measure(path) == 0
    said = capsys.readouterr()
    assert re.fullmatch(rf"{path}: all \d\d+ values are equal\n", said.out)
    assert said.err == ""
    assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_of_one_run_every_number_that_differs_has_a_line_and_the_command_leaves_with_1(changed, made, capsys):
    sound = next(each.path for each in verify(made) if each.path != changed)
    assert measure(changed, sound) == 1
    said = capsys.readouterr()
    token, words, equal = said.out.splitlines()
    assert token.startswith(f"{changed}: depths[0].token is stored as ")
    assert words == f"{changed}: depths[1].words is stored as 21 and computed as 20"
    assert equal.startswith(f"{sound}: all ")
    assert said.err == "torsor: 1 of 2 runs do not come out again from their checkpoints\n"


def test_a_program_reads_what_differs_in_one_run(changed, capsys):
    assert measure(changed, "--json") == 1
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert [line.partition(" ")[0] for line in told["differences"]] == ["depths[0].token", "depths[1].words"]
    assert (told["seed"], told["path"]) == (0, str(changed))


def test_a_run_that_cannot_be_verified_is_one_line_that_says_what_to_do(made, tmp_path, capsys):
    path = next(iter(verify(made))).path
    other = tmp_path / "run"
    for name, change, said in (
        ("run.json", lambda text: text.replace('"finished"', '"running"'), "must be a finished run to be verified, "),
        ("evaluation.json", lambda text: text[:40], "delete it, and torsor train rotate-the-loop/a5 "),
    ):
        shutil.copytree(path, other)
        file = other / name
        content = json.loads(file.read_text())
        content.get("about", {}).pop("sha256", None)  # as if it had been written so
        file.write_text(change(json.dumps(content)))
        assert measure(other) == 2
        told = capsys.readouterr()
        assert (told.out, told.err.count("\n")) == ("", 1)
        assert said in told.err
        shutil.rmtree(other)
    with pytest.raises(SystemExit):
        main(["measure", str(path), str(path)])
    assert "takes one run folder, or several with --verify, got 2" in capsys.readouterr().err
    assert measure(path, "--threads", "0") == 2
    assert capsys.readouterr().err == "torsor: threads must be at least 1, got 0\n"


def test_a_measurement_takes_the_threads_that_are_typed_and_the_run_s_own_otherwise(made, tmp_path, capsys):
    path = tmp_path / "run"
    shutil.copytree(next(iter(verify(made))).path, path)
    for words, threads in ((["--threads", "2"], 2), ([], 1)):
        with pytest.raises(SystemExit) as ending:
            main(["measure", str(path), *words])
        assert not ending.value.code
        assert torch.get_num_threads() == threads
    capsys.readouterr()

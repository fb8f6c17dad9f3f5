"""Tables: their rows can be built, run once, resume anywhere, and stand beside the paper's numbers."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from scipy import stats

from torsor.cli import main
from torsor.cli.progress import follow
from torsor.experiments.catalogue import EXPERIMENTS, TABLES, find, find_table
from torsor.experiments.over_seeds import OverSeeds
from torsor.experiments.reading import AccuracyByDepth
from torsor.experiments.run_table import complete, results
from torsor.experiments.table_run import Order, is_finished, run_path
from torsor.experiments.tuning import Tuning
from torsor.training import read_run

TINY = {
    "width": 16,
    "heads": 2,
    "length": 3,
    "smallest_steps": 1,
    "largest_steps": 2,
    "updates": 4,
    "batch": 4,
    "words": 20,
    "warmup": 1,
}
OTHERS = {name: value for name, value in TINY.items() if name != "smallest_steps"}  # which is the laptop's too


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def silently(updates, _path):
    for _ in updates:
        pass


WORDS = {
    name: table for name, table in TABLES.items() if table.experiment in {"rotate-the-loop/a5", "rotate-the-loop/s5"}
}


def test_every_row_can_be_built_at_both_scales():
    for table in WORDS.values():
        for row in table.rows:
            for scale in ("laptop", "paper"):
                arguments = EXPERIMENTS[table.experiment].arguments(
                    scale=scale, **{**table.presets.get(scale, {}), **row.arguments}
                )
                assert arguments["largest_steps"] * 3 // 2 > arguments["largest_steps"]
            small = EXPERIMENTS[table.experiment].arguments(**{**row.arguments, **TINY})
            study = EXPERIMENTS[table.experiment].build(**small)
            assert len(study.examination.depths) == len(table.columns)


def test_rows_of_one_table_have_labels_and_folders_of_their_own():
    for table in TABLES.values():
        assert len({row.label for row in table.rows}) == len(table.rows)
        assert len({row.folder for row in table.rows}) == len(table.rows)


def test_tables_of_one_setting_share_their_runs(tmp_path):
    paths = {
        run_path(tmp_path, find_table(name), row, "laptop", 0)
        for name in ("rotate-the-loop/a5", "rotate-the-loop/group-count", "rotate-the-loop/ablation")
        for row in find_table(name).rows
    }
    assert len(paths) == 7  # diagonal, tied, untied, and 1, 2, 4, 8 groups
    settings = {}
    for table in TABLES.values():
        settings.setdefault(table.setting, (table.experiment, table.presets))
        assert settings[table.setting] == (table.experiment, table.presets)


def test_the_paper_s_headline_stands_in_the_table():
    rows = {row.label: row.paper for row in find_table("rotate-the-loop/a5").rows}
    assert [str(rows["diagonal"][f"T={steps}"]) for steps in (16, 32, 48)] == [
        "0.537 ± 0.098",
        "0.692 ± 0.097",
        "0.771 ± 0.079",
    ]
    assert str(rows["conformal, 2 groups"]["T=32"]) == "0.894 ± 0.052"
    assert str(rows["conformal, 1 group"]["T=48"]) == "0.795"


def test_a_table_interrupted_anywhere_goes_on_and_runs_only_what_is_missing(tmp_path):
    table = find_table("rotate-the-loop/a5")
    rows = table.rows[:2]
    order = Order(table, rows, "laptop", 2, tmp_path, given=TINY)
    made = []

    def interrupted(updates, path):
        for number, _ in enumerate(updates):
            if (len(made), number) == (1, 2):
                updates.close()
                raise KeyboardInterrupt
        made.append(path)

    with pytest.raises(KeyboardInterrupt):
        complete(order, interrupted)
    assert made == [run_path(tmp_path, table, rows[0], "laptop", 0, given=OTHERS)]
    half = results(order)
    assert len(half[0]["columns"]["T=32"]["ours"]["joint"]["seeds"]) == 1
    assert half[1]["columns"]["T=32"]["difference"] is None

    before = {each: each.stat().st_mtime_ns for each in made[0].rglob("*")}
    ran = []
    complete(order, lambda updates, path: (ran.append(path), silently(updates, path)))
    assert made[0] not in ran
    assert len(ran) == 3
    assert before == {each: each.stat().st_mtime_ns for each in made[0].rglob("*")}
    paths = [run_path(tmp_path, table, row, "laptop", seed, given=OTHERS) for row in rows for seed in (0, 1)]
    assert all(is_finished(path) for path in paths)
    complete(order, follow)

    whole = results(order)
    cell = whole[0]["columns"]["T=32"]
    assert cell["here"] == "2 loops"
    assert cell["difference"] == pytest.approx(cell["ours"]["joint"]["mean"] - 0.692)
    assert cell["ours"]["joint"]["counts"] == [20, 20]


def test_a_tuned_row_takes_the_value_whose_trial_did_best_and_no_trial_is_among_its_runs(tmp_path, monkeypatch):
    table = replace(
        find_table("rotate-the-loop/a5"), tuning=Tuning("learning_rate", (1e-3, 2e-3, 4e-3), seed=7, share=0.5)
    )
    rows = table.rows[:2]
    order = Order(table, rows, "laptop", 1, tmp_path, tuned=True, given=TINY)
    ran = []
    merits = {"0.001": 0.2, "0.002": 0.9, "0.004": 0.9}
    monkeypatch.setattr(
        AccuracyByDepth, "merit", lambda self, run: merits[run.name.partition("=")[2].partition("-")[0]]
    )

    def counted(updates, path):
        ran.append(path.name)
        if len(ran) == 6:
            assert results(order)[1]["tuning"]["chosen"] is None
            assert results(order)[1]["columns"]["T=32"]["ours"]["joint"]["seeds"] == []
        silently(updates, path)

    complete(order, counted)
    assert ran == [
        *(f"{row.folder}-learning_rate={rate}-7" for rate in merits for row in rows),
        *(f"{row.folder}-learning_rate=0.002-0" for row in rows),
    ]
    lengths = {path.parent.name: len(path.read_text().splitlines()) for path in tmp_path.rglob("metrics.jsonl")}
    assert lengths == {name: TINY["updates"] // 2 if name.endswith("-7") else TINY["updates"] for name in ran}
    (first, second) = results(order)
    assert first["tuning"] == {
        "argument": "learning_rate",
        "seed": 7,
        "trials": [
            {"value": float(rate), "merit": merit, "diverged": False, "given_up": False}
            for rate, merit in merits.items()
        ],
        "chosen": 0.002,
    }
    assert len(first["columns"]["T=32"]["ours"]["joint"]["seeds"]) == 1
    assert "--learning-rate 0.002" in second["command"]
    assert "--seed 0" in second["command"]


def test_tuning_is_refused_where_it_makes_no_sense(tmp_path):
    table = find_table("rotate-the-loop/a5")
    for wrong, words in (
        ({"given": {"learning_rate": 1e-3}}, "learning_rate must not be given where it is tuned, got 0.001"),
        ({"seeds": 101}, "seeds must be at most 100, the seed of the trials, got 101"),
        ({"table": replace(table, tuning=None)}, "rotate-the-loop/a5 has no argument to tune: leave --tune away"),
    ):
        right = {"table": table, "rows": table.rows, "scale": "laptop", "seeds": 1, "root": tmp_path, "tuned": True}
        with pytest.raises(ValueError, match=words):
            Order(**{**right, **wrong})


def test_intervals_over_seeds_are_student_s():
    values = (0.7, 0.9, 0.8)
    ours = OverSeeds(values, (10, 10, 10))
    low, high = stats.t.interval(0.95, 2, loc=0.8, scale=stats.sem(values))
    assert ours.mean == pytest.approx(0.8)
    assert ours.half_width == pytest.approx((high - low) / 2)
    assert math.isclose(low, ours.mean - ours.half_width)
    assert OverSeeds((0.7,), (10,)).half_width is None
    assert OverSeeds((None, None), (0, 0)).mean is None
    assert OverSeeds((None, 0.5), (0, 3)).mean == 0.5


def run(command):
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def test_the_command_prints_paper_ours_and_the_command_of_each_row(tmp_path, monkeypatch, capsys):
    table = find_table("rotate-the-loop/s5")
    small = replace(table, presets={"laptop": {**TINY}})
    monkeypatch.setitem(TABLES, table.name, small)
    complete(Order(small, small.rows, "laptop", 1, tmp_path), silently)
    assert run(f"table rotate-the-loop/s5 --dry-run --out {tmp_path}") == 0
    out = capsys.readouterr().out
    # what is set against the paper's number is not called what it is called there, and the table says so
    assert "joint accuracy here, last-token in the paper" in out
    assert "joint: the whole word right, which is how we read the paper's last-token accuracy" in out
    assert "difference: joint, ours less the paper's" in out
    for words in ("0.531 ± 0.092", "0.808 ± 0.054", "joint", "last", "conditional", "torsor train rotate-the-loop/s5"):
        assert words in out
    assert run(f"table rotate-the-loop/s5 --dry-run --markdown --out {tmp_path}") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1
    assert sum(line.startswith("|") for line in lines) == 2 + 2 * 3
    assert lines[-1] == "```"
    assert run(f"table rotate-the-loop/s5 --dry-run --json --out {tmp_path}") == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["row"] for row in content["rows"]] == ["diagonal", "conformal, 2 groups"]
    assert content["rows"][0]["columns"]["T=32"]["paper"] == {"value": 0.531, "spread": 0.092}


@pytest.fixture
def other_run(tmp_path, capsys) -> Path:
    """A run of other arguments where the table's own would lie."""
    table = find_table("rotate-the-loop/s5")
    folder = run_path(tmp_path, table, table.rows[0], "laptop", 0)
    given = {**table.presets["laptop"], **table.rows[0].arguments, **TINY}
    typed = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in given.items())
    assert run(f"train rotate-the-loop/s5 {typed} --threads 1 --out {folder}") == 0
    capsys.readouterr()
    return folder


def test_a_run_of_other_arguments_is_not_taken_for_the_table_s(other_run, tmp_path, capsys):
    command = f"table rotate-the-loop/s5 --threads 1 --out {tmp_path}"
    before = {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    assert run(command) == 2  # before any row is trained, of which the first alone is refused
    said = capsys.readouterr()
    assert f"{other_run} holds a run with length=3, not 16; " in said.err
    assert said.err.endswith(": choose another folder with --out, or the same arguments\n")
    assert (said.out, said.err.count("\n")) == ("", 1)

    assert run(f"{command} --dry-run") == 0
    out = capsys.readouterr().out
    (line,) = (line for line in out.splitlines() if "diagonal, seed 0 not run: " in line)
    assert f"{other_run} holds a run with length=3, not 16; " in line
    assert run(f"{command} --dry-run --json") == 0
    content = json.loads(capsys.readouterr().out)
    assert [(each["row"], each["seed"]) for each in content["not_run"]] == [("diagonal", 0)]
    assert content["rows"][0]["columns"]["T=32"]["ours"]["joint"]["seeds"] == []
    assert content["runs"] == []

    assert run(f"{command} --verify") == 2
    error = capsys.readouterr().err.splitlines()
    assert error[0].startswith(f"torsor: diagonal, seed 0 not verified: {other_run} holds a run with ")
    assert error[1] == f"torsor: rotate-the-loop/s5 has no finished run in {tmp_path} to verify"
    assert before == {each: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}


def test_runs_with_arguments_of_the_user_s_own_lie_apart_from_the_table_s(tmp_path):
    table = find_table("rotate-the-loop/a5")
    row = table.rows[0]

    def folder(**given):
        order = Order(table, (row,), "laptop", 1, tmp_path, given=given)
        return Path(results(order)[0]["command"].rpartition(" --out ")[2]).relative_to(tmp_path)

    own = {**find(table.experiment).arguments(scale="laptop"), **table.presets["laptop"], **row.arguments}
    usual = Path("a5-laptop") / f"{row.folder}-0"
    assert folder() == usual
    assert folder(updates=own["updates"], width=own["width"]) == usual  # what the table has anyway
    assert folder(width=32, updates=5) == folder(updates=5, width=32) == Path("a5-laptop-updates=5-width=32/diagonal-0")
    assert folder(width=32, updates=own["updates"]) == Path("a5-laptop-width=32/diagonal-0")
    with pytest.raises(ValueError, match="width"):
        folder(widht=32)


def test_a_dry_run_and_a_verification_exclude_each_other(tmp_path, capsys):
    assert run(f"table rotate-the-loop/a5 --dry-run --verify --out {tmp_path}") == 2
    said = "torsor: --dry-run prints what is there, --verify computes it again, and neither trains: give one\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("table", "name a table"),
        ("table rotate-the-loop/a6", "did you mean 'rotate-the-loop/a5'?"),
        ("table rotate-the-loop/a5 --seeds 0", "seeds must be at least 1, got 0"),
        ("table rotate-the-loop/a5 --rows diagnoal", "did you mean 'diagonal'?"),
        (
            "table rotate-the-loop/a5 --rows xyz",
            "there are: 'diagonal', 'conformal, 1 group', 'conformal, 2 groups'",
        ),
    ],
)
def test_a_mistake_is_one_line(command, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(command) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


# The arguments of an experiment, and the picture


def test_a_table_passes_every_argument_of_its_experiment_on_to_all_its_runs(tmp_path, capsys):
    typed = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in TINY.items())
    words = f"table rotate-the-loop/s5 {typed} --core-layers 2 --seeds 1 --threads 1 --out {tmp_path} --json"
    assert run(words) == 0
    content = json.loads(capsys.readouterr().out)
    runs = [Path(each["path"]) for each in content["runs"]]
    assert len(runs) == 2
    for path in runs:
        arguments = read_run(path).arguments
        assert {name: arguments[name] for name in TINY} == TINY
        assert arguments["core_layers"] == 2
    assert all(" --core-layers 2 " in row["command"] for row in content["rows"])
    assert run(f"{words.replace('--core-layers 2 ', '')} --dry-run") == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []  # its runs are others than those


def test_a_truth_value_and_a_name_with_a_space_are_passed_on_in_the_command_as_they_are_typed(tmp_path, capsys):
    words = ["--recompute", "--no-lambada", "--text", "a text.txt", "--dry-run", "--json", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as ending:
        main(["table", "rotate-the-loop/language", *words])
    assert not ending.value.code
    for row in json.loads(capsys.readouterr().out)["rows"]:
        assert " --recompute --no-lambada " in row["command"] or " --no-lambada --recompute " in row["command"]
        assert "--text 'a text.txt'" in row["command"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_refuses_what_its_rows_differ_in_and_the_seed_and_has_no_other_argument_that_is_unknown(name, capsys):
    table = TABLES[name]
    kept = {"updates", "learning_rate", "text"}
    differing = {
        each
        for row in table.rows
        for each in row.arguments
        if len({str(other.arguments.get(each)) for other in table.rows}) > 1 and each not in kept
    }
    known = find(table.experiment).arguments()
    for each in sorted(differing | {"seed"}):
        value = next((row.arguments[each] for row in table.rows if each in row.arguments), 3)
        assert run(f"table {name} --{each.replace('_', '-')} {value} --dry-run") == 2
        said = capsys.readouterr()
        assert f"torsor: {each.replace('_', '-')} must not be given to {name}, whose " in said.err
        assert (said.out, said.err.count("\n")) == ("", 1)
    assert run(f"table {name} --help") == 0
    shown = set(re.findall(r"--([a-z][a-z0-9-]*)", capsys.readouterr().out))
    own = {each.replace("_", "-") for each in set(known) - differing - {"seed"}}
    assert own <= shown
    assert not {each.replace("_", "-") for each in differing | {"seed"}} & shown


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_picture_replaces_a_picture_of_a_table_and_nothing_else(ending, tmp_path, monkeypatch, capsys):
    table = find_table("rotate-the-loop/s5")
    path = tmp_path / f"picture.{ending}"
    command = f"table {table.name} --dry-run --out {tmp_path / 'runs'} --picture {path}"
    for said in (f"picture: {path}, its numbers beside it\n", f"picture: {path}, its numbers beside it (replaced)\n"):
        assert run(command) == 0
        assert capsys.readouterr().out.endswith(said)
    assert {each.name for each in tmp_path.iterdir()} == {path.name, "picture.csv"}
    monkeypatch.setattr("torsor.experiments.run_table.complete", lambda *_: pytest.fail("it was run before"))
    for mine in (path, tmp_path / "picture.csv"):
        good = mine.read_bytes()
        mine.write_bytes(b"mine")
        assert run(command.replace("--dry-run ", "")) == 2
        said = capsys.readouterr()
        assert f"{mine} is neither: name another file, or move it away" in said.err
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert mine.read_bytes() == b"mine"
        mine.write_bytes(good)

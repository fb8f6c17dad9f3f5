"""The tables and figures of Subgroups of U(d): sizes, runs that diverge, what they come to, and their pictures."""

import csv
import json
from dataclasses import replace

import pytest
import torch
from scipy.stats import t as student

from test_subgroups_experiments import TINY, made, run
from torsor.cli import main
from torsor.cli.paper_table import print_grid
from torsor.experiments.catalogue import EXPERIMENTS, TABLES, find_table
from torsor.experiments.over_seeds import Difference, OverSeeds, difference
from torsor.experiments.provenance import provenances
from torsor.experiments.reading import BitsPerCharacter
from torsor.experiments.robust_bits import robustness
from torsor.experiments.run_table import complete, results
from torsor.experiments.subgroups import model_of
from torsor.experiments.table_run import Order, run_path
from torsor.experiments.tables_subgroups import RATES
from torsor.experiments.tuning import Tuning
from torsor.models import GroupTransformer
from torsor.tasks.corpus import SPLITS
from torsor.training import NonFiniteLoss, read_run
from torsor.training.muon import MuonAdamW

NAMES = [name for name in TABLES if name.startswith("subgroups/")]
SHORT = {**TINY, "width": 4}


@pytest.fixture(autouse=True)
def made_texts(monkeypatch):
    torch.set_default_dtype(torch.float32)
    monkeypatch.setattr("torsor.text.texts_of", lambda _: (made(700),))


def _count(row, table):
    symbols = 50 if "penn" in table.experiment else 65
    asked = {"group": "O", "mixing": "linear", "layers": 2} | dict(row.arguments)
    with torch.device("meta"):
        model, _ = model_of(
            *(asked["model"], symbols, asked["width"], asked["group"], asked["mixing"], asked["layers"], 1, 0.5, 0)
        )
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_names_a_number_of_parameters_builds_a_model_of_so_many(name):
    table = TABLES[name]
    for row in table.rows:
        if "parameters" in row.label:
            assert f"{_count(row, table):,} parameters" in row.label
        if row.place is not None and table.across == "parameters":
            assert _count(row, table) == row.place.at


def test_the_groups_are_matched_each_width_being_the_nearest_to_the_size_of_o_16():
    table = find_table("subgroups/groups")
    wanted = {"group-transformer": 91_429, "group-rnn-from-token": 55_545}
    for row in table.rows:
        sizes = [
            abs(_count(row.__class__(row.label, {**row.arguments, "width": row.arguments["width"] + by}), table) - n)
            for by in (-1, 0, 1)
            for n in [wanted[row.arguments["model"]]]
        ]
        assert sizes[1] == min(sizes)


@pytest.mark.parametrize(("number", "old"), [("2", "tiny-shakespeare-100k"), ("3", "penn-treebank-100k")])
def test_a_number_is_another_name_of_a_table_and_shares_its_runs(number, old, tmp_path):
    one, other = find_table(f"subgroups/{number}"), find_table(f"subgroups/{old}")
    assert one.rows == other.rows
    for left, right in zip(one.rows, other.rows, strict=True):
        assert run_path(tmp_path, one, left, "laptop", 0) == run_path(tmp_path, other, right, "laptop", 0)
    scaling = find_table({"2": "subgroups/5", "3": "subgroups/figure-2"}[number])
    shared = {run_path(tmp_path, scaling, row, "laptop", 0) for row in scaling.rows}
    usual = [row for row in one.rows if "optimizer" not in row.arguments]
    assert len(usual) == 2
    assert {run_path(tmp_path, one, row, "laptop", 0) for row in usual} <= shared


def _order(tmp_path, rows, **given):
    table = find_table("subgroups/figure-3")
    return Order(table, rows, "laptop", 1, tmp_path, given={**SHORT, **given})


def _silently(updates, _path):
    for _ in updates:
        pass


def test_every_optimizer_trains_both_models_and_resumes(tmp_path):
    table = find_table("subgroups/figure-3")
    assert len(table.rows) == 5 * 3 * 2 * 2
    rows = [row for row in table.rows if row.arguments["layers"] == 2 and row.place.at == RATES[row.place.panel][0]]
    assert len(rows) == 10

    def interrupted(updates, _path):
        for number, _ in enumerate(updates):
            if number == 3:
                updates.close()
                return

    order = _order(tmp_path, rows)
    complete(order, interrupted)
    complete(order, _silently)
    for content in results(order):
        (bits,) = content["columns"]["validation"]["ours"]["bits"]["seeds"]
        assert 0.5 < bits < 7


def test_muon_moves_the_matrices_of_linear_mixing_and_adamw_the_rest():
    experiment = EXPERIMENTS["subgroups/optimizers"]
    for model in ("group-transformer", "transformer"):
        study = experiment.build(**experiment.arguments(**SHORT, model=model, optimizer="muon"))
        assert isinstance(study.optimizer, MuonAdamW)
        moved = {p for group in study.optimizer.param_groups for p in group["params"]}
        assert moved == set(study.model.parameters())
        if isinstance(study.model, GroupTransformer):
            hidden = {weight for block in study.model.blocks for weight in block.mixing.weights}
            assert set(study.optimizer.param_groups[0]["params"]) == hidden


def test_a_run_that_diverges_is_a_result_that_is_not_run_again(tmp_path):
    table = find_table("subgroups/figure-3")
    rows = [row for row in table.rows if row.label == "sgd 1, OSMFormer, 2 layers"]
    order, ran = _order(tmp_path, rows, learning_rate=1e30, clip=1e30, warmup=0), []
    complete(order, lambda updates, path: (ran.append(path), _silently(updates, path)))
    assert read_run(ran[0]).status.startswith("stopped: update 1 left a model whose logits are not finite")
    (content,) = results(order)
    assert content["columns"]["validation"]["ours"]["bits"]["seeds"] == [None]
    (whole,) = robustness(table, [content], "validation")
    assert (whole["runs"], whole["diverged"], whole["best"]) == (1, 1.0, None)
    complete(order, lambda updates, path: ran.append(path))
    assert len(ran) == 1


def test_a_model_that_refuses_its_own_numbers_has_diverged():
    experiment = EXPERIMENTS["subgroups/optimizers"]
    study = experiment.build(**experiment.arguments(**SHORT))
    with torch.no_grad():
        study.model.embedding.raw.fill_(1e30).triu_(1)
    with pytest.raises(NonFiniteLoss, match="update 4 has loss nan"):
        study.step.forward(study.model, study.task.batch(0, 2).tokens, 3, slice(0, 2))


def test_a_table_that_admits_no_divergence_still_stops_at_one(tmp_path):
    table = find_table("subgroups/2")
    with pytest.raises(ArithmeticError):
        complete(
            Order(table, table.rows[:1], "laptop", 1, tmp_path, given={**SHORT, "learning_rate": 1e30, "clip": 1e30}),
            _silently,
        )


def test_trials_of_tiny_shakespeare_are_scored_on_text_that_no_number_of_its_table_rests_on(tmp_path):
    table, cuts = find_table("subgroups/2"), []
    tuning = replace(table.tuning, values=(1e-3,))
    given = {name: value for name, value in SHORT.items() if name not in ("split", "learning_rate")}
    order = Order(replace(table, tuning=tuning), table.rows[:1], "laptop", 1, tmp_path, tuned=True, given=given)
    complete(order, lambda updates, path: (_silently(updates, path), cuts.append(read_run(path).arguments["split"])))
    assert cuts == ["80-10-10", "90-5-5"]
    assert "--split 90-5-5" in results(order)[0]["command"]
    shares = {split: SPLITS[split] for split in cuts}
    assert shares["80-10-10"][1] <= shares["90-5-5"][0]  # its validation text ends where the table's begins


def test_a_trial_that_diverges_loses_and_is_not_run_again_and_nothing_is_chosen_where_all_do(tmp_path):
    table, ran = find_table("subgroups/2"), []
    for rates, chosen in (((1e30, 1e-3), 1e-3), ((1e30, 1e29), None)):
        wild = replace(table, tuning=Tuning("learning_rate", rates, share=0.5))
        order = Order(wild, table.rows[:1], "laptop", 1, tmp_path, tuned=True, given={**SHORT, "clip": 1e30})
        complete(order, lambda updates, path: (ran.append(path.name), _silently(updates, path)))
        (content,) = results(order)
        assert content["tuning"]["chosen"] == chosen
        assert [trial["diverged"] for trial in content["tuning"]["trials"]] == [rate > 1 for rate in rates]
        json.dumps(content, allow_nan=False)
    assert [name for name in ran if not name.endswith("-100")] == [f"{table.rows[0].folder}-learning_rate=0.001-0"]
    assert len(ran) == 4  # the one at 1e30 once


def test_a_value_at_which_a_run_diverges_is_given_up_for_the_next_best_by_all_seeds(tmp_path, monkeypatch, capsys):
    table, ran = find_table("subgroups/2"), []
    tuning = Tuning("learning_rate", (1e-3, 2e-3), share=0.5)
    order = Order(replace(table, tuning=tuning), table.rows[:1], "laptop", 2, tmp_path, tuned=True, given=SHORT)
    monkeypatch.setattr(BitsPerCharacter, "merit", lambda self, run: float("=0.002-" in run.name))

    def follow(updates, path):
        ran.append(path.name.partition("learning_rate=")[2])
        if ran[-1] == "0.002-1":
            next(iter(updates))
            raise NonFiniteLoss(2, float("nan"), 1.0)
        _silently(updates, path)

    def diverged(path):
        return path.name.endswith("=0.002-1") and path.is_dir()

    for module in ("run_table", "table_run"):
        monkeypatch.setattr(f"torsor.experiments.{module}.has_diverged", diverged)
    complete(order, follow)
    assert ran == ["0.001-100", "0.002-100", "0.002-0", "0.002-1", "0.001-0", "0.001-1"]
    (content,) = results(order)
    assert content["tuning"]["chosen"] == 1e-3
    assert [trial["given_up"] for trial in content["tuning"]["trials"]] == [False, True]
    assert len(content["columns"]["validation"]["ours"]["bits"]["seeds"]) == 2
    print_grid(order.table, [content], provenances(order))
    assert "0.002 (-1.000, given up: a run diverged)" in capsys.readouterr().out


def test_the_interval_of_a_difference_is_welch_s():
    ours, theirs = OverSeeds((2.1, 2.3, 2.2), (9, 9, 9)), OverSeeds((2.6, 3.0, None), (9, 9, 0))
    spreads = [(0.1**2) / 3, 0.08 / 2]  # variance over seeds, over their number
    freedom = sum(spreads) ** 2 / (spreads[0] ** 2 / 2 + spreads[1] ** 2 / 1)
    found = difference(ours, theirs)
    assert found.value == pytest.approx(-0.6)
    assert found.half_width == pytest.approx(student.ppf(0.975, freedom) * sum(spreads) ** 0.5)
    single = difference(ours, OverSeeds((2.0,), (9,)))
    assert (single.value, single.half_width) == (pytest.approx(0.2), None)
    assert difference(ours, OverSeeds((None,), (0,))) is None
    assert difference(OverSeeds((1.0, 1.0), (1, 1)), OverSeeds((3.0, 3.0), (1, 1))) == Difference(-2.0, 0.0)


def test_every_model_of_a_table_is_set_against_the_baseline_of_its_size(tmp_path, capsys):
    table = find_table("subgroups/2")
    assert [row.against for row in table.rows] == ["", table.rows[0].label]
    recurrent = find_table("subgroups/4").rows
    assert [row.against for row in recurrent] == ["", recurrent[0].label, recurrent[0].label]
    for name in ("subgroups/5", "subgroups/6", "subgroups/figure-2"):
        rows = find_table(name).rows
        assert [row.against for row in rows] == [rows[at - 1].label if at % 2 else "" for at in range(len(rows))]
    order = Order(table, table.rows, "laptop", 2, tmp_path, given=SHORT)
    complete(order, _silently)
    content = results(order)
    assert content[0]["against"] is None
    for column in ("validation", "test"):
        means = [row["columns"][column]["ours"]["bits"]["mean"] for row in content]
        told = content[1]["against"]["columns"][column]
        assert told["value"] == pytest.approx(means[1] - means[0])
        assert told["half_width"] > 0
    print_grid(table, content, provenances(order))
    said = capsys.readouterr().out
    assert (
        f"OSMFormer (linear mixing) less Transformer (ALiBi, 2L1H): validation {told_of(content, 'validation')}, "
        in said
    )
    (alone,) = results(Order(table, table.rows[1:], "laptop", 2, tmp_path, given=SHORT))
    assert alone["against"] is None


def told_of(content, column):
    told = content[1]["against"]["columns"][column]
    return f"{told['value']:+.3f} ± {told['half_width']:.3f}"


def test_best_spread_and_share_of_diverged_runs_are_those_of_the_numbers():
    table = find_table("subgroups/figure-3")
    rows = [row for row in table.rows if row.place.panel == "sgd" and row.place.series == "OSMFormer, 2 layers"]
    values = ([3.0, 3.5], [2.5, None], [9.0, 4.0])  # 9 bits are more than those of 65 equal chances
    content = [
        {"row": row.label, "columns": {"validation": {"ours": {"bits": {"seeds": seeds}}}}}
        for row, seeds in zip(rows, values, strict=True)
    ]
    (found,) = robustness(table, content, "validation")
    assert found == {
        "panel": "sgd",
        "series": "OSMFormer, 2 layers",
        "best": 2.5,
        "at": RATES["sgd"][1],
        "spread": 1.5,
        "runs": 6,
        "diverged": pytest.approx(1 / 3),
    }


def test_a_picture_stands_beside_its_numbers(tmp_path, capsys):
    for name, ending in (("figure-1", "svg"), ("7", "png")):
        picture = tmp_path / f"{name}.{ending}"
        assert run(f"table subgroups/{name} --dry-run --out {tmp_path / 'runs'} --picture {picture}") == 0
        assert picture.stat().st_size > 1000
        with picture.with_suffix(".csv").open() as file:
            points = list(csv.DictReader(file))
        table = find_table(f"subgroups/{name}")
        for row in table.rows:
            for column, published in row.paper.items():
                assert any(
                    point["column"] == column
                    and point["source"] == "paper"
                    and float(point["value"]) == published.value
                    for point in points
                )
        if name == "figure-1":
            assert {float(point["at"]) for point in points} == {row.place.at for row in table.rows}
    capsys.readouterr()
    assert run(f"table subgroups/7 --dry-run --out {tmp_path / 'runs'} --picture {tmp_path / 'a.txt'}") == 2
    assert "a picture must end in one of .png, .svg, .pdf, got 'a.txt'" in capsys.readouterr().err
    assert run(f"table subgroups/groups --dry-run --out {tmp_path / 'runs'} --picture {tmp_path / 'a.png'}") == 2
    assert "no row has a number yet" in capsys.readouterr().err


def test_the_command_says_what_the_optimizers_come_to(tmp_path, capsys):
    with pytest.raises(SystemExit) as ending:
        main(["table", "subgroups/figure-3", "--dry-run", "--json", "--out", str(tmp_path)])
    assert ending.value.code == 0
    content = json.loads(capsys.readouterr().out)
    assert len(content["rows"]) == 60
    assert len(content["robustness"]) == 20
    assert all(each["diverged"] is None for each in content["robustness"])

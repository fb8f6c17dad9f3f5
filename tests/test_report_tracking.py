"""The report's section on state tracking: its numbers are those of the folder, its pictures those of the counts."""

import json
import math
import re

import numpy as np
import pytest

from test_report import COMMAND, Page, edit, fake_run
from torsor.report import write_report
from torsor.report.read import read_run
from torsor.report.tracking_curves import positions
from torsor.report.tracking_pictures import confusion, view
from torsor.report.tracking_run import Confused, Placed

SIZES = (3, 3)


def scores(length, words=200, seed=0):
    """The scores of words of one length, as ``Scores.to_json`` gives them."""
    right = np.clip(1.2 - 0.9 * np.arange(1, length + 1) / length, 0.2, 1.0)
    curve = np.cumprod(right)
    joint = float(curve[-1])
    return {
        "words": words,
        "length": length,
        "joint": joint,
        "joint_interval": [max(0.0, joint - 0.02), joint + 0.03],
        "last": float(right[-1]),
        "last_interval": [0.1, 0.3],
        "conditional": None,
        "conditional_interval": None,
        "conditional_count": 0,
        "token": float(right.mean()),
        "curve": curve.tolist(),
        "position": right.tolist(),
    }


def half(scores):
    """The last position up to which half of the words have no error."""
    return sum(value >= 0.5 for value in scores["curve"])


def entry(length, stage=None, reason=None):
    """The numbers of one length, as ``tracking.json`` has them."""
    quotient = {"subgroup": [0, 3, 4], "order": 3, "uniform_inside": 1 / 3, **scores(length)}
    quotient |= {"exact_given_coset": {"value": 0.3456, "low": 0.31, "high": 0.38}, "frontier": {"value": 7}}
    token = scores(length)["token"]
    return {
        "length": length,
        "positions": list(range(1, length + 1)),
        "scores": scores(length),
        "token": {"value": token, "low": token - 0.01, "high": token + 0.01},
        "frontiers": [
            {"threshold": at, "value": length // 2, "low": length // 3, "high": length, "level": 0.95}
            for at in (0.75, 0.9, 0.99)
        ],
        "quotients": [quotient],
        "abelian": [0, 3, 4],
        "window": length // 2 + 6,
        "stage": {"accuracy": 0.3, "stage": stage, "reason": reason},
        "chance": 1 / 6,
        "ceiling": {"value": 0.3361, "kind": "exact"},
        "familiar": None,
        "forced": None,
    }


STAGE = {"order": 3, "side": "left", "normal": False, "distance": 0.0312}


def tracking(steps=(None,)):
    generator = np.random.default_rng(0)
    return {
        "format": 1,
        "command": "torsor track --model mine:model",
        "model": "mine:model",
        "task": {"group": "S3", "order": 6, "alphabet": "all", "letters": 6, "train_length": 8, "held_out": []},
        "trained_steps": steps[-1],
        "readings": [
            {"steps": each, "lengths": [entry(8, reason="too few errors, 3 of at least 100"), entry(32, STAGE)]}
            for each in steps
        ],
        "stream": {
            "length": 2**20,
            "words": 100,
            "joint": 0.25,
            "joint_interval": [0.17, 0.35],
            "frontier": 123,
            "positions": [2**power for power in range(21)],
            "unbroken": np.linspace(1, 0.25, 21).tolist(),
            "unbroken_intervals": [[max(0, at - 0.1), at] for at in np.linspace(1, 0.25, 21).tolist()],
        },
        "confusion": {
            "steps": None,
            "length": 32,
            "first": 22,
            "subgroup": [0, 3, 4],
            "side": "left",
            "chosen": "the stage",
            "cosets": [[0, 3, 4], [1, 2, 5]],
            "counts": np.kron(np.eye(2), 5 * np.ones((3, 3))).astype(int).tolist(),
            "outside": [0] * 6,
        },
        "means": {
            "of": "state",
            "share": 0.7654,
            "scatter": 0.1,
            "coordinates": generator.standard_normal((6, 3)).tolist(),
        },
        "edges": [[g, (g + 1) % 6] for g in range(6)],
    }


@pytest.fixture
def own(tmp_path):
    """The folder of a user's own model."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "tracking.json").write_text(json.dumps(tracking()))
    return tmp_path / "own"


@pytest.fixture
def run(tmp_path):
    """A run that was examined at two depths."""
    folder = fake_run(tmp_path / "a-0", label="diagonal")
    (folder / "tracking.json").write_text(json.dumps(tracking((2, 4))))
    return folder


def report(tmp_path, *folders):
    return Page(write_report(list(folders), tmp_path / "report.html", COMMAND))


def test_a_page_of_a_user_s_own_model_stands_alone_and_says_that_it_was_not_trained_here(tmp_path, own):
    page = report(tmp_path, own)
    assert page.open == []
    assert page.addresses == []
    assert not {"script", "link", "img"} & set(page.tags)
    assert "examined and not trained here" in page.text
    assert "Tracking of S3 from all its elements" in page.text
    assert "torsor track --model mine:model" in page.text
    for absent in ("not measured", "torsor measure", "seed ?", "Training", "interval over seeds", "Geometry"):
        assert absent not in page.text


def test_every_number_of_the_tracking_table_is_the_number_of_the_folder(tmp_path, own):
    content = tracking()
    rows = [row for row in report(tmp_path, own).tables[0] if row]
    expected = []
    for each in content["readings"][0]["lengths"]:
        (coset,) = each["quotients"]
        frontiers = [found["value"] for found in each["frontiers"][:2]]
        own = [each["length"], each["scores"]["joint"], each["token"]["value"], half(each["scores"]), *frontiers]
        controls = [each["ceiling"]["value"], each["chance"], coset["token"], coset["joint"]]
        expected.append([*own, *controls, coset["exact_given_coset"]["value"]])
    assert rows[:-1] == expected
    assert content["stream"]["joint"] in rows[-1]


def test_the_page_says_how_far_and_which_cosets(tmp_path, own):
    text = report(tmp_path, own).text
    assert "at length 32, stage: order 3, left cosets, d = 0.031." in text
    assert "25.0 % of 100 words of 1 048 576 letters without an error" in text
    assert "no stage: too few errors, 3 of at least 100" in text
    assert "all of them right up to position 123" in text
    assert "76.5 % of what tells the means apart is in 3 directions" in text
    assert "2 left cosets of a subgroup of order 3 (the stage)" in text


def test_a_run_shows_its_depths_beside_what_it_showed_before(tmp_path, run):
    before = fake_run(tmp_path / "b-0", label="diagonal")
    plain, page = report(tmp_path, before), report(tmp_path, run)
    assert "State tracking" not in plain.text
    assert "State tracking" in page.text
    assert "2 loops" in page.text
    assert "4 loops, trained" in page.text
    assert [row for row in page.tables[0] if row] == [row for row in plain.tables[0] if row]
    assert page.open == []


def test_a_hostile_text_of_a_tracking_file_is_text_and_nothing_else(tmp_path, own):
    hostile = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>&amp;"

    def change(content):
        content.update(model=hostile, command=hostile)
        content["task"].update(group=hostile, alphabet=hostile)
        content["confusion"].update(chosen=hostile, side=hostile)
        content["means"].update(of=hostile)
        for each in content["readings"][0]["lengths"]:
            each["ceiling"]["kind"] = hostile
        content["readings"][0]["lengths"][0]["stage"]["reason"] = hostile
        content["readings"][0]["lengths"][1]["stage"]["stage"]["side"] = hostile

    edit(own, "tracking.json", change)
    page = report(tmp_path, own)
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count(hostile) > 6


def test_numbers_that_are_not_there_leave_gaps_and_no_error(tmp_path, own):
    def change(content):
        content.update(stream=None, confusion=None, means={"coordinates": [[0, 1, None]]}, edges=[[0], "x", [0, 99]])
        first = content["readings"][0]["lengths"][0]
        first.update(quotients=[], token={}, frontiers=[{"threshold": 0.75}], ceiling={}, stage=None)
        first["scores"].update(joint=None, joint_interval=[None, 1], curve=[1.0, None, math.inf])

    edit(own, "tracking.json", change)
    page = report(tmp_path, own)
    assert page.open == []
    assert not re.search(r"\b(nan|inf|None)\b", " ".join(shape["d"] for shape in page.shapes))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(format=2), r"tracking.json must have format 1, got 2"),
        (lambda content: content.update(readings=[]), r"tracking.json must hold scores, got none"),
    ],
)
def test_another_format_is_refused_in_one_line(tmp_path, own, change, message):
    edit(own, "tracking.json", change)
    with pytest.raises(ValueError, match=message) as caught:
        report(tmp_path, own)
    assert "\n" not in str(caught.value)


def test_the_stages_of_a_training_are_drawn_at_the_order_of_their_subgroup(tmp_path):
    folder = fake_run(tmp_path / "a-0", label="GRU")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    looks = [line for line in lines if "evaluation" in line]
    for place, line in enumerate(looks):
        stage = {"order": 12 if place < 3 else 5, "side": "right", "normal": place < 3, "distance": 0.05}
        line["evaluation"] |= {"token": 0.2, "stage": {"accuracy": 0.1, "stage": stage if place < 6 else None}}
        if place == len(looks) - 1:
            line["evaluation"] |= {"token": 0.995}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    lasted = {"updates": 300, "stages": [{"order": 12, "side": "right", "normal": True, "first": 6, "last": 18}]}
    edit(folder, "evaluation.json", lambda data: data.update(stages=lasted))
    record = read_run(folder).stages
    assert [check.stage and check.stage.order for check in record.checks] == [12] * 3 + [5] * 3 + [None] * 4
    assert [check.exact for check in record.checks] == [False] * 9 + [True]
    assert [(held.stage.order, held.first, held.last) for held in record.held] == [(12, 6, 18)]
    page = report(tmp_path, folder)
    assert "Coset stages during training" in page.text
    titles = re.findall(r"<title>(GRU[^<]*)</title>", page.source)
    assert "GRU, update 6: order 12, normal" in titles
    assert "GRU, update 36: order 5, right cosets" in titles
    assert "GRU, update 60: exact" in titles
    assert "GRU: order 12, normal, 6 to 18" in titles
    assert sum("update" in title for title in titles) == 7


def test_a_training_without_a_stage_has_no_picture_of_stages(tmp_path):
    folder = fake_run(tmp_path / "a-0", label="GRU")
    look = {"update": 61, "evaluation": {"token": 0.995, "stage": {"accuracy": 0.995, "stage": None}}}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(look) + "\n")
    assert read_run(folder).stages.checks[0].exact
    assert "State tracking" not in report(tmp_path, folder).text


def test_scores_by_length_at_the_end_of_a_training_are_shown_without_asking_for_depths(tmp_path):
    folder = fake_run(tmp_path / "a-0", label="GRU, 32 units")
    (folder / "geometry.json").unlink()
    stream = {"words": 20, "length": 1024, "joint": 0.5, "joint_interval": [0.3, 0.7], "positions": [1, 32, 1024]}
    found = {
        "task": {"group": "S3", "length": 8, "alphabet": "all", "words": 200},
        "lengths": [scores(8), scores(16)],
        "stream": stream | {"unbroken": [1.0, 0.9, 0.5], "accuracy": [1.0, 0.95, 0.8]},
        "closure": {"verdict": "proven", "states": 61, "transitions": 3660},
    }
    (folder / "evaluation.json").write_text(json.dumps(found))
    page = report(tmp_path, folder)
    rows = [row for row in page.tables[0] if row]
    own = [[each, scores(each)["joint"], scores(each)["token"], half(scores(each))] for each in (8, 16)]
    assert rows == [*own, [0.5]]
    assert "Proven at every length: 61 states by every letter" in page.text
    assert f"torsor track {folder}" in page.text
    for absent in ("torsor measure", "joint accuracy after", "not looked at"):
        assert absent not in page.text
    text = page.text
    assert "50.0 % of 20 words of 1 024 letters without an error; no stage was looked for." in text


@pytest.mark.parametrize(
    ("closure", "said"),
    [
        ({"verdict": "refuted", "counterexample": [6, 1, 2], "transitions": 40}, "a word of 2 letters goes wrong"),
        ({"verdict": "not finite", "most": 1000, "length": 12}, "more than 1 000 states; right up to length 12"),
        ({"verdict": "something else"}, None),
    ],
)
def test_a_search_for_a_proof_is_said_in_words(tmp_path, own, closure, said):
    edit(own, "tracking.json", lambda content: content.update(closure=closure))
    proof = read_run(own).tracking.proof
    assert proof is None if said is None else said in proof.replace("\u202f", " ")


# Charts and pictures.


def test_the_axis_of_positions_is_logarithmic_and_reaches_a_million():
    axis = positions(2**20)
    assert [tick for tick, _ in axis.ticks] == [10**power for power in range(7)]
    assert axis.place(1) == 0
    assert axis.place(2**20) == 1
    assert axis.place(2**10) == pytest.approx(0.5)
    assert [tick for tick, _ in positions(5).ticks] == [1, 10]


def painted(picture, count):
    """The share that each cell of a confusion is painted with, of the full colour."""
    found, cell = np.zeros((count, count)), 186.0 / count
    for shape in picture.shapes:
        if shape.css == "cell plus":
            for x, y, width in re.findall(r"M(\S+) ([\d.]+)h([\d.]+)v", shape.d):
                row, first = round((float(y) - 24) / cell), round((float(x) - 26) / cell)
                assert not found[row, first : first + round(float(width) / cell)].any()
                found[row, first : first + round(float(width) / cell)] = float(shape.opacity)
    return found


def confused(counts, sizes):
    elements = tuple(range(sum(sizes)))
    rows = tuple(tuple(map(float, row)) for row in counts)
    return Confused(None, 32, 22, sizes[0], "right", "the stage", tuple(sizes), elements, rows)


def test_a_confusion_paints_the_share_of_each_answer_in_its_row():
    counts = np.random.default_rng(0).integers(0, 50, (6, 6))
    shares = counts / counts.sum(1, keepdims=True)
    picture = confusion(confused(counts, (3, 3)))
    (scale,) = [float(text.text) for text in picture.texts if text.css == "tick" and text.text != "0"]
    assert shares.max() <= scale <= 2.5 * shares.max()
    assert np.abs(painted(picture, 6) * scale - shares).max() <= 0.5 * scale / 20 + 1e-9
    assert sum(shape.css == "coset" for shape in picture.shapes) == 1


def test_the_confusion_of_a_large_group_is_of_whole_cosets():
    counts = np.random.default_rng(0).integers(1, 50, (120, 120))
    picture = confusion(confused(counts, (24,) * 5))
    together = counts.reshape(5, 24, 5, 24).sum((1, 3))
    shares = together / together.sum(1, keepdims=True)
    (scale,) = [float(text.text) for text in picture.texts if text.css == "tick" and text.text != "0"]
    assert np.abs(painted(picture, 5) * scale - shares).max() <= 0.5 * scale / 20 + 1e-9


def test_class_means_are_turned_and_not_bent_and_near_ones_are_larger():
    places = np.random.default_rng(0).standard_normal((6, 3))
    placed = Placed("state", 0.9, 0.1, (*map(tuple, places.tolist()), (), (1.0, None, 0.0)))
    for name, around, over in (("from the front", 0.0, 0.0), ("turned", 60.0, 0.0), ("above", 0.0, 75.0)):
        picture = view(placed, [(0, 1), (1, 6), (2, 2)], {0: 0, 1: 1}, name, around, over)
        dots = {shape.title: shape for shape in picture.shapes if shape.css.startswith("mean")}
        assert len(dots) == 6  # what has no place is not drawn
        cosine, sine = np.cos(np.radians([around, over])), np.sin(np.radians([around, over]))
        x = places[:, 0] * cosine[0] + places[:, 2] * sine[0]
        z = places[:, 2] * cosine[0] - places[:, 0] * sine[0]
        y, z = places[:, 1] * cosine[1] - z * sine[1], z * cosine[1] + places[:, 1] * sine[1]
        half = 93.0 / np.linalg.norm(places, axis=1).max()
        radii = []
        for element in range(6):
            left, height, radius = map(
                float, re.match(r"M(\S+) ([\d.]+)a([\d.]+)", dots[f"element {element}"].d).groups()
            )
            assert left + radius == pytest.approx(26 + 93 + half * x[element], abs=0.11)
            assert height == pytest.approx(24 + 93 - half * y[element], abs=0.06)
            radii.append(radius)
        assert np.array_equal(np.argsort(z, kind="stable"), np.argsort(radii, kind="stable")) or np.ptp(radii) < 1.5
        assert radii[int(z.argmax())] == max(radii)
        (edges,) = [shape.d for shape in picture.shapes if shape.css == "edge"]
        assert edges.count("M") == 1

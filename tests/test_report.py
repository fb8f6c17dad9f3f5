"""The report page: what stands on it is what the run folders hold, and it stands alone."""

import base64
import hashlib
import json
import math
import re
import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

from torsor.report import wording, write_report
from torsor.report.charts import Panel, doublings, linear, shares
from torsor.report.curves import bins
from torsor.report.geometry import deviation, heat_map
from torsor.report.page_script import page_script
from torsor.report.read import read_run
from torsor.report.rows import gather

COMMAND = "torsor report runs/a-0 runs/b-0"
VOID = {"meta", "br", "link", "img", "hr", "input"}


def dense(rates, angles):
    """A block-diagonal matrix of planes that turn and shrink; a plane without an angle is diagonal."""
    matrix = np.zeros((2 * len(rates), 2 * len(rates)))
    for plane, (rate, angle) in enumerate(zip(rates, angles, strict=True)):
        cosine, sine = math.cos(angle), math.sin(angle)
        matrix[2 * plane : 2 * plane + 2, 2 * plane : 2 * plane + 2] = rate * np.array(
            [[cosine, -sine], [sine, cosine]]
        )
    return matrix


def measured(matrix, blocks, steps, probes, generator):
    """What ``geometry.json`` holds of a map."""

    def scope(part):
        grams = []
        for _ in range(probes):
            state, path = generator.standard_normal(len(part)), []
            for _ in range(steps):
                path.append(state / np.linalg.norm(state))
                state = part @ path[-1]
            grams.append(np.array(path) @ np.array(path).T)
        defects = []
        for gram in grams:
            lags = np.subtract.outer(np.arange(steps), np.arange(steps))
            smooth = sum((lags == lag) * gram[lags == lag].mean() for lag in range(-steps + 1, steps))
            defects.append(np.linalg.norm(gram - smooth) / np.linalg.norm(gram))
        product = part.T @ part
        readable = np.linalg.norm(product - np.trace(product) / len(part) * np.eye(len(part))) / np.linalg.norm(product)
        return np.mean(grams, axis=0), np.mean(defects), np.std(defects), readable

    whole = scope(matrix)
    own = [scope(matrix[low:high, low:high]) for low, high in blocks]
    spectrum = []
    for index, (low, high) in enumerate(blocks):
        spectrum += [[value.real, value.imag, index] for value in np.linalg.eigvals(matrix[low:high, low:high])]
    return {
        "blocks": [list(block) for block in blocks],
        "spectrum": spectrum,
        "gram": whole[0].tolist(),
        "gram_own": [part[0].tolist() for part in own],
        "lag_cosine": {"own": np.mean([part[0][0] for part in own], axis=0).tolist(), "whole": whole[0][0].tolist()},
        "readability": {"own": max(part[3] for part in own), "whole": whole[3], "formula": "||M'M - c2 I|| / ||M'M||"},
        "toeplitz": {
            "own": {"mean": np.mean([part[1] for part in own]), "std": np.mean([part[2] for part in own])},
            "whole": {"mean": whole[1], "std": whole[2]},
            "formula": "||G - P(G)|| / ||G||",
            "steps": steps,
            "probes": probes,
        },
    }


def fake_geometry(kind, generator, planes=8, steps=12, probes=6):
    """A diagonal map in one block, or a conformal one in two, with its untrained beginning."""
    angles = 10000.0 ** (-np.arange(planes) / planes) * 0.9
    if kind == "diagonal":
        before, after = np.eye(2 * planes) * 0.447, np.diag(generator.uniform(0.15, 0.97, 2 * planes))
        blocks = [(0, 2 * planes)]
    else:
        blocks = [(0, planes), (planes, 2 * planes)]
        before = dense([0.447] * planes, np.tile(angles[::2], 2)[:planes])
        rates = np.repeat([0.62, 0.93], [planes // 2, planes - planes // 2])
        after = dense(rates, np.tile(angles[::2], 2)[:planes] * generator.uniform(0.6, 2.5, planes))
    found = measured(after, blocks, steps, probes, generator)
    return {**found, "initial": measured(before, blocks, steps, probes, generator)}


def fake_run(
    folder, kind="diagonal", label=None, seed=0, updates=60, length=8, depths=(2, 4, 8), hazard=0.05, size=(8, 12, 6)
):
    """A run folder as training and measuring would leave it."""
    generator = np.random.default_rng([seed, len(kind)])
    folder.mkdir(parents=True)
    arguments = {"transition": kind, "width": 64, "updates": updates, "seed": seed}
    about = {"format": 1, "experiment": "rotate-the-loop/s3", "arguments": arguments, "seed": seed, "threads": 2}
    about |= {"versions": {"torsor": "0.1.0", "torch": "2.13.0", "python": "3.12.3"}, "status": "finished"}
    about |= {
        "command": f"torsor train rotate-the-loop/s3 --transition {kind} --seed {seed}",
        "parameters": 67_331 + 8 * len(kind),
    }
    (folder / "run.json").write_text(json.dumps(about | ({"label": label} if label else {})))
    lines, timing, trained = [], [], depths[len(depths) // 2]
    for update in range(1, updates + 1):
        done = update / updates
        stage = min(3, int(4 * done))
        hard = 1.75 * math.exp(-9 * (done - stage / 4)) * (0.5 + stage / 4) + 12 * hazard**2 * (1 - done / 2) + 0.004
        line = {"update": update, "loss": hard * math.exp(0.25 * generator.standard_normal())}
        line["gradient_norm"] = (0.4 + hard) * math.exp(0.4 * generator.standard_normal())
        line["learning_rate"] = 1e-3 * min(1, 10 * done) * (0.55 + 0.45 * math.cos(math.pi * done))
        lines.append(line | {"length": max(2, length * (stage + 1) // 4), "steps": trained})
        timing.append({"update": update, "seconds": 0.05, "tokens": 1024})
        if update % (updates // 10) == 0:
            joint = (1 - hazard) ** length / (1 + math.exp(-12 * (done - 0.55)))
            score = {"steps": trained, "joint": joint, "token": joint**0.4, "last": joint**0.7}
            lines.append({"update": update, "evaluation": score})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timing))
    entries = []
    for steps in depths:
        reach = length * steps / trained
        local = hazard * (1 + np.exp(np.arange(1, length + 1) - reach)).clip(0, 12) * generator.uniform(0.8, 1.25)
        curve = np.cumprod(1 - np.minimum(local, 0.83)).tolist()
        position = [(1 / 6) + 5 / 6 * value**0.6 for value in curve]
        joint = curve[-1]
        entry = {"steps": steps, "joint": joint, "joint_interval": [max(0, joint - 0.021), min(1, joint + 0.019)]}
        entry |= {"last": position[-1], "token": float(np.mean(position)), "curve": curve, "position": position}
        count = round(2048 * curve[-2])
        entries.append(entry | {"conditional": joint / curve[-2] if count else None, "conditional_count": count})
    task = {"group": "S3", "length": length, "alphabet": "generators", "words": 2048}
    (folder / "evaluation.json").write_text(json.dumps({"task": task, "trained_steps": trained, "depths": entries}))
    (folder / "geometry.json").write_text(json.dumps(fake_geometry(kind, generator, *size)))
    return folder


def edit(folder, name, change):
    """Change a JSON file of a run folder in place."""
    data = json.loads((folder / name).read_text())
    change(data)
    (folder / name).write_text(json.dumps(data))


class Page(HTMLParser):
    """The page as a browser would take it apart: open elements, tables, texts, and every address it names."""

    def __init__(self, path):
        super().__init__()
        self.open, self.tables, self.addresses, self.tags, self.texts, self.shapes = [], [], [], [], [], []
        self.own_scripts = 0
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in {"href", "src", "srcset", "action", "xlink:href"}]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag == "data":
            self.tables[-1][-1].append(float(attributes["value"]))
        elif tag == "path":
            self.shapes.append(attributes)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "script":
            self.texts.append(data)
        elif data == page_script()[0]:
            self.own_scripts += 1
            self.tags.remove("script")  # what is left among the tags is a stranger's

    @property
    def text(self):
        return " ".join("".join(self.texts).replace("\xa0", " ").split())

    @property
    def numbers(self):
        """The rows of the result table that hold numbers."""
        return [row for row in self.tables[0] if row]


def report(tmp_path, *runs):
    return Page(write_report(list(runs), tmp_path / "report.html", COMMAND))


@pytest.fixture
def pair(tmp_path):
    """A diagonal and a conformal run that both have everything."""
    diagonal = fake_run(tmp_path / "a-0", "diagonal", "diagonal", hazard=0.06)
    return diagonal, fake_run(tmp_path / "b-0", "conformal", "conformal, 2 groups", hazard=0.004)


def test_the_page_needs_no_other_file_and_no_network(tmp_path, pair):
    page = report(tmp_path, *pair)
    assert page.addresses == []
    assert not {"script", "link", "img", "iframe", "object", "image", "use"} & set(page.tags)
    assert "default-src 'none'" in page.source
    assert not re.search(r"https?:|//\w|@import|@font-face|url\((?!#)", page.source)


def test_a_browser_may_run_the_page_s_own_script_and_no_other(tmp_path, pair):
    page = report(tmp_path, *pair)
    assert page.own_scripts == 1
    assert "script" not in page.tags
    (text,) = re.findall(r"<script>(.*?)</script>", page.source, re.S)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    assert re.findall(r"script-src ([^\";]+)", page.source) == [f"'sha256-{digest}'"]


def test_a_curve_tells_the_numbers_of_its_corners(tmp_path, pair):
    told = [shape for shape in report(tmp_path, *pair).shapes if shape.get("data-values")]
    assert len(told) > 30
    for shape in told:
        assert len(re.findall(r"[ML]-?[\d.]+ ", shape["d"])) == len(shape["data-values"].split(";"))
    curves = {(shape["data-name"], shape["data-values"]) for shape in told if shape.get("data-name")}
    depth = json.loads((pair[0] / "evaluation.json").read_text())["depths"][1]
    values = ";".join(f"{place} {value:.5g}" for place, value in enumerate(depth["curve"], start=1))
    assert ("diagonal", values) in curves


def test_a_heat_map_tells_the_number_of_every_cell(tmp_path, pair):
    source = report(tmp_path, *pair).source
    told = [[row.split(" ") for row in cells.split(";")] for cells in re.findall(r'data-cells="([^"]+)"', source)]
    gram = np.array(json.loads((pair[0] / "geometry.json").read_text())["gram"])
    assert np.abs(np.array(told[0], dtype=float) - gram).max() < 1e-3
    assert np.abs(np.array(told[1], dtype=float) - np.array(deviation(tuple(map(tuple, gram))))).max() < 1e-3


def test_every_element_of_the_page_is_closed(tmp_path, pair):
    page = report(tmp_path, *pair)
    assert page.open == []
    assert page.tags.count("svg") > 15
    assert page.source.count("<!doctype html>") == 1


def test_every_number_of_the_result_table_is_the_number_of_the_folder(tmp_path, pair):
    for folder, row in zip(pair, report(tmp_path, *pair).numbers, strict=True):
        depths = json.loads((folder / "evaluation.json").read_text())["depths"]
        geometry = json.loads((folder / "geometry.json").read_text())
        readability, toeplitz = geometry["readability"], geometry["toeplitz"]
        expected = [depth["joint"] for depth in depths]
        expected += [readability["own"], readability["whole"], toeplitz["own"]["mean"], toeplitz["whole"]["mean"]]
        expected.append(json.loads((folder / "run.json").read_text())["parameters"])
        assert row[:-1] == expected
        assert row[-1] == pytest.approx(60 * 0.05)


def test_every_score_of_every_depth_is_on_the_page(tmp_path, pair):
    page = report(tmp_path, *pair)
    scores = [row for row in page.tables[-1] if row]
    depths = [depth for run in pair for depth in json.loads((run / "evaluation.json").read_text())["depths"]]
    for depth, row in zip(depths, scores, strict=True):
        names = ("joint", "last", "token", "conditional", "conditional_count")
        assert row == [depth[name] for name in names if depth[name] is not None]


def test_what_is_shown_of_a_number_is_that_number_rounded(tmp_path, pair):
    shown = re.findall(r'<data value="([^"]+)">(\d\.\d{3})</data>', report(tmp_path, *pair).source)
    assert len(shown) > 24
    for value, text in shown:
        assert f"{float(value):.3f}" == text


def test_seeds_of_one_setting_are_one_row_with_their_mean_and_each_seed(tmp_path):
    runs = [fake_run(tmp_path / f"a-{seed}", seed=seed, hazard=0.02 + 0.02 * seed) for seed in range(3)]
    page = report(tmp_path, *runs)
    joint = [[depth["joint"] for depth in json.loads((run / "evaluation.json").read_text())["depths"]] for run in runs]
    assert page.numbers[0] == pytest.approx(np.mean(joint, axis=0).tolist())
    assert [row[:3] for row in page.numbers[1:]] == joint
    half_width = 4.302652729911275 * np.std(joint, axis=0, ddof=1) / math.sqrt(3)  # Student, two degrees of freedom
    for value in half_width:
        assert f"± {value:.3f}" in page.text
    assert "mean of 3 seeds" in page.text


def test_two_seeds_are_told_one_by_one_and_no_interval_of_a_share_leaves_0_and_1(tmp_path):
    apart = [fake_run(tmp_path / f"a-{seed}", seed=seed, hazard=(1e-4, 0.9, 0.5)[seed]) for seed in range(3)]
    page = report(tmp_path, *apart[:2])
    trained = read_run(apart[0]).evaluation.trained_steps
    two = [read_run(run).evaluation.at(trained).joint for run in apart[:2]]
    told = [wording.fraction(each) for each in two]
    assert f"± {wording.fraction(12.706204736432095 * abs(two[0] - two[1]) / 2)}" not in page.text
    assert "mean of 2 seeds, ±" not in page.text
    assert f"mean of two seeds: {told[0]} and {told[1]}" in page.text
    (row,) = gather([read_run(run) for run in apart])
    low, high = row.interval(trained)
    assert 0 == low < row.joint(trained).value < high == 1
    assert row.joint(trained).half_width > 1


def test_several_runs_of_one_seed_are_rows_of_their_own_and_no_seeds(tmp_path):
    runs = [
        fake_run(tmp_path / name, label="it", seed=seed) for name, seed in {"first": 0, "again": 0, "other": 1}.items()
    ]
    rows = gather([read_run(run) for run in runs])
    assert [[run.folder.name for run in row.runs] for row in rows] == [["first", "other"], ["again"]]
    assert [row.label.rpartition("/")[2] for row in rows] == ["first", "again"]
    page = report(tmp_path, *runs)
    assert "mean of 3 seeds" not in page.text
    assert f"{tmp_path / 'again'}" in page.text
    wide = fake_run(tmp_path / "wide", label="it")
    edit(wide, "run.json", lambda about: about["arguments"].update(width=128))
    labels = [row.label for row in gather([read_run(run) for run in (*runs, wide)])]
    assert labels == [f"it, width 64, {runs[0]}", f"it, width 64, {runs[1]}", "it, width 128"]


def test_runs_that_differ_in_more_than_the_seed_are_never_averaged(tmp_path):
    narrow = fake_run(tmp_path / "a-0", label="diagonal")
    wide = fake_run(tmp_path / "a-1", label="diagonal", seed=1)
    edit(wide, "run.json", lambda about: about["arguments"].update(width=128))
    page = report(tmp_path, narrow, wide)
    assert "mean of 2 seeds" not in page.text
    assert "diagonal, width 64" in page.text
    assert "diagonal, width 128" in page.text


@pytest.mark.parametrize("name", ["evaluation.json", "geometry.json"])
def test_a_file_that_was_not_measured_is_said_with_the_command_that_measures(tmp_path, pair, name):
    (pair[0] / name).unlink()
    page = report(tmp_path, *pair)
    assert f"diagonal, seed 0: not measured: run torsor measure {pair[0]}" in page.text
    assert f"torsor measure {pair[1]}" not in page.text


def test_a_run_that_left_nothing_but_its_name_is_a_page_too(tmp_path, pair):
    for name in ("metrics.jsonl", "timing.jsonl", "evaluation.json", "geometry.json"):
        (pair[0] / name).unlink()
    edit(pair[0], "run.json", lambda about: [about.pop(name) for name in list(about) if name not in {"format", "seed"}])
    page = report(tmp_path, pair[0])
    assert "No run here has been evaluated yet" in page.text
    assert "the folder has no metrics.jsonl" in page.text
    assert "a, seed 0: not measured" in page.text  # the folder's name, less the seed


def test_numbers_that_are_not_finite_are_left_out_and_counted(tmp_path, pair):
    lines = (pair[0] / "metrics.jsonl").read_text().splitlines()
    lines[3] = json.dumps({"update": 4, "loss": math.nan, "gradient_norm": math.inf, "length": 2})
    (pair[0] / "metrics.jsonl").write_text("\n".join(lines))
    edit(pair[0], "evaluation.json", lambda data: data["depths"][0].update(joint=math.nan, curve=[1.0, None, math.inf]))
    edit(pair[0], "geometry.json", lambda data: data["gram"][0].__setitem__(1, math.nan))
    page = report(tmp_path, *pair)
    assert "Left out, absent or not finite: 1." in page.text
    assert len(page.numbers[0]) == len(page.numbers[1]) - 1
    assert not re.search(r"\b(nan|inf)\b", " ".join(shape["d"] for shape in page.shapes))


def test_a_hostile_label_is_text_and_nothing_else(tmp_path):
    hostile = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>&amp;"
    run = fake_run(tmp_path / "a-0", label=hostile)
    edit(run, "run.json", lambda about: about.update(command=hostile, status=hostile, experiment=hostile))
    edit(run, "run.json", lambda about: about["arguments"].update({hostile: hostile}))
    edit(run, "evaluation.json", lambda data: data["task"].update(group=hostile))
    edit(run, "geometry.json", lambda data: data["toeplitz"].update(formula=hostile))
    page = Page(write_report([run], tmp_path / "report.html", hostile))
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count(hostile) > 6


def test_equal_folders_give_equal_bytes(tmp_path, pair):
    first = write_report(list(pair), tmp_path / "one" / "report.html", COMMAND).read_bytes()
    assert write_report(list(pair), tmp_path / "two.html", COMMAND).read_bytes() == first
    assert write_report(list(reversed(pair)), tmp_path / "three.html", COMMAND).read_bytes() != first


def test_what_is_no_run_folder_is_refused_in_one_line(tmp_path, pair):
    cases = [([], "runs must hold at least one run folder, got none")]
    cases.append(([tmp_path / "none"], "a run must be a folder with a run.json, got .*none"))
    damaged = shutil.copytree(pair[0], tmp_path / "damaged")
    (damaged / "evaluation.json").write_text("{")
    cases.append(([damaged], "evaluation.json must be JSON, got"))
    future = shutil.copytree(pair[0], tmp_path / "future")
    edit(future, "run.json", lambda about: about.update(format=2))
    cases.append(([future], "run.json must have format 1, got 2"))
    for runs, message in cases:
        with pytest.raises(ValueError, match=message) as caught:
            write_report(runs, tmp_path / "report.html", COMMAND)
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "report.html").exists()


def test_half_a_line_is_forgiven_at_the_end_of_a_record_and_nowhere_else(tmp_path, pair):
    whole = (pair[0] / "metrics.jsonl").read_text()
    (pair[0] / "metrics.jsonl").write_text(whole + '{"update": 61, "lo')
    report(tmp_path, *pair)
    (pair[0] / "metrics.jsonl").write_text('{"update": 61, "lo\n' + whole)
    with pytest.raises(ValueError, match=r"metrics\.jsonl must hold one JSON object a line, got at line 1"):
        report(tmp_path, *pair)


def test_a_log_that_ends_before_its_checkpoint_is_told_and_one_that_goes_beyond_it_is_not(tmp_path, pair):
    told = []
    edit(pair[0], "run.json", lambda about: about.update(checkpoint={"update": 60, "files": {}}))
    whole = (pair[0] / "metrics.jsonl").read_text()
    for more in ("", '{"update": 61, "loss": 1.0}\n', '{"update": 61, "lo'):
        (pair[0] / "metrics.jsonl").write_text(whole + more)
        write_report(pair, tmp_path / "report.html", COMMAND, warn=told.append)
        assert "truncated" not in Page(tmp_path / "report.html").text
    assert not told
    lines = whole.splitlines(keepends=True)
    kept = next(number for number, line in enumerate(lines) if json.loads(line)["update"] == 50)
    (pair[0] / "metrics.jsonl").write_text("".join(lines[:kept]) + lines[kept][:20])
    write_report(pair, tmp_path / "report.html", COMMAND, warn=told.append)
    said = "metrics.jsonl is truncated: it ends at update 49 of 60"
    assert told == [f"{pair[0]}: {said}"]
    assert Page(tmp_path / "report.html").text.count(said) == 2  # in the table, and beside the status


@pytest.mark.parametrize(("gap", "verdict"), [(0.5, "do not overlap"), (0.01, "overlap")])
def test_the_sentence_names_the_best_row_and_whether_its_interval_stands_clear(tmp_path, pair, gap, verdict):
    for run, joint in zip(pair, (0.4, 0.4 + gap), strict=True):
        interval = [joint - 0.02, joint + 0.02]
        scores = {"joint": joint, "joint_interval": interval}
        edit(run, "evaluation.json", lambda data, scores=scores: data["depths"][1].update(scores))
    text = report(tmp_path, *pair).text.replace(" %", "%")
    sentence = f"After 4 recurrent steps, the depth of training, conformal, 2 groups gets {40 + 100 * gap:.1f}%"
    assert sentence in text
    assert f"diagonal 40.0%; the 95% intervals over words, one seed each, {verdict}." in text


def test_a_run_that_was_not_trained_to_the_end_says_so(tmp_path, pair):
    assert "stopped" not in report(tmp_path, *pair).text
    edit(pair[0], "run.json", lambda about: about.update(status="stopped"))
    assert "stopped" in report(tmp_path, *pair).text


def test_what_a_run_folder_says_of_itself_is_found_beside_its_fields_or_among_them(tmp_path, pair):
    edit(
        pair[0],
        "run.json",
        lambda about: about.update(about={"label": "a row", "command": "torsor train here"}, label=None),
    )
    edit(pair[0], "run.json", lambda about: [about.pop("command"), about.pop("label")])
    rates = "".join(json.dumps({"update": n, "seconds": 2.0, "tokens_per_second": 50.0 * n}) + "\n" for n in (1, 2, 3))
    (pair[0] / "timing.jsonl").write_text(rates)
    text = report(tmp_path, *pair).text
    assert "a row" in text
    assert "torsor train here" in text
    assert "6.0 s100 tokens/s" in text  # the rate is a line of its own


def test_a_run_that_goes_on_is_not_sent_to_measure_its_scores(tmp_path, pair):
    (pair[0] / "evaluation.json").unlink()
    edit(pair[0], "run.json", lambda about: about.update(status="running"))
    text = report(tmp_path, *pair).text
    assert "not scored: the run has not ended; go on with torsor train rotate-the-loop/s3 --transition diagonal" in text
    assert f"--out {pair[0]}" in text  # where it lies, wherever that is
    assert "not measured: run" not in text


def test_four_long_runs_are_a_small_page(tmp_path):
    kinds = ["diagonal", "conformal", "conformal!", "conformal!!"]
    runs = [fake_run(tmp_path / f"{kind}-0", kind, updates=2000, length=32, size=(32, 32, 2)) for kind in kinds]
    path = write_report(runs, tmp_path / "report.html", COMMAND)
    assert path.stat().st_size < 1_500_000


def test_a_bin_keeps_the_mean_and_both_extremes_of_its_updates():
    values = np.random.default_rng(0).standard_normal(3000)
    found = bins([(update, float(value)) for update, value in enumerate(values, start=1)], 1, 3000)
    assert len(found) == 120
    for entry, members in zip(found, values.reshape(120, 25), strict=True):
        assert (entry.low, entry.high) == (members.min(), members.max())
        assert entry.mean == pytest.approx(members.mean())


def test_a_toeplitz_matrix_leaves_nothing_and_another_leaves_what_is_not_toeplitz():
    toeplitz = tuple(tuple(math.cos(0.3 * (s - t)) for s in range(6)) for t in range(6))
    assert np.abs(np.array(deviation(toeplitz))).max() < 1e-15
    assert not [shape for shape in heat_map(deviation(toeplitz), "", 0.01).shapes if shape.css.startswith("cell")]
    other = np.random.default_rng(0).standard_normal((6, 6))
    left = np.array(deviation(tuple(map(tuple, other.tolist()))))
    for lag in range(-5, 6):
        assert np.diagonal(left, lag).sum() == pytest.approx(0.0, abs=1e-12)
        assert np.ptp(np.diagonal(other - left, lag)) < 1e-12


def test_a_heat_map_paints_every_cell_once_with_its_level():
    matrix = np.random.default_rng(0).uniform(-1, 1, (7, 7))
    picture, painted = heat_map(tuple(map(tuple, matrix.tolist())), "", 1.0), np.zeros((7, 7))
    cell = 186.0 / 7
    for shape in picture.shapes:
        if shape.css.startswith("cell"):
            for x, y, width in re.findall(r"M(\S+) ([\d.]+)h([\d.]+)v", shape.d):
                row, first = round((float(y) - 24) / cell), round((float(x) - 26) / cell)
                last = first + round(float(width) / cell)
                assert not painted[row, first:last].any()
                painted[row, first:last] = float(shape.opacity) * (1 if "plus" in shape.css else -1)
    assert np.abs(painted - matrix).max() <= 0.5 / 20 + 1e-12


def test_the_cells_of_a_heat_map_leave_no_seam():
    matrix = np.random.default_rng(0).uniform(0.5, 1, (31, 31))
    edges = set()
    for shape in heat_map(tuple(map(tuple, matrix.tolist())), "", 1.0).shapes:
        if shape.css.startswith("cell"):
            for x, y, width, height in re.findall(r"M(\S+) ([\d.]+)h([\d.]+)v([\d.]+)h", shape.d):
                edges |= {("x", float(x)), ("x", round(float(x) + float(width), 2))}
                edges |= {("y", float(y)), ("y", round(float(y) + float(height), 2))}
    assert len(edges) == 2 * 32


def test_a_point_stands_where_its_numbers_say_and_keys_never_touch():
    panel = Panel(doublings([4, 8, 16], "steps"), shares("joint"), "")
    left, middle, right = (panel.at((steps, 0.25))[0] for steps in (4, 8, 16))
    assert middle - left == pytest.approx(right - middle)
    assert panel.at((4, 0.5))[1] == pytest.approx((panel.at((4, 0.0))[1] + panel.at((4, 1.0))[1]) / 2)
    for key in "ABCDE":
        panel.line([(4, 0.0), (16, 0.01)], "r0", key=key)
    heights = [float(word.y) for word in panel.words() if "key" in word.css]
    assert min(np.diff(heights)) >= 12.9
    assert max(heights) <= panel.bottom + 5
    assert [tick for tick, _ in linear([0, 2000], "").ticks] == [0, 500, 1000, 1500, 2000]

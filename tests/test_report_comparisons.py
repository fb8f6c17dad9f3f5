"""What the report page compares of character models, and what it refuses to."""

import re

import pytest

from test_report import edit, report
from test_report_text import sentence, text_run

OTHER_HASH, WINDOWS = "0123abcd" + 56 * "1", "windows of 256 that score their last 128"


def in_windows(data):
    """Scores by another protocol."""
    data["validation"]["protocol"] = data["test"]["protocol"] = WINDOWS


@pytest.fixture
def seeds(tmp_path):
    """Three seeds of one setting."""
    return [text_run(tmp_path / f"a-{s}", (2.0 + 0.03 * s, 2.1 + 0.02 * s), seed=s) for s in range(3)]


@pytest.fixture
def pair(tmp_path):
    """Two settings, one seed each; the second is the better."""
    worse = text_run(tmp_path / "a-0", (2.5, 2.6), "Transformer, width 76")
    return worse, text_run(tmp_path / "b-0", (2.0, 2.1), "LSTM, 80 units")


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [(0.11, "do not overlap."), (0.09, "overlap: these seeds do not settle which is lower.")],
)
def test_the_sentence_names_the_row_of_fewest_bits_and_whether_its_interval_stands_clear(tmp_path, seeds, gap, verdict):
    others = [text_run(tmp_path / f"b-{s}", (1.0, 2.1 - gap + 0.02 * s), "GRU", seed=s, width=90) for s in range(3)]
    text = sentence(report(tmp_path, *seeds, *others))
    assert f"GRU needs the fewest bits per character, {2.12 - gap:.3f}, then LSTM, 80 units 2.120." in text
    assert f"The 95 % intervals over seeds {verdict}" in text


def test_single_seeds_are_never_said_to_overlap(tmp_path, pair):
    text = sentence(report(tmp_path, *pair))
    assert "LSTM, 80 units needs the fewest bits per character, 2.100, then Transformer, width 76 2.600." in text
    assert "The two have no intervals over seeds to compare (one seed each): other seeds may turn their order." in text
    second = text_run(tmp_path / "b-1", (2.0, 2.2), "LSTM, 80 units", seed=1)
    text = sentence(report(tmp_path, *pair, second))
    assert "to compare (one of the two has a single seed)" in text
    assert "overlap" not in text


def test_the_validation_part_is_compared_where_there_is_no_test_part_and_says_so(tmp_path, pair):
    for run in pair:
        edit(run, "evaluation.json", lambda data: [data.pop("test"), data["text"].update(split="90-10")])
    page = report(tmp_path, *pair)
    text = sentence(page)
    assert (
        "On the validation part of tiny-shakespeare, split 90-10, by which settings may have been chosen, LSTM" in text
    )
    assert page.numbers[0] == [111_538]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data["text"].update(sha256=OTHER_HASH), "data hash"),
        (lambda data: data["text"].update(split="90-5-5"), "split"),
        (lambda data: data["text"].update(name="penn-treebank", sha256=OTHER_HASH), "text and data hash"),
        (in_windows, "protocol"),
    ],
)
def test_runs_that_were_not_scored_alike_are_warned_of_and_never_compared(tmp_path, pair, change, said):
    alike, lines = report(tmp_path, *pair).text, "Lines of runs that were not scored alike may not be compared."
    assert "fewest" in alike
    assert lines not in alike
    edit(pair[0], "evaluation.json", change)
    page = report(tmp_path, *pair)
    assert f"Not all runs on text here were scored alike: they differ in {said}. Only runs scored alike" in page.text
    assert lines in page.text
    assert "fewest" not in page.text
    assert len(page.tables) == 2
    headings = re.findall(r"<h3>([^<]+)</h3>\n<div class=\"scroll\"", page.source)
    assert len(set(headings)) == 2


def test_seeds_that_were_not_scored_alike_are_never_averaged(tmp_path, seeds):
    edit(seeds[2], "evaluation.json", lambda data: data["text"].update(sha256=OTHER_HASH))
    page = report(tmp_path, *seeds)
    assert "LSTM, 80 units, data bdf28734" in page.text
    assert "LSTM, 80 units, data 0123abcd" in page.text
    assert "mean of 2 seeds" in page.text
    assert "mean of 3 seeds" not in page.text
    edit(seeds[1], "evaluation.json", in_windows)
    assert f"LSTM, 80 units, data bdf28734, {WINDOWS}" in report(tmp_path, *seeds).text

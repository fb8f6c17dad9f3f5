"""The report page of character models: bits per character as the run folders hold them, and honest comparisons."""

import json
import math
import re

import numpy as np
import pytest
from scipy import stats

from test_report import COMMAND, Page, edit, fake_run, report
from torsor.report import write_report

HASH = "bdf28734" + 56 * "0"
CARRIED = "the state carried through one stream, in pieces of 512"
PARTS = ("validation", "test")
MIXED = [("Result", "words"), ("Result", "text"), ("Accuracy", "words"), ("Training", "words"), ("Training", "text")]


def text_run(folder, bits=(2.0, 2.1), label="LSTM, 80 units", seed=0, updates=48, width=80, protocol=CARRIED):
    """A run folder as training and scoring a character model would leave it; ``bits`` of validation and test."""
    folder.mkdir(parents=True)
    arguments = {"text": "tiny-shakespeare", "split": "80-10-10", "width": width, "seed": seed}
    command = f"torsor train subgroups/tiny-shakespeare-recurrent --model lstm --width {width} --seed {seed}"
    inside = {"label": label, "parameters": 500 * width + 7, "command": command}
    about = {"format": 1, "experiment": "subgroups/tiny-shakespeare-recurrent", "arguments": arguments, "seed": seed}
    about |= {"versions": {"torsor": "0.1.0"}, "threads": 1, "status": "finished", "about": inside}
    (folder / "run.json").write_text(json.dumps(about))
    lines, timing = [], [{"update": n, "seconds": 0.5, "tokens_per_second": 2e3} for n in range(1, updates + 1)]
    for update in range(1, updates + 1):
        far = bits[0] + 3.5 * math.exp(-8 * update / updates)
        line = {"update": update, "loss": far * math.log(2), "gradient_norm": 0.3, "length": None}
        line["learning_rate"] = 0.005 * min(1, update / 10)
        lines.append(line | ({"evaluation": {"bits": far + 0.1}} if update % 8 == 0 else {}))
    for name, content in (("metrics", lines), ("timing", timing)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in content))
    text = {"name": "tiny-shakespeare", "split": "80-10-10", "sha256": HASH, "symbols": 65, "context": 128}
    scores = {"text": text}
    for name, value, count in zip(PARTS, bits, (111_538, 111_539), strict=True):
        nats = value * count * math.log(2)
        scores[name] = {"bits_per_character": value, "nats": nats, "characters": count, "protocol": protocol}
    (folder / "evaluation.json").write_text(json.dumps(scores))
    sample = {"format": 1, "prompt": "GREMIO:\n", "text": f"Good   morrow, {seed}.\n", "temperature": 1.0}
    sample |= {"tokens": 16, "seed": seed, "steps": None, "ended": None}
    (folder / "generated.json").write_text(json.dumps(sample))
    return folder


def sentence(page):
    return page.text.replace("\u202f", " ")


def charts(page, named):
    """What is drawn in the pictures of this name."""
    return re.findall(f'<svg[^>]*aria-label="{named}".*?</svg>', page.source, re.S)


@pytest.fixture
def seeds(tmp_path):
    """Three seeds of one setting."""
    return [text_run(tmp_path / f"a-{s}", (2.0 + 0.03 * s, 2.1 + 0.02 * s), seed=s) for s in range(3)]


@pytest.fixture
def pair(tmp_path):
    """Two settings, one seed each; the second is the better."""
    worse = text_run(tmp_path / "a-0", (2.5, 2.6), "Transformer, width 76")
    return worse, text_run(tmp_path / "b-0", (2.0, 2.1), "LSTM, 80 units")


def test_the_title_names_the_text_and_its_split(tmp_path, pair):
    assert "<h1>Characters of tiny-shakespeare, split 80-10-10</h1>" in report(tmp_path, *pair).source
    for run in pair:
        edit(run, "evaluation.json", lambda data: data["text"].update(name="penn-treebank", split="separate texts"))
    assert "<h1>Characters of penn-treebank, separate texts</h1>" in report(tmp_path, *pair).source


def test_every_number_of_the_result_table_is_the_number_of_the_folder(tmp_path, pair):
    rows = report(tmp_path, *pair).numbers
    assert rows[0] == [111_538, 111_539]
    for run, row in zip(pair, rows[1:], strict=True):
        scores = json.loads((run / "evaluation.json").read_text())
        assert row[:2] == [scores[name]["bits_per_character"] for name in PARTS]
        assert row[2] == json.loads((run / "run.json").read_text())["about"]["parameters"]
        assert row[3] == pytest.approx(48 * 0.5)


def test_what_is_shown_of_bits_is_that_number_rounded(tmp_path, seeds):
    shown = re.findall(r'<data value="([^"]+)">(\d\.\d{3})</data>', report(tmp_path, *seeds).source)
    assert len(shown) == 8
    for value, text in shown:
        assert f"{float(value):.3f}" == text


def test_cards_and_table_give_the_mean_over_seeds_with_students_half_width_and_every_seed(tmp_path, seeds):
    page = report(tmp_path, *seeds)
    scores = [json.loads((run / "evaluation.json").read_text()) for run in seeds]
    bits = np.array([[score[name]["bits_per_character"] for name in PARTS] for score in scores])
    half = stats.t.ppf(0.975, 2) * bits.std(axis=0, ddof=1) / math.sqrt(3)
    assert page.numbers[1] == pytest.approx(bits.mean(axis=0).tolist())
    assert [row[:2] for row in page.numbers[2:]] == bits.tolist()
    card = re.search(r'<li class="card.*?</li>', page.source, re.S)[0]
    for part in range(2):
        assert f'<dd class="big">{bits[:, part].mean():.3f}</dd><dd>± {half[part]:.3f}</dd>' in card
        assert f"{bits[:, part].mean():.3f}</data><small>± {half[part]:.3f}</small></td>" in page.source
        for seed in range(3):
            assert f"seed {seed}: {bits[seed, part]:.3f}" in card
    assert "3 seeds · 40\u202f007 parameters" in card
    assert f"needs {bits[:, 1].mean():.3f} bits per character, the mean of 3 seeds, ± {half[1]:.3f}." in page.text


def test_one_seed_has_no_interval_and_says_that_it_is_one(tmp_path, pair):
    text = sentence(report(tmp_path, pair[0]))
    assert "On the test part of tiny-shakespeare, split 80-10-10, Transformer, width 76 needs 2.600 bits" in text
    assert "bits per character, from one seed." in text
    assert not re.search(r"± \d", text)


def test_protocol_and_data_hash_stand_under_the_table(tmp_path, pair):
    text = report(tmp_path, *pair).text
    assert f"What the model had read before each scored character: {CARRIED}." in text
    assert f"65 symbols, SHA-256 {HASH}" in text
    assert "were scored alike" not in text


def test_the_page_says_what_bits_mean_and_what_an_even_guess_pays(tmp_path, pair):
    text = report(tmp_path, *pair).text
    assert "the fewer, the better" in text
    assert f"Guessing evenly among 65 symbols pays {math.log2(65):.3f} bits." in text
    assert "Nats per character; bits = nats / ln 2." in text


def test_a_page_on_text_alone_has_nothing_on_words(tmp_path, pair):
    page = report(tmp_path, *pair)
    for word in (
        "joint",
        "Accuracy",
        "Toeplitz",
        "Geometry",
        "recurrent step",
        "unnamed",
        "torsor measure",
        "evaluated yet",
    ):
        assert word not in page.text
    assert [len(found) for found in page.tables] == [4]
    assert page.open == []
    assert page.addresses == []
    assert not re.search(r"https?:|//\w|@import|@font-face|url\((?!#)", page.source)


def test_the_bits_on_the_way_are_drawn_and_end_at_those_of_the_whole_part(tmp_path, seeds):
    page = report(tmp_path, *seeds)
    (drawn,) = charts(page, "Validation bits per character during training")
    lines = re.findall(r'class="line (thin )?r0" d="([^"]+)"', drawn)
    *thin, mean = [[float(y) for y in re.findall(r"[ML]\S+ ([\d.]+)", d)] for _, d in lines]
    assert np.array(thin).shape == (3, 6)
    assert mean == pytest.approx(np.mean(thin, axis=0).tolist(), abs=0.11)
    assert mean == sorted(mean)  # down the page: fewer bits
    assert float(re.search(r'class="dot r0" d="M\S+ ([\d.]+)', drawn)[1]) > mean[-1] + 4  # a look is 0.1 bits above
    assert "LSTM, 80 units, whole validation part: 2.0300" in drawn
    for name in ("training loss (nats)", "gradient norm", "learning rate"):
        assert charts(page, re.escape(name))


def test_intervals_are_drawn_where_there_are_some(tmp_path, seeds):
    page = report(tmp_path, *seeds)
    for name in PARTS:
        (drawn,) = charts(page, f"Bits per character, {name}")
        assert drawn.count('class="bar r0"') == 1
        assert drawn.count('class="dot seed r0"') == 3
    assert not charts(report(tmp_path, seeds[0]), "Bits per character, test")


def test_a_run_on_text_that_goes_on_is_a_row_without_scores_and_with_its_command(tmp_path, pair):
    (pair[0] / "evaluation.json").unlink()
    edit(pair[0], "run.json", lambda about: about.update(status="running"))
    page = report(tmp_path, *pair)
    assert "Transformer, width 76, seed 0: not scored: the run has not ended; go on with torsor train" in page.text
    assert "bits per character not scored" not in sentence(report(tmp_path, pair[1]))
    assert "torsor measure" not in page.text
    (pair[0] / "generated.json").unlink()
    assert "torsor measure" not in report(tmp_path, *pair).text
    (pair[1] / "evaluation.json").unlink()
    page = report(tmp_path, *pair)
    assert "<h1>Characters of tiny-shakespeare</h1>" in page.source
    assert "No run on text here has been scored yet" in page.text
    assert "not scored: the folder has no evaluation.json" in page.text
    assert charts(page, "Validation bits per character during training")


@pytest.mark.parametrize("kept", ["argument", "looks"])
def test_a_run_without_scores_is_one_on_text_by_its_argument_or_by_its_looks(tmp_path, pair, kept):
    (pair[0] / "evaluation.json").unlink()
    if kept == "looks":
        edit(pair[0], "run.json", lambda about: about["arguments"].pop("text"))
    else:
        (pair[0] / "metrics.jsonl").unlink()
    name = "an unnamed text" if kept == "looks" else "tiny-shakespeare"
    page = report(tmp_path, pair[0])
    assert f"<h1>Characters of {name}</h1>" in page.source
    assert ("the folder has no metrics.jsonl" in page.text) == (kept == "argument")


def test_a_seed_without_scores_is_no_part_of_the_mean_and_the_card_says_so(tmp_path, seeds):
    (seeds[0] / "evaluation.json").unlink()
    page = report(tmp_path, *seeds)
    assert "bits per character of 2 of 3 seeds" in page.text
    assert page.numbers[1] == pytest.approx([2.045, 2.13])


def test_a_page_of_words_and_text_has_the_sections_of_each(tmp_path, pair):
    words = fake_run(tmp_path / "w-0", "diagonal", "diagonal"), fake_run(tmp_path / "v-0", "conformal", "conformal")
    page = report(tmp_path, words[0], pair[0], words[1], pair[1])
    title = "Words of length 8 over the generators of S3; characters of tiny-shakespeare, split 80-10-10"
    assert f"<h1>{title}</h1>" in page.source
    headings = re.findall(r"<h2>([^<]+)</h2>", page.source)
    assert headings[:5] == [f"{name} on {what}" for name, what in MIXED]
    assert headings[5:8] == ["Generated text", "Geometry of the transition", "All scores on words"]
    ids = re.findall(r'id="([^"]+)"', page.source)
    assert len(ids) == len(set(ids))
    alone = report(tmp_path, *words)
    assert page.tables[0] == alone.tables[0]
    assert page.tables[1] == report(tmp_path, *pair).tables[0]
    assert "After 4 recurrent steps" in page.text
    assert "fewest bits per character" in page.text
    assert len(charts(page, re.escape("training loss (nats)") + '[^"]*')) == 2
    for loss in charts(page, re.escape("training loss (nats)") + '[^"]*'):
        assert len(set(re.findall(r'class="line (r\d)"', loss))) == 2
    assert "not measured" not in page.text


def test_a_page_on_words_alone_has_nothing_on_text(tmp_path):
    page = report(tmp_path, fake_run(tmp_path / "w-0"))
    assert "bits" not in page.source
    assert "on words" not in page.text


def test_numbers_that_are_not_finite_are_left_out(tmp_path, pair):
    edit(pair[0], "evaluation.json", lambda data: data["test"].update(bits_per_character=math.nan))
    lines = (pair[0] / "metrics.jsonl").read_text().splitlines()
    lines[7] = json.dumps({"update": 8, "loss": math.inf, "evaluation": {"bits": math.inf}})
    (pair[0] / "metrics.jsonl").write_text("\n".join(lines))
    page = report(tmp_path, *pair)
    assert "On the validation part" in page.text
    assert "Left out, absent or not finite: 1. Nats per character" in page.text
    assert not re.search(r"\b(nan|inf)\b", page.text + " ".join(shape["d"] for shape in page.shapes))


def test_a_hostile_text_is_text_and_nothing_else(tmp_path, pair):
    hostile = "<script>alert('1')</script>\"><img src=x onerror=alert(2)>&amp;"
    names = {"name": hostile, "split": hostile, "sha256": hostile}
    edit(pair[0], "evaluation.json", lambda data: data["text"].update(names))
    edit(pair[0], "evaluation.json", lambda data: data["test"].update(protocol=hostile))
    page = Page(write_report(list(pair), tmp_path / "report.html", COMMAND))
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count(hostile) > 4


def samples(page):
    """What stands in each block of generated text, with the prompt in angles."""
    blocks = re.findall(r"<pre>(.*?)</pre>", page.source, re.S)
    return [re.sub(r'<span class="prompt">(.*?)</span>', r"<\1>", each, flags=re.S) for each in blocks]


def test_what_the_model_wrote_stands_after_its_prompt_letter_by_letter(tmp_path, seeds):
    page = report(tmp_path, *seeds)
    assert samples(page) == ["<GREMIO:\n>Good   morrow, 0.\n"]
    assert "LSTM, 80 units seed 0 of 3 seeds, temperature 1" in " ".join(page.text.split())
    (seeds[0] / "generated.json").unlink()
    edit(seeds[1], "generated.json", lambda data: data.update(steps=8, ended="a logit is not finite"))
    page = report(tmp_path, *seeds, text_run(tmp_path / "b-0", width=70))
    assert samples(page) == ["<GREMIO:\n>Good   morrow, 1.\n", "<GREMIO:\n>Good   morrow, 0.\n"]
    assert "seed 1 of 3 seeds, 8 loops, temperature 1" in " ".join(page.text.split())
    assert "a logit is not finite" in page.text


def test_a_run_that_wrote_nothing_is_said_with_the_command_that_draws(tmp_path, pair):
    (pair[0] / "generated.json").unlink()
    page = report(tmp_path, *pair)
    assert len(samples(page)) == 1
    assert f"Transformer, width 76, seed 0: no text was drawn: run torsor measure {pair[0]}" in page.text
    edit(pair[1], "generated.json", lambda data: data.update(text=3))
    assert samples(report(tmp_path, *pair)) == []


def test_hostile_characters_that_a_model_wrote_are_text_and_nothing_else(tmp_path, pair):
    hostile = "<script>alert('1')</script></pre>\"><img src=x onerror=alert(2)>&amp;"
    edit(pair[0], "generated.json", lambda data: data.update(prompt=hostile, text=hostile, ended=hostile))
    page = Page(write_report(list(pair), tmp_path / "report.html", COMMAND))
    assert not {"script", "img"} & set(page.tags)
    assert page.text.count(hostile) == 3


def test_equal_folders_give_equal_bytes(tmp_path, pair):
    first = write_report(list(pair), tmp_path / "one.html", COMMAND).read_bytes()
    assert write_report(list(pair), tmp_path / "two.html", COMMAND).read_bytes() == first

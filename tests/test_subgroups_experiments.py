"""The experiments of Subgroups of U(d): they train, score and resume on a made text, and their tables can be built."""

import json
import math
import random

import pytest
import torch

import torsor.text
from torsor.cli import main
from torsor.experiments import text_sample
from torsor.experiments.catalogue import EXPERIMENTS, TABLES
from torsor.experiments.run import load
from torsor.experiments.run_table import complete, results
from torsor.experiments.table_run import Order

SYMBOLS = "abcdefgh \n"
TINY = {"context": 8, "updates": 6, "batch": 4, "warmup": 1}
OPTIONS = "--context 8 --updates 6 --batch 4 --warmup 1 --threads 1"


def made(characters: int, seed: int = 0) -> str:
    """A text in which a character says what comes next, three times in four."""
    chance = random.Random(seed)
    text = [0]
    for _ in range(characters - 1):
        text.append((text[-1] + 1) % 10 if chance.random() < 0.75 else chance.randrange(10))
    return "".join(SYMBOLS[index] for index in text)


@pytest.fixture(autouse=True)
def made_texts(monkeypatch):
    torch.set_default_dtype(torch.float32)
    texts = {"tiny-shakespeare": (made(1500),), "penn-treebank": (made(800), made(150, 1), made(150, 2))}
    monkeypatch.setattr(torsor.text, "texts_of", texts.__getitem__)


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


@pytest.mark.parametrize("name", [f"subgroups/{each}" for each in ("2", "3", "4", "7", "groups")])
def test_every_row_of_the_paper_s_tables_trains_and_stands_beside_the_paper_s_numbers(name, tmp_path):
    table = TABLES[name]
    order = Order(table, table.rows, "laptop", 1, tmp_path, given={**TINY, "width": 4})

    def silently(updates, path):
        for _ in updates:
            pass

    complete(order, silently)
    for row, content in zip(table.rows, results(order), strict=True):
        for column, cell in content["columns"].items():
            (bits,) = cell["ours"]["bits"]["seeds"]
            assert 0.5 < bits < 2 * math.log2(10)
            if column not in row.paper:  # a row of our own
                assert cell["paper"] is cell["difference"] is None
                continue
            assert cell["paper"]["value"] == row.paper[column].value
            assert cell["difference"] == pytest.approx(bits - row.paper[column].value)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("lstm", 300),  # as many as a user's runs draw
        *((model, 40) for model in ("transformer", "group-transformer", "group-rnn", "group-rnn-from-token")),
    ],
)
def test_a_character_run_records_text_split_hash_and_how_it_was_scored(model, tokens, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(text_sample, "TOKENS", tokens)
    path = tmp_path / "run"
    assert run(f"train subgroups/tiny-shakespeare-100k --model {model} --width 4 {OPTIONS} --out {path}") == 0
    out = capsys.readouterr().out
    content = json.loads((path / "evaluation.json").read_text())
    assert content["text"]["split"] == "80-10-10"
    assert content["text"]["sha256"] in out
    assert content["text"]["symbols"] == 10
    for part in ("validation", "test"):
        assert content[part]["characters"] == 149
        assert f"{content[part]['bits_per_character']:.4f}" in out
    carried = "carried" in content["test"]["protocol"]
    assert carried == (model in {"lstm", "group-rnn", "group-rnn-from-token"})
    drawn = (path / "generated.json").read_bytes()
    sample = json.loads(drawn)
    assert sample["prompt"] == held_out(path)[:32]
    assert len(sample["text"]) == sample["tokens"] == tokens
    assert set(sample["text"]) <= set(SYMBOLS)
    (path / "generated.json").unlink()
    assert run(f"measure {path}") == 0
    assert sample["text"] in capsys.readouterr().out
    assert run(f"measure {path} --json") == 0
    assert json.loads(capsys.readouterr().out) == {"generated": sample}
    assert (path / "generated.json").read_bytes() == drawn
    assert not (path / "geometry.json").exists()


def held_out(path):
    """The validation text of a run, as far as its first window goes."""
    task = load(path).task
    return task.decode(task.evaluation(1).tokens[0])


def test_another_seed_or_another_model_writes_another_text(tmp_path):
    texts = []
    for options in ("--seed 0 --updates 4", "--seed 0 --updates 4", "--seed 1 --updates 4", "--seed 0 --updates 12"):
        path = tmp_path / str(len(texts))
        command = f"train subgroups/tiny-shakespeare-recurrent --width 4 --context 8 {options} --batch 4 --warmup 1"
        assert run(f"{command} --threads 1 --out {path}") == 0
        texts.append(json.loads((path / "generated.json").read_text())["text"])
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_a_character_run_that_is_interrupted_ends_as_if_nobody_had(tmp_path, monkeypatch):
    from torsor.experiments.study import WholePass

    command = f"train subgroups/tiny-shakespeare-recurrent --width 4 {OPTIONS} --checkpoint-every 2"
    assert run(f"{command} --out {tmp_path / 'whole'}") == 0
    sound = WholePass.forward

    def interrupted(self, model, tokens, update, rows):
        if update == 5:
            raise KeyboardInterrupt
        return sound(self, model, tokens, update, rows)

    monkeypatch.setattr(WholePass, "forward", interrupted)
    assert run(f"{command} --out {tmp_path / 'cut'}") == 130
    monkeypatch.setattr(WholePass, "forward", sound)
    assert run(f"{command} --out {tmp_path / 'cut'}") == 0
    for file in ("metrics.jsonl", "evaluation.json", "generated.json", "checkpoint/model.safetensors"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_generate_streams_text_of_the_run_s_symbols_the_same_for_the_same_seed(tmp_path, capsys):
    path = tmp_path / "run"
    assert run(f"train subgroups/tiny-shakespeare-recurrent --width 4 {OPTIONS} --out {path}") == 0
    capsys.readouterr()
    texts = []
    for seed in (1, 1, 2):
        assert run(f"generate {path} --prompt ab --characters 40 --seed {seed} --threads 1") == 0
        texts.append(capsys.readouterr().out.removesuffix("\n"))
    assert texts[0] == texts[1] != texts[2]
    assert all(text.startswith("ab") and len(text) == 42 and set(text) <= set(SYMBOLS) for text in texts)
    for options, words in (
        ("--prompt xyz", "got 'x' at position 0"),
        ("--characters 0", "characters must be at least 1, got 0"),
        ("--temperature -1", "temperature must be finite and not negative, got -1.0"),
    ):
        assert run(f"generate {path} {options}") == 2
        output = capsys.readouterr()
        assert words in output.err
        assert output.err.count("\n") == 1
        assert not output.out
    assert run("generate") == 2


@pytest.mark.parametrize("experiment", ["subgroups/tiny-shakespeare-recurrent", "recurrent/tiny-shakespeare"])
def test_a_text_of_one_s_own_is_trained_on_and_goes_on_only_while_it_is_the_same(experiment, tmp_path, capsys):
    own, path = tmp_path / "süß.txt", tmp_path / "run"
    text = "süß und bitter\r\n" * 60 + "$ 5 µ"  # the last of them in the test text alone
    own.write_bytes(text.encode())
    command = f"train {experiment} --model lstm --text {own} --width 4 {OPTIONS} --checkpoint-every 2 --out {path}"
    assert run(command) == 0
    content = json.loads((path / "evaluation.json").read_text())["text"]
    assert (content["name"], content["symbols"]) == ("süß.txt", len(set(text)))
    assert load(path).task.corpus.training == text[: len(text) * 8 // 10]
    assert run(f"generate {path} --prompt süß --characters 5 --threads 1") == 0
    capsys.readouterr()
    own.write_bytes(text.replace("ü", "u").encode())
    reading = f"generate {path} --prompt bitter --characters 5", f"export {path} --out {tmp_path / 'exported'}"
    for refused_command in (command, *reading, f"measure {path}"):
        assert run(refused_command) == 2
        error = capsys.readouterr().err
        assert "bring the same data back" in error
        assert error.count("\n") == 1
    assert not (tmp_path / "exported").exists()


def test_a_run_of_before_an_argument_existed_is_a_run_at_its_default(tmp_path, capsys):
    path = tmp_path / "run"
    command = f"train subgroups/tiny-shakespeare-100k --model transformer --width 4 {OPTIONS} --out {path}"
    assert run(command) == 0
    assert "optimizer" not in json.loads((path / "run.json").read_text())["arguments"]
    assert run(f"{command} --optimizer adamw") == 0
    capsys.readouterr()
    assert run(f"{command} --optimizer muon") == 2
    assert 'optimizer=unset, not "muon"' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "matrices"), [("group-transformer", [(6, 6)] * 4), ("transformer", [(12, 4), (4, 4), (8, 4), (4, 8)] * 2)]
)
def test_muon_moves_the_matrices_that_act_on_states_and_adamw_the_rest(model, matrices):
    experiment = EXPERIMENTS["subgroups/penn-treebank-100k"]
    study = experiment.build(**experiment.arguments(**TINY, model=model, width=4, optimizer="muon"))
    first, *others = study.optimizer.param_groups
    assert [tuple(p.shape) for p in first["params"]] == matrices
    moved = [p for group in others for p in group["params"]]
    assert len({*first["params"], *moved}) == len(list(study.model.parameters())) == len(first["params"]) + len(moved)
    assert study.label.endswith(", by Muon")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--mixing identity", "optimizer must be adamw for a model without linear mixing, got muon"),
        ("--weight-decay 0.1", "weight_decay must be 0 with muon, got 0.1"),
        ("--model lstm", "optimizer must be adamw for a model without linear mixing, got muon"),
    ],
)
def test_muon_is_refused_where_it_has_nothing_to_move_or_would_not_decay(options, words, tmp_path, capsys):
    command = f"train subgroups/tiny-shakespeare-100k --optimizer muon --width 4 {options} {OPTIONS}"
    assert run(f"{command} --out {tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("group", ["O", "SO", "U", "SU", "T"])
@pytest.mark.parametrize("mixing", ["identity", "bch", "third-order", "linear"])
def test_every_group_and_mixing_can_be_chosen_by_name(group, mixing):
    experiment = EXPERIMENTS["subgroups/tiny-shakespeare-100k"]
    study = experiment.build(**experiment.arguments(**TINY, group=group, mixing=mixing, width=4))
    logits = study.step.forward(study.model, study.task.batch(0, 2).tokens, 0, slice(0, 2))
    assert logits.shape == (2, 8, 10)
    assert group in study.label
    assert mixing in study.label


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the text must have at least one character, got none"),
        (b"abc\xff" * 400, "must be UTF-8, got byte 0xff at 3"),
        (b"ab" * 20, "context must be less than the 4 characters of the validation text, got 8"),
    ],
)
def test_a_text_of_one_s_own_that_cannot_be_used_is_one_line_and_leaves_nothing(content, words, tmp_path, capsys):
    own = tmp_path / "own.txt"
    own.write_bytes(content)
    assert run(f"train subgroups/tiny-shakespeare-100k --text {own} {OPTIONS} --out {tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [own]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--context 150", "context must be less than the 150 characters of the validation text, got 150"),
        ("--width 1", "of at least 2, got 1"),
        ("--width 0 --model lstm", "must be at least 1, got 0"),
        ("--group X", "X"),
        ("--text tiny-shakespear", "text must be tiny-shakespeare or penn-treebank or a UTF-8 file, "),
        ("--text tiny-shakespear", "did you mean 'tiny-shakespeare'?"),
        ("--text notes/mine.txt", "got 'notes/mine.txt', which is not there"),
        ("--text tests", "or one UTF-8 file, got the folder 'tests'"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(options, words, tmp_path, capsys):
    assert run(f"train subgroups/tiny-shakespeare-100k {options} --out {tmp_path / 'run'}") == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())

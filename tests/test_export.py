"""``torsor export``: runs of every kind as folders that transformers loads, and what is refused in one line."""

import json
import os
import random
import shutil
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")

import torsor.interop.hugging_face  # noqa: E402, F401 - teaches the Auto classes
import torsor.text  # noqa: E402
from torsor.cli import main  # noqa: E402
from torsor.experiments.run import load  # noqa: E402
from torsor.interop import from_hugging_face  # noqa: E402

TEXT = "to be or not to be, that is the question: whether it is nobler in the mind to suffer\n"
WORDS = (
    "train rotate-the-loop/s3 --width 8 --heads 2 --length 4 --smallest-steps 1 --largest-steps 2 --updates 3 "
    "--batch 4 --words 20 --warmup 1"
)
LANGUAGE = (
    "train rotate-the-loop/language --shrink 32 --entries 280 --context 16 --batch 2 --updates 2 --mean-steps 2.0 "
    "--largest-steps 3 --grad-steps 1 --positions 60"
)
CHARACTERS = "train subgroups/tiny-shakespeare-recurrent --width 4 --context 8 --updates 2 --batch 2 --warmup 1"


SMALL = "--context 8 --updates 3 --batch 2 --warmup 1 --threads 1"
M2RNN = "recurrent/tiny-shakespeare --model m2rnn --width 8 --layers 2 --heads 2 --key-dim 3 --value-dim 2 --hidden 8"
CHARACTER_RUNS = {
    "M²RNN": M2RNN,
    "RotRNN": "recurrent/tiny-shakespeare --model rotrnn --width 8 --layers 2 --heads 2",
    "group RNN": "recurrent/tiny-shakespeare --model group-rnn --width 4",
    "group RNN, SU": "subgroups/tiny-shakespeare-recurrent --group SU --width 3",
    "group transformer": "subgroups/tiny-shakespeare-100k --width 4",
    "group transformer, U": "subgroups/tiny-shakespeare-100k --group U --width 3 --mixing bch",
}


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def characters(monkeypatch):
    monkeypatch.setattr(torsor.text, "texts_of", {"tiny-shakespeare": (TEXT * 20,)}.__getitem__)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run on words, one on text, and one on characters."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("runs")
    chance = random.Random(0)
    text = folder / "made.txt"
    text.write_text("".join(chance.choice(TEXT.split()) + " " for _ in range(1500)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torsor.text, "texts_of", {"tiny-shakespeare": (TEXT * 20,)}.__getitem__)
        commands = {"words": WORDS, "language": f"{LANGUAGE} --text {text}", "characters": CHARACTERS}
        for name, command in commands.items():
            assert run(f"{command} --out {folder / name} --threads 1") == 0
        yield folder


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


def logits_of(model, tokens, **arguments):
    with torch.no_grad():
        outputs = model(tokens, **arguments)
    return outputs[0] if isinstance(outputs, tuple) else outputs


def test_a_language_model_s_folder_holds_all_that_transformers_loads(runs, tmp_path, capsys):
    folder = tmp_path / "hf"
    assert run(f"export {runs / 'language'} --to hf --out {folder}") == 0
    assert str(folder) in capsys.readouterr().out
    files = {each.name for each in folder.iterdir()}
    wanted = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "README.md"}
    assert wanted | {"tokenizer_config.json"} <= files
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = tokenizer(["to be", "that is the question"], padding=True, return_tensors="pt")
    ours = load(runs / "language").model.eval()
    row = tokenizer("to be", return_tensors="pt")["input_ids"]
    assert torch.equal(model(row).logits, logits_of(ours, row, steps=2))
    both = model.generate(**batch, max_new_tokens=4, do_sample=False)
    alone = model.generate(row, max_new_tokens=4, do_sample=False)
    assert both[0, -4:].tolist() == alone[0, -4:].tolist()
    back = from_hugging_face(folder)
    assert all(torch.equal(back.state_dict()[name], value) for name, value in ours.state_dict().items())
    card = (folder / "README.md").read_text()
    scores = json.loads((runs / "language" / "evaluation.json").read_text())
    assert f"{scores['perplexity_by_depth'][0]['perplexity']:.6g}" in card
    assert "rotate-the-loop/language" in card


def test_a_character_model_and_a_word_problem_are_exported_too(runs, tmp_path):
    assert run(f"export {runs / 'characters'} --to hf --out {tmp_path / 'characters'} --self-contained") == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "characters")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "characters")
    study = load(runs / "characters")
    tokens = study.task.encode("to be or")[None]
    assert tokenizer("to be or")["input_ids"] == tokens[0].tolist()
    assert torch.equal(model(tokens).logits, logits_of(study.model.eval(), tokens))
    assert (tmp_path / "characters" / "modeling_torsor.py").is_file()
    assert run(f"export {runs / 'words'}") == 0  # hf is what there is
    model = transformers.AutoModelForTokenClassification.from_pretrained(runs / "words" / "hf")
    study = load(runs / "words")
    tokens = study.task.batch(0, 3).tokens
    assert torch.equal(model(tokens).logits, logits_of(study.model.eval(), tokens, steps=2))
    assert not (runs / "words" / "hf" / "tokenizer.json").exists()


@pytest.mark.parametrize("name", CHARACTER_RUNS)
def test_a_trained_recurrent_or_group_run_is_exported_generates_alike_and_comes_back(name, characters, tmp_path):
    folder, hub = tmp_path / "run", tmp_path / "hf"
    assert run(f"train {CHARACTER_RUNS[name]} {SMALL} --out {folder}") == 0
    assert run(f"export {folder} --to hf --out {hub}") == 0
    theirs = transformers.AutoModelForCausalLM.from_pretrained(hub)
    study = load(folder)
    ours = study.model.eval()
    tokens = study.task.encode("to be or")[None]
    assert torch.equal(theirs(tokens).logits, logits_of(ours, tokens))
    back = from_hugging_face(hub).eval()
    assert type(back) is type(ours)
    assert back.state_dict().keys() == ours.state_dict().keys()
    assert all(torch.equal(back.state_dict()[name], value) for name, value in ours.state_dict().items())
    assert torch.equal(logits_of(back, tokens), logits_of(ours, tokens))
    drawn = tokens
    for _ in range(4):
        drawn = torch.cat([drawn, logits_of(ours, drawn)[:, -1:].argmax(-1)], dim=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(hub)
    batch = tokenizer(["to be or", "that"], padding=True, return_tensors="pt")
    found = theirs.generate(**batch, max_new_tokens=4, do_sample=False)
    assert found[0, -4:].tolist() == drawn[0, -4:].tolist()
    assert not pairs_of_one_tensor(ours)  # the readouts of these models are their own, and nothing is declared
    assert theirs.config.tie_word_embeddings is False


def pairs_of_one_tensor(model) -> list[tuple[str, str]]:
    parameters = list(model.state_dict(keep_vars=True).items())
    return [
        (one, other) for one, first in parameters for other, second in parameters if one < other and first is second
    ]


def test_the_tied_readout_of_a_language_run_is_declared_and_tied_again(runs, tmp_path):
    assert pairs_of_one_tensor(load(runs / "language").model) == [("prelude.embedding.weight", "readout.weight")]
    assert run(f"export {runs / 'language'} --to hf --out {tmp_path / 'hf'}") == 0
    stored = load_file(tmp_path / "hf" / "model.safetensors")
    assert len({"model.readout.weight", "model.prelude.embedding.weight"} & set(stored)) == 1
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    assert theirs.config.tie_word_embeddings is True
    assert theirs.get_output_embeddings().weight is theirs.get_input_embeddings().weight
    assert pairs_of_one_tensor(from_hugging_face(tmp_path / "hf")) == [("prelude.embedding.weight", "readout.weight")]


def test_a_mistake_is_one_line_and_leaves_nothing(runs, tmp_path, capsys):
    full, unfinished, stranger = tmp_path / "full", tmp_path / "unfinished", tmp_path / "stranger"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    for folder, change in ((unfinished, {"status": "running"}), (stranger, {"experiment": "rotate-the-loop/s33"})):
        folder.mkdir()
        described = json.loads((runs / "words" / "run.json").read_text())
        del described["about"]["sha256"]  # else it would be seen to be altered
        described["about"]["command"] = "torsor train rotate-the-loop/s3 --width 8 --out elsewhere"
        (folder / "run.json").write_text(json.dumps(described | change))
    before = snapshot(tmp_path)
    goes_on = f"torsor train rotate-the-loop/s3 --width 8 --out {unfinished} goes on"  # the folder in hand
    for command, words in (
        ("export --to hf", "name a run folder: torsor export RUN"),
        (f"export {runs / 'words'} --to onnx", "onnx"),
        (f"export {tmp_path / 'none'} --to hf", "is no run folder: it has no run.json"),
        (f"export {unfinished} --to hf", f"must hold a finished run, this one has not ended: {goes_on}"),
        (f"export {stranger} --to hf", "did you mean 'rotate-the-loop/s3'?"),
        (
            f"export {runs / 'language'} --to hf --out {full}",
            "full must be a new or empty folder: name another with --out",
        ),
        (f"export {runs / 'words'} --out {full}", "full must be a new or empty folder: name another with --out"),
    ):
        assert run(command) == 2, command
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("changed", [{"groups": 4}, {"core_layers": 2}], ids=["groups", "depth"])
def test_a_checkpoint_of_another_depth_or_number_of_groups_is_one_line(changed, runs, tmp_path, capsys):
    shutil.copytree(runs / "words", tmp_path / "run")
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert set(changed) <= set(described["arguments"])
    described["arguments"] |= changed
    del described["about"]["sha256"]  # else it would be seen to be altered
    (tmp_path / "run" / "run.json").write_text(json.dumps(described))
    assert run(f"export {tmp_path / 'run'} --to hf --out {tmp_path / 'hf'}") == 2
    error = capsys.readouterr().err
    assert "checkpoint does not fit the model: " in error
    assert error.count("\n") == 1
    assert not (tmp_path / "hf").exists()


def test_a_run_that_neither_continues_a_text_nor_multiplies_is_refused(runs, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("torsor.experiments.finished_run.WordProblem", int)
    assert run(f"export {runs / 'words'} --to hf --out {tmp_path / 'hf'}") == 2
    assert "must hold a run on text or on a word problem, its task is WordProblem" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["transformers", "tokenizers"])
def test_a_missing_package_is_told_in_one_line(package, runs, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert run(f"export {runs / 'words'} --to hf --out {tmp_path / 'hf'}") == 2
    error = capsys.readouterr().err
    assert "need the packages transformers and tokenizers: pip install 'torsor[hf]'" in error
    assert error.count("\n") == 1
    assert not any(tmp_path.iterdir())

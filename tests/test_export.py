"""``torsor export``: runs of every kind as folders that transformers loads, and what is refused in one line."""

import json
import os
import random
import sys
from pathlib import Path

import pytest
import torch

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


def run(command: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(command.split())
    return caught.value.code


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


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
    assert run(f"export {runs / 'words'} --to hf") == 0
    model = transformers.AutoModelForTokenClassification.from_pretrained(runs / "words" / "hf")
    study = load(runs / "words")
    tokens = study.task.batch(0, 3).tokens
    assert torch.equal(model(tokens).logits, logits_of(study.model.eval(), tokens, steps=2))
    assert not (runs / "words" / "hf" / "tokenizer.json").exists()


def test_a_mistake_is_one_line_and_leaves_nothing(runs, tmp_path, capsys):
    full, unfinished, stranger = tmp_path / "full", tmp_path / "unfinished", tmp_path / "stranger"
    full.mkdir()
    (full / "notes.txt").write_text("mine")
    for folder, change in ((unfinished, {"status": "running"}), (stranger, {"experiment": "rotate-the-loop/s33"})):
        folder.mkdir()
        described = json.loads((runs / "words" / "run.json").read_text())
        del described["about"]["sha256"]  # else it would be seen to be altered
        (folder / "run.json").write_text(json.dumps(described | change))
    before = snapshot(tmp_path)
    for command, words in (
        ("export --to hf", "name a run folder: torsor export RUN --to hf"),
        (f"export {runs / 'words'}", "--to"),
        (f"export {runs / 'words'} --to onnx", "onnx"),
        (f"export {tmp_path / 'none'} --to hf", "is no run folder: it has no run.json"),
        (f"export {unfinished} --to hf", "must hold a finished run, it is running: go on with its own command first"),
        (f"export {stranger} --to hf", "did you mean 'rotate-the-loop/s3'?"),
        (f"export {runs / 'language'} --to hf --out {full}", "full must be a new or empty folder"),
    ):
        assert run(command) == 2, command
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
    assert snapshot(tmp_path) == before


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

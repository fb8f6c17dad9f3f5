"""``torsor generate`` on a language model: depths, cache policies, exits, rates, and what is refused."""

import json
import random
import re
import shutil

import pytest
import torch

import torsor.text
from refusal import refused
from torsor.cli import main
from torsor.experiments.examined_run import examined_run
from torsor.experiments.generated_text import Loops, generated_text, streamed
from torsor.experiments.listening import listening
from torsor.experiments.run import measure
from torsor.experiments.text_model import text_model
from torsor.generation import Full, Sampling
from torsor.text import BytePairRecipe

TINY = "--shrink 32 --entries 300 --context 16 --batch 4 --mean-steps 3 --largest-steps 6 --positions 200 --threads 1"
CHANCE = random.Random(0)
WORDS = ["the", "cat", *("".join(CHANCE.choices("abcdefghijklm", k=CHANCE.randint(2, 7))) for _ in range(200))]
TEXT = " ".join(CHANCE.choice(WORDS) for _ in range(2500))


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    """A run of a small language model, two updates long."""
    torch.set_default_dtype(torch.float32)
    folder = tmp_path_factory.mktemp("generate")
    (folder / "text.txt").write_text(TEXT)
    command = f"train rotate-the-loop/language {TINY} --updates 2 --text {folder / 'text.txt'} --out {folder / 'run'}"
    with pytest.raises(SystemExit) as ending:
        main(command.split())
    assert ending.value.code == 0
    return folder / "run"


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as ending:
        main(["generate", *map(str, arguments), "--threads", "1"])
    output = capsys.readouterr()
    return ending.value.code, output.out, output.err


def greedy_uncached(run_folder, prompt, count, steps):
    """The whole sequence again for every token."""
    text = text_model(run_folder)
    tokens = text.encode(prompt)
    for _ in range(count):
        with torch.no_grad():
            tokens.append(int(text.model(torch.tensor([tokens]), steps=steps)[0, -1].argmax()))
    return text.decode(tokens)


def test_it_streams_a_text_for_each_depth_and_tells_tokens_per_second_by_depth(language, capsys):
    code, out, err = run(capsys, language, "--prompt", "the cat", "--tokens", 9, "--steps", "1,4", "--temperature", 0)
    assert code == 0
    assert out == "".join(greedy_uncached(language, "the cat", 9, steps) + "\n" for steps in (1, 4))
    lines = err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["1 loop", "4 loops"]
    for line in lines:
        assert re.fullmatch(r".*: first token after \d+\.\d\d s, then \d+\.\d tokens/s", line)


def test_by_default_it_makes_as_many_loops_as_the_mean_of_training_and_one_token_has_no_rate(language, capsys):
    code, out, err = run(capsys, language, "--prompt", "a", "--tokens", 1, "--temperature", 0)
    assert (code, out) == (0, greedy_uncached(language, "a", 1, 3) + "\n")
    assert re.fullmatch(r"3 loops: first token after \d+\.\d\d s\n", err)


def test_the_same_seed_prints_the_same_under_every_policy_and_rule(language, capsys):
    for options in (["--cache", "2", "--warm"], ["--cache", "last", "--divergence", "0.01"]):
        arguments = [language, "--prompt", "the", "--tokens", 12, "--steps", 4, "--top-p", 0.9, *options]
        first, second, other = (run(capsys, *arguments, "--seed", seed) for seed in (1, 1, 2))
        assert first[0] == 0
        assert first[1] == second[1] != other[1]
        assert first[1].startswith("the")


def test_what_is_half_a_character_waits_for_the_rest_of_it():
    tokenizer = BytePairRecipe(entries=260).train(["ab"])
    tokens = tokenizer.encode("aé→𝔸b")
    pieces = list(streamed(iter(tokens), tokenizer.decode))
    assert "".join(pieces) == "aé→𝔸b"
    assert len(pieces) == len(tokens)
    assert "".join(streamed(iter(tokens[:-3]), tokenizer.decode)) == "aé→\ufffd"
    stray = [tokens[1]] * 6  # the first halves of characters that never come
    assert set("".join(streamed(iter(stray), tokenizer.decode))) == {"\ufffd"}


def test_loops_go_with_a_looped_model_and_fit_their_cache(language):
    text = text_model(language)
    with refused("a looped model must be told its loops, got none"):
        generated_text(text, "a", 3, Sampling(), 0)
    with refused("at most the 2 loops that the cache has room for, got 3"):
        generated_text(text, "a", 3, Sampling(), 0, Loops(3, Full(2)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--prompt", ""], "prompt must have at least one character, got none"),
        (["--tokens", "0"], "characters must be at least 1, got 0"),
        (["--seed", str(2**64)], f"seed must be an integer in 0 .. 2**64 - 1, got {2**64}"),
        (["--steps", "0"], "steps must be whole numbers of at least 1 with commas between them, got '0'"),
        (["--steps", "1,,2"], "steps must be whole numbers of at least 1 with commas between them, got '1,,2'"),
        (["--cache", "first"], "cache must be full, last, or how many loops are kept, got 'first'"),
        (["--cache", "0"], "cache must be full, last, or how many loops are kept, got '0'"),
        (["--residual", "0"], "threshold must be positive and finite, got 0.0"),
        (["--residual", "1", "--divergence", "1"], "residual and divergence are two rules, name one of them"),
        (["--top-p", "1.5"], "nucleus must be above 0 and at most 1, got 1.5"),
    ],
)
def test_a_wrong_option_is_one_line_before_anything_is_printed(language, options, words, capsys):
    code, out, err = run(capsys, language, *options)
    assert (code, out, err) == (2, "", f"torsor: {words}\n")


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"groups": 4}, "transition."), ({"size": "140M"}, "checkpoint"), ({"entries": 290}, "bring the same data back")],
    ids=["another number of groups", "another depth", "another vocabulary"],
)
def test_a_checkpoint_of_another_model_is_one_line(language, changed, words, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(language, copy)
    description = json.loads((copy / "run.json").read_text())
    description["arguments"] |= changed
    del description["about"]["sha256"]  # else it would be seen to be altered
    (copy / "run.json").write_text(json.dumps(description))
    code, out, err = run(capsys, copy)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_run_that_does_not_continue_texts_and_loops_where_there_are_none_are_one_line(tmp_path, capsys, monkeypatch):
    word, characters = tmp_path / "word", tmp_path / "characters"
    monkeypatch.setattr(torsor.text, "texts_of", {"tiny-shakespeare": (TEXT[:1500],)}.__getitem__)
    for command in (
        f"rotate-the-loop/s3 --width 8 --heads 2 --length 4 --smallest-steps 1 --words 20 --out {word}",
        f"subgroups/tiny-shakespeare-recurrent --width 4 --context 8 --out {characters}",
    ):
        with pytest.raises(SystemExit) as ending:
            main(["train", *command.split(), *["--updates", "2", "--batch", "4", "--warmup", "1", "--threads", "1"]])
        assert ending.value.code == 0, capsys.readouterr().err
    capsys.readouterr()
    code, out, err = run(capsys, word)
    assert (code, out) == (2, "")
    assert "must hold a model of texts, it holds one of a word problem (conformal, 2 groups)" in err
    with refused(r"must hold a model of a word problem, it holds one of texts \("):
        examined_run(characters)
    code, out, err = run(capsys, characters, "--prompt", "the", "--steps", "2")
    assert (code, out) == (2, "")
    assert "go with a looped model, this one has no loops" in err
    code, out, err = run(capsys, characters, "--prompt", "the", "--tokens", "5")
    assert code == 0
    assert len(out) == 9
    assert "tokens/s" in err


def test_the_sample_that_measuring_draws_tells_how_far_it_is(language, monkeypatch):
    monkeypatch.setattr("torsor.experiments.text_sample.TOKENS", 4)
    told = []
    with listening(lambda what, share: told.append((what, share))):
        measure(language)
    assert [share for what, share in told if what == "writing a sample"][:4] == [0.25, 0.5, 0.75, 1.0]

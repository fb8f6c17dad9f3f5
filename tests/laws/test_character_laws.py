"""Laws of texts in parts, and of characters as a task."""

import hashlib
import math
from fractions import Fraction
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from refusal import refused
from torsor.tasks import Characters, Corpus

DISTINCT = "".join(chr(0x100 + index) for index in range(300))  # every position is known by its symbol
SHARES = {"80-10-10": (80, 10, 10), "90-5-5": (90, 5, 5), "90-10": (90, 10)}


def known_positions(context: int, seed: int = 0) -> Characters:
    return Characters(Corpus(DISTINCT, DISTINCT), context=context, seed=seed)


# A text in parts


@pytest.mark.parametrize("split", SHARES)
def test_a_split_cuts_at_the_floor_of_its_shares_and_loses_no_character(split):
    for length in [*range(20, 320), 1_115_394]:
        text = (DISTINCT * (length // 300 + 1))[:length]
        corpus = Corpus.cut(text, split)
        parts = [part for part in (corpus.training, corpus.validation, corpus.test) if part is not None]
        assert "".join(parts) == text
        edges = [math.floor(Fraction(sum(SHARES[split][:k]), 100) * length) for k in range(len(SHARES[split]) + 1)]
        assert [len(part) for part in parts] == [end - start for start, end in pairwise(edges)]
        assert corpus.split == split


def test_the_default_split_is_80_10_10():
    assert Corpus.cut(DISTINCT) == Corpus.cut(DISTINCT, "80-10-10")
    assert len(Corpus.cut(DISTINCT).test) == 30


def test_the_hash_is_over_the_split_s_name_and_the_parts_with_their_lengths():
    digest = hashlib.sha256()
    for text in ("90-10", "é" * 90, "é" * 10):
        digest.update(len(text.encode()).to_bytes(8, "little"))
        digest.update(text.encode())
    corpus = Corpus.cut("é" * 100, "90-10")
    assert Characters(corpus, context=3).data_hash == corpus.sha256 == digest.hexdigest()


def test_another_split_another_part_and_a_moved_character_have_another_hash():
    corpora = [
        *(Corpus.cut("ab" * 50, split) for split in SHARES),
        Corpus("ab", "ab", "ab"),
        Corpus("ab", "abab"),
        Corpus("aba", "bab"),
        Corpus("ab", "ab", "ab", split="mine"),
    ]
    assert len({corpus.sha256 for corpus in corpora}) == len(corpora)
    assert Corpus("ab", "ab", "ab").sha256 == Corpus("ab", "ab", "ab").sha256


# Characters


def test_the_vocabulary_is_the_sorted_symbols_of_the_training_text():
    task = Characters(Corpus("b\náA𝔸 b" * 3, "A b" * 4, "áb " * 4), context=2)
    assert task.symbols == "\n Abá𝔸"
    assert task.vocabulary == task.classes == 6
    assert task.encode("𝔸\n").tolist() == [5, 0]
    assert task.decode(task.test) == "áb " * 4
    assert Characters(Corpus("ab" * 9, "a" * 9), context=2).test is None


@given(st.text(alphabet="\n Abá𝔸", max_size=40))
def test_decoding_undoes_encoding(text):
    task = Characters(Corpus("b\náA𝔸 b" * 3, "A b" * 4), context=2)
    tokens = task.encode(text)
    assert tokens.dtype == torch.int64
    assert task.decode(tokens) == text
    assert task.decode(tokens.int()) == text


def test_a_text_is_stored_in_the_narrowest_integers_that_hold_its_symbols():
    for symbols, dtype in ((256, torch.uint8), (257, torch.int16), (2**15, torch.int16), (2**15 + 1, torch.int32)):
        text = "".join(chr(0x10000 + index) for index in range(symbols))
        task = Characters(Corpus(text, text), context=2)
        assert task.training.dtype == dtype
        assert task.decode(task.training) == text


def test_a_window_is_a_piece_of_the_training_text_and_its_targets_are_the_next_characters():
    task = known_positions(context=7, seed=5)
    batch = task.batch(update=3, size=50)
    assert batch.tokens.shape == (50, 7)
    assert batch.tokens.dtype == batch.targets.dtype == torch.int64
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        start = DISTINCT.index(task.decode(tokens[:1]))
        assert task.decode(tokens) == DISTINCT[start : start + 7]
        assert task.decode(targets) == DISTINCT[start + 1 : start + 8]


def test_windows_start_uniformly_at_every_position_with_room_for_a_window_and_its_last_target():
    task = known_positions(context=280)
    starts = torch.cat([task.batch(update, 400).tokens[:, 0] for update in range(5)])
    counts = starts.bincount()
    assert len(counts) == 300 - 280  # the last window's last target is the text's last character
    assert chisquare(counts).pvalue > 1e-3
    pairs = (starts[:-1] * 20 + starts[1:]).bincount(minlength=400)
    assert chisquare(pairs).pvalue > 1e-3


def test_a_smaller_batch_is_the_beginning_of_a_larger_one():
    task = known_positions(context=4, seed=2)
    whole = task.batch(9, 100)
    for size in (1, 2, 63, 64, 65):
        assert torch.equal(task.batch(9, size).tokens, whole.tokens[:size])


def test_every_update_and_every_seed_draws_windows_of_its_own():
    drawn = [
        tuple(known_positions(context=4, seed=seed).batch(update, 20).tokens[:, 0].tolist())
        for seed in (0, 1, 2**63, 2**64 - 1)
        for update in (0, 1, 2**32, 2**53, 2**53 + 1, 2**64 - 1)
    ]
    assert len(set(drawn)) == 24


def test_evaluation_windows_follow_each_other_through_the_validation_text():
    task = known_positions(context=10)
    batch = task.evaluation(29)  # the thirtieth would lack its last target
    assert task.decode(batch.tokens.flatten()) == DISTINCT[:290]
    assert task.decode(batch.targets.flatten()) == DISTINCT[1:291]
    with refused("size must be at most the 29 windows of the validation text, got 30"):
        task.evaluation(30)


def test_the_vocabulary_is_that_of_the_training_text_or_of_all_parts():
    corpus = Corpus("ba" * 9, "abcab", "ab\nab")
    task = Characters(corpus, context=2, of_all_parts=True)
    assert task.symbols == "\nabc"
    assert task.classes == task.vocabulary == 4
    assert [task.decode(part) for part in (task.validation, task.test)] == ["abcab", "ab\nab"]
    assert Characters(Corpus("ba" * 9, "abab"), context=2).symbols == "ab"
    with refused("the text must hold symbols of all parts only, got 'd' at position 1"):
        task.encode("ad")


WORDS = Corpus("ab" * 20, "ab" * 9, "ab" * 8)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Corpus.cut(""), "the text must have at least one character, got none"),
        (lambda: Corpus.cut("ab"), "the validation text must have at least one character, got none"),
        (lambda: Corpus("", "ab"), "the training text must have at least one character, got none"),
        (lambda: Corpus("ab", "ab", ""), "the test text must have at least one character, got none"),
        (
            lambda: Corpus("ab", "a\ud800"),
            r"the validation text must be of whole characters, got '\\ud800' at posi.* 1",
        ),
        (lambda: Corpus.cut("ab" * 50, "80-10-1"), "there is no split '80-10-1'; did you mean '80-10-10'?"),
        (lambda: Corpus.cut("ab" * 50, "thirds"), "there is no split 'thirds'; there are: 80-10-10, 90-5-5, 90-10"),
        (lambda: Characters(WORDS, context=0), "context must be at least 1, got 0"),
        (lambda: Characters(WORDS, context=-4), "context must be at least 1, got -4"),
        (lambda: Characters(WORDS, context=1.5), "context must be an integer of at least 1, got 1.5"),
        (lambda: Characters(WORDS, context=True), "context must be an integer of at least 1, got True"),
        (
            lambda: Characters(WORDS, context=40),
            "context must be less than the 40 characters of the training text, got 40",
        ),
        (lambda: Characters(WORDS, context=18), "context must be less than the 18 characters of the validation text"),
        (lambda: Characters(WORDS, context=16), "context must be less than the 16 characters of the test text, got 16"),
        (lambda: Characters(WORDS, context=4, seed=-1), r"seed must be an integer in 0 .. 2\*\*64 - 1, got -1"),
        (lambda: Characters(WORDS, context=4, seed=1.0), r"seed must be an integer in 0 .. 2\*\*64 - 1, got 1.0"),
        (lambda: Characters(WORDS, context=4).batch(-1, 2), r"update must be an integer in 0 .. 2\*\*64 - 1, got -1"),
        (
            lambda: Characters(WORDS, context=4).batch(0, 2**31),
            "must be at most 2147483648 in all, got 2147483648 of 5",
        ),
        (
            lambda: Characters(Corpus("ab" * 9, "abcab"), context=2),
            "the validation text must hold symbols of the training text only, got 'c' at position 2",
        ),
        (
            lambda: Characters(Corpus("ab" * 9, "abab", "ab\n"), context=2),
            r"the test text must hold symbols of the training text only, got '\\n' at position 2",
        ),
        (lambda: Characters(WORDS, context=4).encode("ab𝔸"), "the text must hold symbols .*, got '𝔸' at position 2"),
        (lambda: Characters(WORDS, context=4).encode("a\udfff"), r"got '\\udfff' at position 1"),
        (lambda: Characters(WORDS, context=4).encode("A"), "got 'A' at position 0"),
        (lambda: Characters(WORDS, context=4).decode(torch.tensor([0, 2])), "tokens must be in 0 .. 1, got 2"),
        (lambda: Characters(WORDS, context=4).decode(torch.tensor([-1])), "tokens must be in 0 .. 1, got -1"),
    ],
)
def test_an_inadmissible_text_is_refused_in_one_line(build, message):
    with refused(message):
        build()

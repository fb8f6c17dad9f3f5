"""Laws of packed streams: what preparing writes, and the rows that training and evaluation read of it."""

import hashlib
import json
import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from refusal import refused
from torsor.tasks import IGNORED, PackedTokens, TokenStream, shuffled
from torsor.text import CharacterTokenizer, JsonLines, Preparation, PreparedText, TokenShards

LETTERS = "abcdefgh "
TOKENIZER = CharacterTokenizer(LETTERS)


def write_lines(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def prepare(path, folder, **arguments) -> PreparedText:
    for _ in Preparation(JsonLines(path), TOKENIZER, **arguments).into(folder):
        pass
    return PreparedText.open(folder)


def log_normal_documents(mean: float, number: int) -> list[str]:
    """Documents whose lengths are log-normal, as those of web text."""
    chance = random.Random(0)
    lengths = [max(1, round(chance.lognormvariate(np.log(mean) - 0.5, 1.0))) for _ in range(number)]
    return ["".join(chance.choices(LETTERS, k=length)) for length in lengths]


# What preparing writes


@pytest.mark.parametrize("arguments", [{}, {"validation": 0.3}, {"validation": 0.3, "shard_tokens": 40}])
def test_every_document_stands_in_a_stream_after_a_begin_token_in_order_and_nothing_else_does(arguments, tmp_path):
    texts = log_normal_documents(mean=12, number=200)
    texts[3:3] = ["", texts[0]]
    prepared = prepare(write_lines(tmp_path / "corpus.jsonl", texts), tmp_path / "out", **arguments)
    waiting = {name: split_at_begin(part[:].tolist()) for name, part in prepared.parts.items()}
    for text in filter(None, texts):
        packed = [TOKENIZER.begin, *TOKENIZER.encode(text)]
        (here,) = [name for name, documents in waiting.items() if documents[:1] == [packed]]
        del waiting[here][0]
    assert not any(waiting.values())
    assert sum(part.documents for part in prepared.parts.values()) == len(texts) - 1
    assert sum(part.bytes for part in prepared.parts.values()) == len("".join(texts))
    if "shard_tokens" in arguments:
        for shard in prepared.training.shards[:-1]:
            assert 40 <= shard.tokens < 40 + 1 + max(map(len, texts))


@pytest.mark.parametrize("mean", [70, 1030])
@pytest.mark.parametrize("context", [64, 512])
def test_at_least_99_5_percent_of_the_positions_carry_a_label_and_only_a_tail_below_one_row_is_dropped(
    mean, context, tmp_path
):
    texts = log_normal_documents(mean, number=150_000 // mean)
    prepared = prepare(write_lines(tmp_path / "corpus.jsonl", texts), tmp_path / "out")
    stream = prepared.training
    assert len(stream) == sum(map(len, texts)) + len(texts)
    task = PackedTokens(stream, stream, context, TOKENIZER.vocabulary, TOKENIZER.special)
    assert 0 <= len(stream) - 1 - task.rows * context < context
    labels = positions = 0
    for update in range(task.rows // 32):
        batch = task.batch(update, 32)
        labels += int((batch.targets != IGNORED).sum())
        positions += batch.tokens.numel()
    assert labels == positions > 0.9 * len(stream)  # in training, every one
    scored = int((task.evaluation(task.rows).targets != IGNORED).sum())
    assert scored >= (0.995 if mean > 1000 else 0.98) * task.rows * context  # in evaluation, all but begin tokens
    begins = int((stream[1 : task.rows * context + 1] == TOKENIZER.begin).sum())
    assert scored == task.rows * context - begins


def test_two_equal_documents_are_never_in_different_parts_and_the_share_is_about_what_was_asked(tmp_path):
    texts = [f"{'ab' * (number % 40)}{'c' * (number // 40)}" for number in range(1, 600)]
    prepared = prepare(write_lines(tmp_path / "corpus.jsonl", texts * 2), tmp_path / "out", validation=0.2)
    decoded = {
        name: {TOKENIZER.decode(document) for document in split_at_begin(part[:].tolist())}
        for name, part in prepared.parts.items()
    }
    assert not decoded["training"] & decoded["validation"]
    assert decoded["training"] | decoded["validation"] == set(texts)
    assert 0.13 < prepared.validation.documents / (2 * len(texts)) < 0.27


def split_at_begin(stream: list[int]) -> list[list[int]]:
    starts = [place for place, token in enumerate(stream) if token == TOKENIZER.begin]
    return [stream[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]


def test_a_limit_on_documents_or_tokens_takes_the_first_whichever_way_they_are_read(tmp_path, monkeypatch):
    texts = log_normal_documents(mean=12, number=100)
    path = write_lines(tmp_path / "corpus.jsonl", texts)
    whole = prepare(path, tmp_path / "whole").training[:].tolist()
    few = prepare(path, tmp_path / "few", documents=10).training
    assert few[:].tolist() == whole[: len(few)]
    assert few.documents == 10
    found = set()
    for size in (1, 7, 4096):
        monkeypatch.setattr("torsor.text.preparing.CHUNK_DOCUMENTS", size)
        limited = prepare(path, tmp_path / f"limited {size}", tokens=300).training
        lengths = [len(text) + 1 for text in texts[: limited.documents]]
        assert sum(lengths[:-1]) < 300 <= sum(lengths) == len(limited)
        found.add(tuple(limited[:].tolist()))
    assert found == {tuple(whole[: len(limited)])}
    write_lines(path, texts[: limited.documents + 1])
    path.write_text(path.read_text() + "no JSON")  # what comes after is not even read
    monkeypatch.setattr("torsor.text.preparing.CHUNK_DOCUMENTS", 1)
    assert prepare(path, tmp_path / "unread", tokens=300).training[:].tolist() == limited[:].tolist()


def test_every_checksum_of_the_index_is_of_the_file_s_content(tmp_path):
    path = write_lines(tmp_path / "corpus.jsonl", log_normal_documents(mean=12, number=60))
    prepared = prepare(path, tmp_path / "out", validation=0.3, shard_tokens=100)
    for part in prepared.parts.values():
        for shard in part.shards:
            content = (tmp_path / "out" / shard.file).read_bytes()
            assert hashlib.sha256(content).hexdigest() == shard.sha256
            assert len(content) == 2 * shard.tokens
    assert prepared.index["request"]["source"]["files"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert prepared.index["tokenizer"]["sha256"] == TOKENIZER.sha256 == prepared.sha256["tokenizer"]
    assert len({*prepared.sha256.values(), prepare(path, tmp_path / "other").training.sha256}) == 4


@given(st.integers(-70, 70), st.integers(-70, 70))
def test_a_slice_of_shards_is_that_of_the_whole_stream(sharded, start, stop):
    whole = sharded[:]
    assert len(sharded) == len(whole) == 53
    assert sharded[start:stop].tolist() == whole.tolist()[start:stop]
    assert sharded[start:].tolist() == whole.tolist()[start:]
    assert sharded[start:stop].dtype == whole.dtype


@pytest.fixture(scope="module")
def sharded(tmp_path_factory) -> TokenShards:
    folder = tmp_path_factory.mktemp("sharded")
    path = write_lines(folder / "corpus.jsonl", ["abcdefgh"[: 1 + number % 8] for number in range(11)])
    shards = prepare(path, folder / "out", shard_tokens=7).training
    assert len(shards.shards) > 5
    return shards


def test_a_stream_of_shards_is_read_without_a_step(sharded):
    with refused("a stream of tokens is read without a step, got 2"):
        sharded[::2]


# The order of rows


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 16, 17, 64, 65, 1000, 4097, 100_003])
def test_in_an_epoch_every_row_stands_at_exactly_one_position(rows):
    for seed, epoch in ((0, 0), (0, 1), (2**64 - 1, 2**70)):
        order = shuffled(np.arange(rows), rows, seed, epoch)
        assert np.array_equal(np.sort(order), np.arange(rows))
        few = np.array([rows - 1, 0, rows // 2])
        assert np.array_equal(shuffled(few, rows, seed, epoch), order[few])


def test_every_seed_and_every_epoch_has_an_order_of_its_own():
    orders = {
        tuple(shuffled(np.arange(50), 50, seed, epoch).tolist())
        for seed in (0, 1, 2**63, 2**64 - 1)
        for epoch in (0, 1, 2**32, 2**64, 2**64 + 1)
    }
    assert len(orders) == 20


@pytest.mark.parametrize("rows", [4, 5, 20, 57])
def test_each_row_stands_anywhere_equally_often_and_neighbours_are_those_of_a_shuffled_deck(rows):
    orders = np.stack([shuffled(np.arange(rows), rows, 0, epoch) for epoch in range(800)])
    for place in (0, 1, rows // 2, rows - 1):
        assert chisquare(np.bincount(orders[:, place], minlength=rows)).pvalue > 1e-4
    apart = (orders[:, 1:] - orders[:, :-1]) % rows
    assert chisquare(np.bincount(apart.ravel(), minlength=rows)[1:]).pvalue > 1e-4
    fixed = (orders == np.arange(rows)).sum(axis=1)
    assert abs(fixed.mean() - 1) < 0.12
    seeds = [int(shuffled(np.array([0]), rows, seed, 0)[0]) for seed in range(800)]
    assert chisquare(np.bincount(seeds, minlength=rows)).pvalue > 1e-4


def test_the_check_of_neighbours_sees_an_order_that_only_turns():
    turned = np.stack([(np.arange(20) + epoch) % 20 for epoch in range(800)])
    apart = (turned[:, 1:] - turned[:, :-1]) % 20
    assert chisquare(np.bincount(apart.ravel(), minlength=20)[1:]).pvalue < 1e-4


# Rows as a task

STREAM = torch.arange(1000)


def packed(context: int, seed: int = 0, stream=STREAM) -> PackedTokens:
    return PackedTokens(stream, stream, context, entries=1000, special=(7, 500), seed=seed)


@pytest.mark.parametrize(("context", "size"), [(7, 10), (9, 37), (10, 1), (999, 3), (400, 5)])
def test_in_an_epoch_every_token_but_the_first_and_the_tail_is_a_target_exactly_once(context, size):
    task = packed(context)
    rows = task.rows
    assert rows == 999 // context
    epochs = 3
    batches = [task.batch(update, size) for update in range(-(-rows * epochs // size))]
    tokens = torch.cat([batch.tokens for batch in batches])[: rows * epochs]
    targets = torch.cat([batch.targets for batch in batches])[: rows * epochs]
    for epoch in range(epochs):
        seen = slice(epoch * rows, (epoch + 1) * rows)
        assert torch.equal(targets[seen].flatten().sort().values, STREAM[1 : rows * context + 1])
        assert torch.equal(tokens[seen].flatten().sort().values, STREAM[: rows * context])
    assert torch.equal(targets, tokens + 1)  # the next token, within a row and across its end
    if rows > 10:
        assert not torch.equal(tokens[:rows], tokens[rows : 2 * rows])


def test_no_token_is_left_out_in_training_and_no_special_one_is_scored_in_evaluation():
    task = packed(context=9)
    targets = torch.cat([task.batch(update, 37).targets for update in range(3)])
    assert {7, 500} < set(targets.flatten().tolist())
    assert IGNORED not in targets
    batch = task.evaluation(111)
    assert torch.equal(batch.tokens.flatten(), STREAM[:999])
    expected = STREAM[1:].clone()
    expected[[6, 499]] = IGNORED
    assert torch.equal(batch.targets.flatten(), expected)
    with refused("size must be at most the 111 rows of the validation stream, got 112"):
        task.evaluation(112)


def test_the_row_of_an_update_is_the_same_however_the_updates_are_cut():
    task = packed(context=9, seed=4)
    one_by_one = torch.cat([task.batch(update, 1).tokens for update in range(120)])
    by_twelve = torch.cat([task.batch(update, 12).tokens for update in range(10)])
    assert torch.equal(one_by_one, by_twelve)
    assert not torch.equal(by_twelve[:12], packed(context=9, seed=5).batch(0, 12).tokens)
    assert task.batch(2**64 - 1, 12).tokens.shape == (12, 9)


def test_shards_on_the_disk_an_array_and_a_tensor_in_memory_give_the_same_batches(sharded):
    stream = sharded[:]
    for same in (stream, torch.from_numpy(stream), torch.from_numpy(stream.astype(np.int32))):
        assert isinstance(same, TokenStream)
        here = PackedTokens(same, same, context=6, entries=10, special=(0,))
        there = PackedTokens(sharded, sharded, context=6, entries=10, special=(0,))
        for ours, theirs in ((here.batch(1, 13), there.batch(1, 13)), (here.evaluation(8), there.evaluation(8))):
            assert torch.equal(ours.tokens, theirs.tokens)
            assert torch.equal(ours.targets, theirs.targets)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: packed(1000), "context must be less than the 1000 tokens of the training stream, got 1000"),
        (
            lambda: PackedTokens(STREAM, STREAM[:5], 5, entries=1000),
            "context must be less than the 5 tokens of the validation stream, got 5",
        ),
        (lambda: packed(0), "context must be at least 1, got 0"),
        (lambda: packed(2.0), "context must be an integer of at least 1, got 2.0"),
        (lambda: PackedTokens(STREAM, STREAM, 5, entries=0), "entries must be at least 1, got 0"),
        (
            lambda: PackedTokens(STREAM, STREAM, 5, 1000, special=(1000,)),
            r"special tokens must be in 0 \.\. 999, got 1000",
        ),
        (lambda: packed(5, seed=-1), r"seed must be an integer in 0 \.\. 2\*\*64 - 1, got -1"),
        (lambda: packed(5).batch(-1, 2), r"update must be an integer in 0 \.\. 2\*\*64 - 1, got -1"),
        (
            lambda: packed(5).batch(0, 2**40),
            "size rows of context [+] 1 tokens must be at most .* got 1099511627776 of 6",
        ),
        (lambda: packed(5, stream=STREAM[None]), "training must be integers with one axis, got int64 with 2 axes"),
        (lambda: packed(5, stream=STREAM.double()), "training must be integers with one axis, got float64"),
        (
            lambda: PackedTokens(STREAM, STREAM, 9, entries=900).batch(0, 111),
            r"tokens must be in 0 \.\. 899, got 999",
        ),
        (lambda: packed(5, stream=STREAM - 3).evaluation(2), r"tokens must be in 0 \.\. 999, got -3"),
    ],
)
def test_inadmissible_arguments_are_refused(build, message):
    with refused(message):
        build()

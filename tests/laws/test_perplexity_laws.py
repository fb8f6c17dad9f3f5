"""Laws of perplexity over a fixed stream, at one depth and at several."""

import hashlib
import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases import looped
from refusal import refused
from torsor.tasks import HeldOutText, Perplexity
from torsor.tasks.base import IGNORED
from torsor.tasks.likelihood import score_labels
from torsor.text import CharacterTokenizer
from torsor.transitions import BlockConformal

ENTRIES = 6


class Bigram:
    """Logits of the next token from the last one, and how it was called."""

    def __init__(self):
        self.table, self.calls = torch.randn(ENTRIES, ENTRIES), []

    def __call__(self, tokens):
        assert tokens.dtype == torch.int64
        assert not torch.is_grad_enabled()
        self.calls.append(tuple(tokens.shape))
        return self.table[tokens]

    def at_steps(self, tokens, steps):
        return torch.stack([depth * self(tokens) for depth in steps])


def by_hand(table, stream, rows, context, special) -> tuple[float, int]:
    """One label after the other."""
    nats, labels = [], 0
    for row in range(rows):
        for place in range(row * context, (row + 1) * context):
            label = int(stream[place + 1])
            if label not in special:
                logits = [float(logit) for logit in table[int(stream[place])]]
                nats.append(math.log(math.fsum(map(math.exp, logits))) - logits[label])
                labels += 1
    return math.fsum(nats), labels


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(2, 6))
def test_a_label_is_hit_where_no_class_is_likelier_and_of_equal_ones_the_smallest(depths, batch, length, classes):
    torch.manual_seed(classes)
    logits = torch.randint(-2, 3, (depths, batch, length, classes)).double()  # few values: many are equal
    targets = torch.randint(-1, classes, (batch, length))
    targets[targets < 0] = IGNORED
    _, hits = score_labels(logits, targets)
    expected = []
    for each in logits:
        rows = zip(each.flatten(0, 1).tolist(), targets.flatten().tolist(), strict=True)
        expected.append([row.index(max(row)) == label for row, label in rows if label != IGNORED])
    assert hits.tolist() == expected


@given(st.integers(12, 90), st.integers(1, 11), st.integers(1, 60), st.integers(1, 5))
def test_every_label_that_is_no_special_token_is_scored_once_whatever_the_batch(length, context, positions, batch):
    torch.manual_seed(length)
    stream, model = torch.randint(ENTRIES, (length,)), Bigram()
    stream[1] = 1  # something to score
    if context > positions:
        with refused(f"context must be at most positions = {positions} and less than the {length} tokens"):
            HeldOutText(stream, context, positions=positions)
        return
    text = HeldOutText(stream, context, special=(0, 5), positions=positions)
    assert text.rows == min(positions // context, (length - 1) // context)
    found = text.perplexity(model, batch=batch)
    nats, labels = by_hand(model.table, stream, text.rows, context, {0, 5})
    assert found.nats == pytest.approx(nats, rel=1e-12)
    assert found.labels == labels
    assert found.value == pytest.approx(math.exp(nats / labels), rel=1e-12)
    assert sum(rows for rows, _ in model.calls) == text.rows
    assert max(rows for rows, _ in model.calls) <= batch


def test_the_default_is_780288_positions_in_rows_of_2048_and_of_1024():
    stream = np.zeros(800_000, dtype=np.uint16)
    for context, rows in ((2048, 381), (1024, 762)):
        text = HeldOutText(stream, context)
        assert text.rows == rows
        assert text.rows * context == 780_288
        assert text.sha256 == hashlib.sha256(bytes(4 * 780_289)).hexdigest()
    assert HeldOutText(stream[:5000], 2048).rows == 2  # a shorter text


def test_the_hash_is_of_the_tokens_that_are_read_or_scored_and_not_of_their_width(monkeypatch):
    monkeypatch.setattr("torsor.tasks.held_out_text._sha256.__defaults__", (7,))
    stream = torch.randint(ENTRIES, (50,))
    expected = hashlib.sha256(stream[:41].numpy().astype("<u4").tobytes()).hexdigest()
    for same in (stream, stream.numpy().astype(np.uint16), stream.int(), torch.cat([stream[:41], stream[:4]])):
        assert HeldOutText(same, context=10, positions=40).sha256 == expected
    stream[40] += 1
    assert HeldOutText(stream, context=10, positions=40).sha256 != expected


def test_several_depths_of_one_pass_equal_a_pass_for_each():
    model, stream = Bigram(), torch.randint(ENTRIES, (60,))
    text = HeldOutText(stream, context=8, special=(0,))
    found = text.perplexity_at_steps(model.at_steps, (1, 4, 2), batch=3)
    assert [rows for rows, _ in model.calls] == [3, 3, 3, 3, 3, 3, 1, 1, 1]  # one call for a batch, of three depths
    assert list(found) == [1, 4, 2]
    for depth, each in found.items():
        alone = text.perplexity(lambda tokens, depth=depth: depth * model(tokens))
        assert each.nats == pytest.approx(alone.nats, rel=1e-12)
        assert (each.labels, each.sha256) == (alone.labels, alone.sha256)
    assert len({each.nats for each in found.values()}) == 3


def test_a_looped_model_is_scored_at_several_depths_as_at_each():
    model = looped(BlockConformal(16, groups=2)).eval()
    model.readout = torch.nn.Linear(16, 3)
    text = HeldOutText(torch.randint(3, (40,)), context=6)
    found = text.perplexity_at_steps(model, steps=(1, 2, 5))
    for depth, each in found.items():
        alone = text.perplexity(lambda tokens, depth=depth: model(tokens, steps=depth))
        assert each.nats == pytest.approx(alone.nats, rel=1e-9)


def test_the_bytes_are_those_of_the_scored_text():
    tokenizer = CharacterTokenizer("aé文\n")
    documents = ["a文é\n", "文文", "é"]
    stream = torch.tensor([token for text in documents for token in (0, *tokenizer.encode(text))])
    text = HeldOutText(stream, context=3, special=tokenizer.special, bytes_per_token=tokenizer.bytes_per_token)
    assert text.rows * 3 + 1 == len(stream)
    found = text.perplexity(lambda tokens: torch.zeros(*tokens.shape, 5))
    assert found.labels == len("".join(documents))
    assert found.bytes == len("".join(documents).encode())
    assert found.bits_per_byte == pytest.approx(found.labels * math.log2(5) / found.bytes, rel=1e-12)
    assert found.value == pytest.approx(5, rel=1e-12)


def test_the_sum_is_float64_whatever_the_model_s_type():
    stream = torch.randint(7, (20_001,))
    for dtype in (torch.float32, torch.bfloat16):
        found = HeldOutText(stream, context=500).perplexity(
            lambda tokens, t=dtype: torch.zeros(*tokens.shape, 7, dtype=t)
        )
        assert found.value == pytest.approx(7, rel=1e-13)


def test_a_result_says_what_was_measured_and_is_plain_json():
    found = Perplexity(nats=4 * math.log(8), labels=4, bytes=6, rows=2, context=3, sha256="abc")
    assert found.value == pytest.approx(8)
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert written == {
        "perplexity": found.value,
        "bits_per_byte": pytest.approx(2),
        "nats": found.nats,
        "labels": 4,
        "positions": 6,
        "bytes": 6,
        "rows": 2,
        "context": 3,
        "sha256": "abc",
        "definition": "exp of the mean negative log-likelihood of 4 labels that are no special token, in 2 rows of 3 "
        "positions of one packed stream; a row knows nothing before it",
    }
    beyond = Perplexity(nats=1e6, labels=1, bytes=None, rows=1, context=1, sha256="")
    assert beyond.value == math.inf
    assert beyond.to_json()["perplexity"] is beyond.to_json()["bits_per_byte"] is None


def still(tokens):
    return torch.zeros(*tokens.shape, ENTRIES)


TOKENS = torch.arange(30) % ENTRIES


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (
            lambda: HeldOutText(TOKENS, 30),
            "context must be at most .* and less than the 30 tokens of the stream, got 30",
        ),
        (lambda: HeldOutText(TOKENS, 0), "context must be at least 1, got 0"),
        (lambda: HeldOutText(TOKENS, 4, positions=0), "positions must be at least 1, got 0"),
        (lambda: HeldOutText(TOKENS[None], 4), "stream must be integers with one axis, got int64 with 2 axes"),
        (lambda: HeldOutText(TOKENS, 4).perplexity(still, batch=0), "batch must be at least 1, got 0"),
        (lambda: HeldOutText(TOKENS, 4).perplexity(lambda x: still(x)[:, 1:]), r"got \(4, 3, 6\) for \(4, 4\)"),
        (lambda: HeldOutText(TOKENS, 4).perplexity(lambda x: still(x)[..., :5]), "below the 5 classes .*, got 5"),
        (lambda: HeldOutText(TOKENS, 4, special=range(6)).perplexity(still), "must have a label that is no special"),
        (
            lambda: HeldOutText(TOKENS, 4, bytes_per_token=[1] * 5).perplexity(still),
            "bytes_per_token must have an entry for each token, got 5 for 5",
        ),
        (lambda: HeldOutText(TOKENS, 4).perplexity_at_steps(still, ()), r"different depths of at least 1, got \(\)"),
        (lambda: HeldOutText(TOKENS, 4).perplexity_at_steps(still, (2, 2)), r"different depths .* got \(2, 2\)"),
        (lambda: HeldOutText(TOKENS, 4).perplexity_at_steps(still, (0, 2)), r"different depths .* got \(0, 2\)"),
        (
            lambda: HeldOutText(TOKENS, 4).perplexity_at_steps(lambda x, steps: still(x), (1, 2)),
            r"logits at 2 depths must have them as first axis, got \(4, 4, 6\)",
        ),
        (
            lambda: HeldOutText(TOKENS, 4).perplexity_at_steps(lambda x, steps: still(x).expand(3, -1, -1, -1), (1, 2)),
            r"logits at 2 depths must have them as first axis, got \(3, 4, 4, 6\)",
        ),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(score, message):
    with refused(message):
        score()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_an_error_and_no_number(value):
    with pytest.raises(FloatingPointError, match="must be finite"):
        HeldOutText(TOKENS, 4).perplexity(lambda tokens: torch.full((*tokens.shape, ENTRIES), value))

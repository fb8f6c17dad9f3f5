"""Laws of guessing the last word of a passage, and what is known of LAMBADA."""

import collections
import hashlib
import json
import math
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from refusal import refused
from torsor.tasks import LastWords, LastWordScore, Proportion, passages_of
from torsor.text import CharacterTokenizer, load_tokenizer

LETTERS = CharacterTokenizer("abcd \n")
REAL = Path(os.environ.get("TORSOR_DATA", "data"))
PASSAGES = ["ab cd abc", "a b", "c a\nb d", "abcd abcd abcd abcd ab", "b c dd", "d  cccc"]


def last_words(passages=PASSAGES) -> LastWords:
    return LastWords(passages, LETTERS.encode, LETTERS.begin)


class Causal:
    """Logits from a product over all tokens up to a place: it knows where it is and what came in which order."""

    def __init__(self, vocabulary: int = LETTERS.vocabulary):
        self.table, self.shapes = torch.randn(vocabulary, 5, 5) / 2, []
        self.readout = torch.randn(25, vocabulary)

    def __call__(self, tokens):
        assert not torch.is_grad_enabled()
        self.shapes.append(tuple(tokens.shape))
        state, states = torch.eye(5).expand(len(tokens), 5, 5), []
        for place in range(tokens.shape[1]):
            state = torch.tanh(state @ self.table[tokens[:, place]] + state)
            states.append(state.flatten(1) @ self.readout)
        return torch.stack(states, dim=1)

    def at_steps(self, tokens, steps):
        return torch.stack([self(tokens) * (-1) ** depth + depth * self.readout[0] for depth in steps])


class Knows:
    """Gives probability ``sure`` to the tokens of the last words it has learnt, and knows nothing else."""

    def __init__(self, texts, vocabulary: int, encode, begin: int, sure: float = 0.9):
        self.next, self.vocabulary, self.sure = {}, vocabulary, sure
        for text in texts:
            before, _, word = text.rpartition(" ")
            context, target = [begin, *encode(before)], encode(f" {word}")
            for place, token in enumerate(target):
                self.next[(*context, *target[:place])] = token

    def __call__(self, tokens):
        logits = torch.full((*tokens.shape, self.vocabulary), math.log((1 - self.sure) / (self.vocabulary - 1)))
        for row, read in enumerate(tokens.tolist()):
            for place in range(len(read)):
                likely = self.next.get(tuple(read[: place + 1]))
                if likely is not None:
                    logits[row, place, likely] = math.log(self.sure)
        return logits


def one_at_a_time(model, passages, encode=LETTERS.encode, begin=LETTERS.begin) -> tuple[int, float]:
    """By the definition, with plain numbers."""
    hits, nats = 0, []
    for passage in passages:
        before, _, word = passage.rpartition(" ")
        context, target = [begin, *encode(before)], encode(f" {word}")
        with torch.no_grad():
            logits = model(torch.tensor([context + target[:-1]]))[0, len(context) - 1 :].tolist()
        hits += all(row.index(max(row)) == token for row, token in zip(logits, target, strict=True))
        for row, token in zip(logits, target, strict=True):
            nats.append(math.log(math.fsum(map(math.exp, row))) - row[token])
    return hits, math.fsum(nats)


@given(st.integers(1, 8), st.integers(0, 10_000))
def test_any_batch_equals_one_passage_at_a_time(batch, seed):
    torch.manual_seed(seed)
    model = Causal()
    found = last_words().score(model, batch=batch)
    assert max(size for size, _ in model.shapes) <= batch
    hits, nats = one_at_a_time(model, PASSAGES)
    assert found.right == Proportion(hits, len(PASSAGES))
    assert found.nats == pytest.approx(nats, rel=1e-12)
    assert found.tokens == sum(len(passage) - passage.rindex(" ") for passage in PASSAGES)


def test_passages_of_like_length_are_read_together():
    model = Causal()
    last_words().score(model, batch=2)
    widths = [width for _, width in model.shapes]
    assert widths == sorted(widths)
    padding = sum(rows * width for rows, width in model.shapes) - sum(len(passage) for passage in PASSAGES)
    assert padding == 16  # in any order of the file: up to 60


def test_several_depths_of_one_pass_equal_a_pass_for_each():
    model = Causal()
    found = last_words().score_at_steps(model.at_steps, (3, 1, 4), batch=4)
    assert list(found) == [3, 1, 4]
    for depth, each in found.items():
        alone = last_words().score(lambda tokens, depth=depth: model.at_steps(tokens, (depth,))[0])
        assert each.right == alone.right
        assert each.nats == pytest.approx(alone.nats, rel=1e-12)
        assert each.sha256 == alone.sha256
    assert len({each.nats for each in found.values()}) == 3


@given(st.sets(st.integers(0, len(PASSAGES) - 1)), st.floats(0.5, 0.99))
def test_a_model_that_knows_some_passages_has_exactly_their_number_right(known, sure):
    model = Knows([PASSAGES[number] for number in known], LETTERS.vocabulary, LETTERS.encode, LETTERS.begin, sure)
    found = last_words().score(model, batch=4)
    assert found.right == Proportion(len(known), len(PASSAGES))
    assert found.nats == pytest.approx(one_at_a_time(model, PASSAGES)[1], rel=1e-9)
    if len(known) == len(PASSAGES):
        assert found.perplexity == pytest.approx(sure ** (-found.tokens / len(PASSAGES)), rel=1e-9)


def test_a_passage_is_right_only_where_every_token_of_its_last_word_is():
    passage = "ab cd"  # three tokens: the space, c and d
    tokens = [LETTERS.begin, *LETTERS.encode(passage)]
    for wrong in (None, 3, 4, 5):

        def model(read, wrong=wrong):
            logits = torch.zeros(*read.shape, LETTERS.vocabulary)
            for place in range(1, len(tokens)):
                logits[0, place - 1, tokens[place] if place != wrong else LETTERS.begin] = 5.0
            return logits

        assert last_words([passage]).score(model).accuracy == (wrong is None)


def test_of_equal_logits_the_smallest_class_counts():
    assert last_words(["a b"]).score(lambda tokens: torch.zeros(*tokens.shape, LETTERS.vocabulary)).accuracy == 0
    model = torch.zeros(LETTERS.vocabulary)
    model[[LETTERS.encode(" ")[0], LETTERS.encode("a")[0]]] = 1.0
    assert last_words(["b a"]).score(lambda tokens: model.expand(*tokens.shape, -1)).accuracy == 0


def test_the_perplexity_is_of_passages_and_not_of_tokens():
    found = last_words().score(lambda tokens: torch.zeros(*tokens.shape, LETTERS.vocabulary))
    assert found.perplexity == pytest.approx(LETTERS.vocabulary ** (found.tokens / len(PASSAGES)), rel=1e-12)


def test_the_passage_is_split_at_its_last_space_and_at_nothing_else():
    words = last_words(["a b\nc", "a  b", "a\nb c"])
    assert words.target_tokens == (4, 2, 2)


def test_the_hash_fixes_the_passages_their_order_and_the_tokenizer():
    digest = hashlib.sha256()
    for tokens, targets in (([0, 1, 5, 2], 2), ([0, 3, 5, 1, 1], 3)):
        for number in (len(tokens), targets, *tokens):
            digest.update(number.to_bytes(4, "little"))
    assert last_words(["a b", "c aa"]).sha256 == digest.hexdigest()
    others = [
        last_words(["c aa", "a b"]),
        last_words(["a b"]),
        LastWords(["a b", "c aa"], CharacterTokenizer("bacd \n").encode, 0),
        LastWords(["a b", "c aa"], LETTERS.encode, 6),
    ]
    assert len({digest.hexdigest(), *(each.sha256 for each in others)}) == 5


def test_a_result_says_what_was_measured_and_is_plain_json():
    found = LastWordScore(Proportion(1, 4), nats=4 * math.log(3), tokens=6, sha256="abc")
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert written["accuracy"] == 0.25
    assert written["interval"] == list(Proportion(1, 4).interval())
    assert written["perplexity"] == pytest.approx(3)
    assert (written["right"], written["passages"], written["target_tokens"], written["sha256"]) == (1, 4, 6, "abc")
    for words in ("split at its last space", "begin token", "each token of the space and the last word", "exact match"):
        assert words in written["definition"]
    assert LastWordScore(Proportion(0, 1), nats=1e6, tokens=1, sha256="").to_json()["perplexity"] is None


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: last_words([]), "passages must hold at least one, got none"),
        (lambda: last_words(["a b", "abc"]), r"passage 1 must have a space and a word after it, got \.\.\.'abc'"),
        (lambda: last_words(["a b "]), r"passage 0 must have a space and a word after it, got \.\.\.'a b '"),
        (lambda: last_words().score(Causal(), batch=0), "batch must be at least 1, got 0"),
        (lambda: last_words(["a b"]).score(lambda x: torch.zeros(*x.shape, 5)), "below the 5 classes .*, got 5"),
        (lambda: last_words(["a b"]).score(lambda x: torch.zeros(1, 1, 7)), r"got \(1, 1, 7\) for \(1, 3\)"),
        (lambda: last_words().score_at_steps(Causal().at_steps, (1, 1)), r"different depths .* got \(1, 1\)"),
        (lambda: passages_of('{"text": "a"}\n{'), "line 2 of the passages is not JSON"),
        (lambda: passages_of('\n{"body": "a"}'), "line 2 of the passages must have a text in its field 'text'"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(score, message):
    with refused(message):
        score()


def test_logits_that_are_not_finite_are_an_error_and_no_number():
    with pytest.raises(FloatingPointError, match="must be finite"):
        last_words().score(lambda tokens: torch.full((*tokens.shape, LETTERS.vocabulary), math.nan))


# What is known of the real passages


FILES = ("lambada/lambada_test.jsonl", "gpt2_bpe/tokenizer.json")
real = pytest.mark.skipif(
    not all((REAL / file).exists() for file in FILES), reason=f"the folder TORSOR_DATA holds no {' and '.join(FILES)}"
)


@pytest.fixture(scope="module")
def gpt2():
    return load_tokenizer(REAL / FILES[1])


@pytest.fixture(scope="module")
def lambada(gpt2) -> LastWords:
    passages = passages_of((REAL / FILES[0]).read_text())
    return LastWords(passages, gpt2.encode, gpt2.begin)


@real
def test_lambada_has_1143_of_5153_last_words_of_more_than_one_token_of_gpt2(lambada):
    counts = collections.Counter(min(4, each) for each in lambada.target_tokens)
    assert counts == {1: 4010, 2: 913, 3: 205, 4: 25}
    assert sum(count for tokens, count in counts.items() if tokens > 1) == 1143


@real
def test_the_tokens_of_a_passage_are_those_of_its_two_parts_for_gpt2(lambada, gpt2):
    whole = gpt2.encode_all(list(lambada.passages))
    for passage, tokens, targets in zip(lambada.passages, whole, lambada.target_tokens, strict=True):
        assert gpt2.decode(tokens[-targets:]) == " " + passage.rpartition(" ")[2]


@real
def test_a_model_that_knows_every_third_passage_of_lambada_is_right_there_and_its_last_token_elsewhere(gpt2, lambada):
    passages = lambada.passages[:60]
    words = LastWords(passages, gpt2.encode, gpt2.begin)
    model = Knows(passages[::3], gpt2.vocabulary, gpt2.encode, gpt2.begin)
    found = words.score(model, batch=4)
    assert found.right == Proportion(20, 60)
    assert found.right.interval() == Proportion(20, 60).interval()
    known = sum(words.target_tokens[::3])
    expected = known * -math.log(0.9) + (found.tokens - known) * math.log(gpt2.vocabulary)
    assert found.nats == pytest.approx(expected, rel=1e-9)

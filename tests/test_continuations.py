"""The likelihood of continuations: our own last words, and the same through lm-eval where it is installed."""

import importlib.util
import math
import sys

import pytest
import torch

from refusal import refused
from torsor.interop.continuations import Continuations, for_lm_eval
from torsor.tasks import LastWords
from torsor.text import BytePairRecipe

with_lm_eval = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None, reason="needs lm-eval: pip install 'torsor[eval]'"
)
WORDS = ["cat", "dog", "mouse again", "tiger", "cat", "elephant", "a", "dog dog"]
PASSAGES = [f"the {word} sat on {word}\nand said that {number} times the {word}" for number, word in enumerate(WORDS)]
PAIRS = [(before, f" {word}") for before, _, word in (passage.rpartition(" ") for passage in PASSAGES)]


@pytest.fixture(scope="module")
def tokenizer():
    return BytePairRecipe(entries=290).train(PASSAGES)


class LastTwo:
    """Logits from the last two tokens; the tokens of one passage's last word are made likely."""

    def __init__(self, tokenizer):
        self.tables = torch.randn(2, tokenizer.vocabulary, tokenizer.vocabulary) * 3
        tokens = tokenizer.encode(PASSAGES[3])
        for read, likely in zip(tokens[-6:], tokens[-5:], strict=False):
            self.tables[0, read, likely] = 50.0

    def __call__(self, tokens):
        assert not torch.is_grad_enabled()
        logits = self.tables[0][tokens]
        logits[:, 1:] += self.tables[1][tokens[:, :-1]]
        return logits


@pytest.fixture
def model(tokenizer):
    return LastTwo(tokenizer)


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_on_passages_split_at_their_last_space_it_is_last_words_whatever_the_batch(batch, tokenizer, model):
    words = LastWords(PASSAGES, tokenizer.encode, tokenizer.begin)
    assert max(words.target_tokens) > 1
    own = words.score(model, batch=4)
    found = Continuations(model, tokenizer, batch=batch).scores(PAIRS)
    assert 0 < own.accuracy < 1
    assert [greedy for _, greedy in found].count(True) == own.right.hits
    assert found[3][1]
    assert -math.fsum(nats for nats, _ in found) == pytest.approx(own.nats, rel=1e-12)


def test_a_continuation_that_is_one_token_with_its_context_is_scored_by_itself(tokenizer, model):
    (merged,) = next(pair for pair in map(tokenizer.encode, ("the", "cat", "dog")) if len(pair) == 1)
    word = tokenizer.decode([merged])
    context, rest = word[:1], word[1:]
    ((nats, _), empty) = Continuations(model, tokenizer).scores([(context, rest), (context, "")])
    assert empty == (0.0, True)
    tokens = [tokenizer.begin, *tokenizer.encode(context), *tokenizer.encode(rest)]
    with torch.no_grad():
        likely = model(torch.tensor([tokens]))[0].double().log_softmax(-1)
    own = range(1 + len(tokenizer.encode(context)), len(tokens))
    assert nats == pytest.approx(sum(likely[at - 1, tokens[at]].item() for at in own), rel=1e-12)
    assert nats < -0.1


def test_scores_come_in_the_order_asked_for_and_blanks_before_belong_to_the_continuation(tokenizer, model):
    continuations = Continuations(model, tokenizer, batch=3)
    found = continuations.scores(PAIRS)
    alone = [continuations.scores([pair])[0] for pair in PAIRS]
    assert [greedy for _, greedy in found] == [greedy for _, greedy in alone]
    assert [nats for nats, _ in found] == pytest.approx([nats for nats, _ in alone], rel=1e-12)
    moved = continuations.scores([(f"{before} ", word.lstrip()) for before, word in PAIRS])
    assert moved == found
    whole = continuations.scores([("", PASSAGES[0])])[0][0]
    parts = continuations.scores([("", PAIRS[0][0]), PAIRS[0]])
    assert whole == pytest.approx(parts[0][0] + parts[1][0], rel=1e-12)


@with_lm_eval
def test_through_lm_eval_accuracy_and_perplexity_are_those_of_last_words(tokenizer, model):
    from lm_eval.api.instance import Instance
    from lm_eval.api.metrics import mean, perplexity

    requests = [Instance("loglikelihood", {}, pair, number) for number, pair in enumerate(PAIRS)]
    theirs = for_lm_eval(Continuations(model, tokenizer)).loglikelihood(requests)
    own = LastWords(PASSAGES, tokenizer.encode, tokenizer.begin).score(model)
    assert mean([greedy for _, greedy in theirs]) == own.accuracy
    assert perplexity([nats for nats, _ in theirs]) == pytest.approx(own.perplexity, rel=1e-9)


@with_lm_eval
def test_what_lm_eval_cannot_have_says_so(tokenizer, model):
    adapted = for_lm_eval(Continuations(model, tokenizer))
    for call in (adapted.generate_until, adapted.loglikelihood_rolling):
        with pytest.raises(NotImplementedError, match="lm-eval"):
            call([])


def test_without_the_package_the_line_says_what_to_install(tokenizer, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    monkeypatch.setitem(sys.modules, "lm_eval.api.model", None)
    with pytest.raises(ImportError, match=r"pip install 'torsor\[eval\]'"):
        for_lm_eval(Continuations(model, tokenizer))


def test_a_batch_below_one_is_refused(tokenizer, model):
    with refused("batch must be at least 1, got 0"):
        Continuations(model, tokenizer, batch=0)

"""The laws of generation, over every model that reads one token at a time."""

from itertools import islice

import pytest
import torch
from scipy.stats import chisquare

from refusal import refused
from torsor.generation import Sampling, generate
from torsor.groups import Orthogonal, Unitary
from torsor.models import LSTM, GroupRNN, GroupTransformer, Transformer

RECURRENT = {
    "GroupRNN": lambda: GroupRNN(Orthogonal(4), 7),
    "GroupRNN, complex": lambda: GroupRNN(Unitary(3), 7),
    "LSTM": lambda: LSTM(7, 6),
}
STEPWISE = RECURRENT | {
    "GroupTransformer": lambda: GroupTransformer(Orthogonal(4), 7),
    "Transformer": lambda: Transformer(7, 8),
}
every_model = pytest.mark.parametrize("model", STEPWISE.values(), ids=STEPWISE)
PROMPT = torch.tensor([[0, 3, 1], [6, 6, 2]])


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(model, count: int, sampling: Sampling, seed: int = 0) -> torch.Tensor:
    return torch.stack(list(islice(generate(model, PROMPT, sampling, seeded(seed)), count)), dim=1)


def parallel(model, tokens):
    outputs = model(tokens)
    return outputs[0] if isinstance(outputs, tuple) else outputs


@every_model
@pytest.mark.parametrize("sampling", [Sampling(0.0), Sampling(1.0), Sampling(0.7, top=3)])
def test_each_token_is_drawn_from_the_logits_that_the_parallel_form_gives_for_all_before_it(model, sampling):
    built = model()
    tokens = torch.cat([PROMPT, drawn(built, 12, sampling)], dim=1)
    generator = seeded(0)
    with torch.no_grad():
        for end in range(PROMPT.shape[1], tokens.shape[1]):
            assert torch.equal(sampling.draw(parallel(built, tokens[:, :end])[:, -1], generator), tokens[:, end])


@every_model
def test_the_same_seed_draws_the_same_tokens_and_a_longer_continuation_begins_with_a_shorter_one(model):
    built = model()
    first = drawn(built, 10, Sampling())
    assert torch.equal(drawn(built, 10, Sampling()), first)
    assert torch.equal(drawn(built, 25, Sampling())[:, :10], first)
    assert not torch.equal(drawn(built, 25, Sampling(), seed=1)[:, :10], first)


@pytest.mark.parametrize("model", RECURRENT.values(), ids=RECURRENT)
def test_the_memory_of_a_recurrent_model_does_not_grow_with_the_tokens(model):
    built = model()
    sizes = set()
    sound = built.step

    def watched(tokens, state):
        logits, state = sound(tokens, state)
        parts = state if isinstance(state, tuple) else (state,)
        sizes.add(sum(part.untyped_storage().nbytes() for part in parts))
        return logits, state

    built.step = watched
    drawn(built, 200, Sampling())
    assert len(sizes) == 1


def test_at_a_temperature_of_zero_the_most_probable_token_is_taken_the_first_among_equals():
    logits = torch.tensor([[0.0, 2.0, 2.0], [3.0, 1.0, 3.0]])
    assert Sampling(0.0).draw(logits, seeded(0)).tolist() == [1, 0]


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_draws_follow_the_softmax_of_the_logits_over_the_temperature(temperature):
    logits = torch.tensor([0.3, -1.0, 2.0, 0.0, 1.0])
    draws = Sampling(temperature).draw(logits.expand(20_000, 5), seeded(1))
    expected = (logits / temperature).softmax(0) * 20_000
    assert chisquare(torch.bincount(draws, minlength=5).numpy(), expected.numpy()).pvalue > 1e-3
    wrong = (logits / (1.2 * temperature)).softmax(0) * 20_000
    assert chisquare(torch.bincount(draws, minlength=5).numpy(), wrong.numpy()).pvalue < 1e-3


def test_nothing_outside_the_top_most_probable_tokens_is_drawn():
    logits = torch.tensor([0.3, 0.3, 0.3, -1.0, 0.2]).expand(500, 5)
    assert set(Sampling(top=3).draw(logits, seeded(0)).tolist()) == {0, 1, 2}
    assert len(set(Sampling(top=2).draw(logits, seeded(0)).tolist())) == 2
    assert set(Sampling(top=9).draw(logits, seeded(0)).tolist()) == {0, 1, 2, 3, 4}


def test_nothing_outside_the_nucleus_is_drawn():
    logits = torch.tensor([0.1, 0.4, 0.2, 0.25, 0.05]).log().expand(2000, 5)
    for nucleus, eligible in (
        (0.3, {1}),
        (0.41, {1, 3}),
        (0.84, {1, 3, 2}),
        (0.86, {1, 3, 2, 0}),
        (1.0, set(range(5))),
    ):
        assert set(Sampling(nucleus=nucleus).draw(logits, seeded(0)).tolist()) == eligible
    # at a lower temperature the first token has more, and among the first two it has most
    assert set(Sampling(0.5, nucleus=0.5).draw(logits, seeded(0)).tolist()) == {1}
    assert set(Sampling(top=2, nucleus=0.6).draw(logits, seeded(0)).tolist()) == {1}
    draws = Sampling(nucleus=0.8).draw(logits, seeded(1))
    assert 0.4 / 0.85 - 0.05 < (draws == 1).double().mean() < 0.4 / 0.85 + 0.05


def test_very_large_logits_and_a_very_small_temperature_stay_finite():
    logits = torch.tensor([[1e30, -1e30, 0.0]])
    assert Sampling(1e-30).draw(logits, seeded(0)).tolist() == [0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sampling(-0.1), "temperature must be finite and not negative, got -0.1"),
        (lambda: Sampling(float("nan")), "temperature must be finite and not negative, got nan"),
        (lambda: Sampling(top=0), "top must be at least 1, got 0"),
        (lambda: Sampling(nucleus=0.0), "nucleus must be above 0 and at most 1, got 0.0"),
        (lambda: Sampling(nucleus=1.1), "nucleus must be above 0 and at most 1, got 1.1"),
        (lambda: generate(LSTM(7, 6), PROMPT[:, :0]), r"prompt must have shape \(batch, length\) with at least one"),
        (lambda: generate(LSTM(7, 6), PROMPT[0]), r"prompt must have shape \(batch, length\)"),
    ],
)
def test_what_cannot_be_drawn_is_refused_before_anything_is(make, words):
    with refused(words):
        make()


def test_a_model_that_has_diverged_is_an_arithmetic_error():
    with pytest.raises(ArithmeticError, match="the model has diverged"):
        Sampling().draw(torch.tensor([[float("nan"), 0.0]]), seeded(0))

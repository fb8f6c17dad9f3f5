"""Laws of bits per character, in both protocols."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from refusal import refused
from torsor.tasks import BitsPerCharacter, bits_in_windows, bits_with_state


class Remembers:
    """Logits from the last ``reach`` characters alone, in both ways of calling; exact in float64."""

    def __init__(self, reach: int, classes: int = 5):
        self.reach, self.tables = reach, torch.randn(reach, classes + 1, classes)

    def __call__(self, tokens):
        return self.from_last(tokens, torch.full((len(tokens), self.reach - 1), -1))[0]

    def from_last(self, tokens, state):
        state = torch.full((len(tokens), self.reach - 1), -1) if state is None else state
        seen = torch.cat([state, tokens], dim=1)  # -1, the table's last row, stands for nothing
        length = tokens.shape[1]
        # not a sum over the past alone: a product, so that each character's effect depends on the others
        factors = [self.tables[back][seen[:, self.reach - 1 - back :][:, :length]] for back in range(self.reach)]
        return torch.stack(factors).add(1).prod(0), seen[:, length:]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.cell, self.readout = nn.Embedding(5, 6), nn.GRU(6, 7, batch_first=True), nn.Linear(7, 5)

    def forward(self, tokens, state=None):
        hidden, state = self.cell(self.embedding(tokens), state)
        return self.readout(hidden), state


def one_by_one(logits_of, tokens) -> float:
    """Bits per character, each scored by a call of its own on everything before it."""
    bits = 0.0
    for position in range(1, len(tokens)):
        logits = logits_of(tokens[None, :position])[0, -1].tolist()
        largest = max(logits)
        normalizer = largest + math.log(math.fsum(math.exp(each - largest) for each in logits))
        bits += (normalizer - logits[tokens[position]]) / math.log(2)
    return bits / (len(tokens) - 1)


@given(st.integers(2, 40), st.integers(1, 50))
def test_the_carried_state_equals_a_pass_for_every_character_whatever_the_pieces(length, piece):
    torch.manual_seed(length)
    model, tokens = Recurrent(), torch.randint(5, (length,))
    found = bits_with_state(model, tokens, piece=piece)
    assert found.bits == pytest.approx(one_by_one(lambda seen: model(seen)[0], tokens), rel=1e-12)
    whole = nn.functional.cross_entropy(model(tokens[None, :-1])[0][0], tokens[1:]).item() / math.log(2)
    assert found.bits == pytest.approx(whole, rel=1e-12)


@given(st.integers(2, 60), st.integers(1, 9), st.integers(1, 6), st.data())
def test_windows_score_each_character_as_if_given_all_before_it_where_a_model_sees_no_further(
    length, context, batch, data
):
    torch.manual_seed(length)
    reach = data.draw(st.integers(1, context + 1))
    model, tokens = Remembers(reach), torch.randint(5, (length,))
    found = bits_in_windows(model, tokens, context, batch=batch)
    assert found.bits == pytest.approx(one_by_one(model, tokens), rel=1e-12)


@given(st.integers(12, 60), st.integers(1, 9), st.integers(2, 6), st.data())
def test_streams_score_each_character_as_if_given_all_before_it_where_a_model_sees_no_further(
    length, piece, streams, data
):
    torch.manual_seed(length)
    reach = data.draw(st.integers(1, piece + 1))
    model, tokens = Remembers(reach), torch.randint(5, (length,))
    found = bits_with_state(model.from_last, tokens, piece=piece, streams=streams)
    assert found.bits == pytest.approx(one_by_one(model, tokens), rel=1e-12)


def test_a_model_that_sees_one_character_further_is_scored_differently():
    model, tokens = Remembers(reach=6), torch.randint(5, (60,))
    exact = one_by_one(model, tokens)
    assert bits_with_state(model.from_last, tokens, piece=4).bits == pytest.approx(exact, rel=1e-12)
    assert abs(bits_in_windows(model, tokens, 4).bits - exact) > 1e-4
    assert abs(bits_with_state(model.from_last, tokens, piece=4, streams=3).bits - exact) > 1e-4


class Weighs:
    """Gives each class a probability of its own, whatever is read, and keeps the shapes of what it read."""

    def __init__(self, classes: int):
        self.logits, self.shapes = torch.randn(classes).log_softmax(0), []

    def __call__(self, tokens):
        self.shapes.append(tuple(tokens.shape))
        return self.logits.expand(*tokens.shape, -1)

    def with_state(self, tokens, state):
        assert state is None or state == sum(length for _, length in self.shapes)
        logits = self(tokens)
        return logits, sum(length for _, length in self.shapes)


@given(st.integers(2, 70), st.integers(1, 12), st.integers(1, 5))
def test_every_character_but_the_first_is_scored_exactly_once(length, context, several):
    torch.manual_seed(length)
    tokens = torch.randperm(length)  # each class once: a character more or less would change the sum
    spy = Weighs(length)
    expected = -spy.logits[tokens[1:]].sum().item()
    found = [bits_in_windows(spy, tokens, context, batch=several)]
    assert max(length for _, length in spy.shapes) <= 2 * context
    assert max(size for size, _ in spy.shapes) <= several
    for streams in {1, several} if length > context + 1 else {1}:
        spy.shapes.clear()
        found.append(bits_with_state(spy.with_state, tokens, piece=context, streams=streams))
        assert {size for size, _ in spy.shapes} == {streams}
        assert max(length for _, length in spy.shapes) <= context
    for each in found:
        assert each.characters == length - 1
        assert each.nats == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_a_uniform_model_takes_the_binary_logarithm_of_the_vocabulary_and_the_sum_is_float64(dtype):
    tokens = torch.randint(7, (5000,)).to(dtype)

    def uniform(seen, state=None):
        assert seen.dtype == torch.int64
        return torch.zeros(*seen.shape, 7, dtype=torch.float32), state

    for found in (
        bits_in_windows(lambda seen: uniform(seen)[0], tokens, 16),
        bits_with_state(uniform, tokens),
        bits_with_state(uniform, tokens, streams=4),
    ):
        assert found.bits == pytest.approx(math.log2(7), rel=1e-13)


def test_scoring_keeps_no_graph():
    model, seen = Recurrent(), []

    def watched(tokens, state):
        logits, state = model(tokens, state)
        seen.append(logits.requires_grad or state.requires_grad)
        return logits, state

    bits_with_state(watched, torch.randint(5, (30,)), piece=7)
    bits_in_windows(lambda tokens: watched(tokens, None)[0], torch.randint(5, (30,)), 7)
    assert not any(seen)


def test_bits_are_the_mean_of_nats_over_the_logarithm_of_two_and_say_their_protocol():
    result = BitsPerCharacter(nats=3 * math.log(2), characters=2, protocol="mine")
    assert result.bits == pytest.approx(1.5)
    assert result.to_json() == {
        "bits_per_character": result.bits,
        "nats": result.nats,
        "characters": 2,
        "protocol": "mine",
    }
    tokens, spy = torch.arange(9), Weighs(9)
    assert bits_in_windows(spy, tokens, 4).protocol == "windows of 8 that score their last 4"
    assert bits_with_state(spy.with_state, tokens, piece=9).protocol == (
        "the state carried through one stream, in pieces of 9"
    )
    spy.shapes.clear()
    assert bits_with_state(spy.with_state, tokens, piece=2, streams=3).protocol == (
        "the state carried through 3 streams, 2 unscored characters before each but the first, in pieces of 2"
    )


TEXT = torch.arange(9)


def still(tokens, state):
    return torch.zeros(*tokens.shape, 9), state


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda: bits_with_state(still, TEXT[:1]), r"at least 2 characters, got shape \(1,\)"),
        (lambda: bits_in_windows(lambda x: still(x, 0)[0], TEXT[:0], 4), r"at least 2 characters, got shape \(0,\)"),
        (lambda: bits_with_state(still, TEXT[None]), r"at least 2 characters, got shape \(1, 9\)"),
        (lambda: bits_with_state(still, TEXT, piece=0), "piece must be at least 1, got 0"),
        (lambda: bits_with_state(still, TEXT, streams=0), "streams must be at least 1, got 0"),
        (lambda: bits_with_state(still, TEXT, piece=8, streams=2), r"more than piece \+ 1 = 9 characters, got 9"),
        (lambda: bits_in_windows(lambda x: still(x, 0)[0], TEXT, 0), "context must be at least 1, got 0"),
        (lambda: bits_in_windows(lambda x: still(x, 0)[0], TEXT, 2, batch=0), "batch must be at least 1, got 0"),
        (lambda: bits_in_windows(lambda x: torch.zeros(1, 3, 9), TEXT, 4), r"got \(1, 3, 9\) for \(1, 4\)"),
        (lambda: bits_with_state(lambda x, s: (torch.zeros(1, 8, 5), s), TEXT), "below the 5 classes .*, got 8"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(score, message):
    with refused(message):
        score()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_an_error_and_no_number(value):
    with pytest.raises(FloatingPointError, match="must be finite"):
        bits_in_windows(lambda tokens: torch.full((*tokens.shape, 9), value), TEXT, 4)
    with pytest.raises(FloatingPointError, match="must be finite"):
        bits_with_state(lambda tokens, state: (torch.full((*tokens.shape, 9), value), state), TEXT)

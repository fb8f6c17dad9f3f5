"""The long-lived generator: answers that do not depend on each other, one core for all depths, memory by formula."""

from itertools import islice
from threading import Thread

import pytest
import torch

from cases import looped
from refusal import refused
from torsor.generation import (
    Budget,
    CachedLoop,
    Full,
    Generator,
    LastLoop,
    LogitDivergence,
    LoopedReader,
    Prompts,
    RelativeResidual,
    Request,
    Sampling,
    generate,
)
from torsor.layers.folded_block import FoldedStack
from torsor.models import AlignedValues, parcae_transformer
from torsor.transitions import BlockConformal

POLICIES = {"full": Full(6), "last loop": LastLoop(), "budget": Budget(2)}
every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
WARMTH = Sampling(0.9, top=3, nucleus=0.95)
REQUESTS = [
    Request([2, 0, 1], tokens=6, steps=1, sampling=WARMTH, seed=1),
    Request([1], tokens=5, steps=6, sampling=WARMTH, seed=2, warm=True),
    Request([2, 1, 1, 0, 0, 1], tokens=3, steps=3),
    Request([0, 0], tokens=7, steps=6, sampling=WARMTH, seed=4, rule=LogitDivergence(0.01)),
    Request([0, 1, 2, 1], tokens=7, steps=5, sampling=WARMTH, seed=5, rule=RelativeResidual(0.3)),
    Request([2, 2], tokens=1, steps=2, sampling=WARMTH, seed=6),
]


def model():
    return looped(BlockConformal(16, groups=2), layers=(1, 2, 1), classes=None, value_embeddings=AlignedValues())


def generator(policy, rows=3, capacity=12):
    return Generator(model(), rows=rows, capacity=capacity, policy=policy)


def alone(policy, request):
    """The answer by another way: a batch of one, token by token."""
    cached = CachedLoop(LoopedReader(model()), request.steps, 16, policy, request.rule, request.warm)
    draws = torch.Generator().manual_seed(request.seed)
    drawn = generate(cached, Prompts.of([request.prompt]), request.sampling, draws)
    return [int(token) for token in islice(drawn, request.tokens)]


def test_a_cancelled_answer_whose_numbers_were_not_finite_leaves_nothing_in_its_row():
    def answers(spoiled):
        broken = parcae_transformer(BlockConformal(8, groups=2), vocabulary=6, classes=5, heads=2)
        with torch.no_grad():
            broken.prelude.embedding.weight[5] = torch.nan  # of a token that no answer has
        serving = Generator(broken, rows=2, capacity=32, policy=Full(8))
        if spoiled:
            given_up = serving.submit(Request([5] * 12, tokens=2, steps=8))
            serving.turn()
            serving.turn()
            given_up.cancel()
        later = [serving.submit(Request(prompt, tokens=4, steps=3)) for prompt in ([0, 1], [1, 0] * 6)]
        return [list(answer) for answer in later]

    assert answers(spoiled=True) == answers(spoiled=False)


@every_policy
def test_an_answer_is_the_same_whatever_else_is_in_the_batch_from_however_many_threads(policy):
    wanted = [alone(policy, request) for request in REQUESTS]
    serving = generator(policy, rows=3)
    answers = [serving.submit(request) for request in REQUESTS]
    assert [list(answer) for answer in answers] == wanted

    found = {}

    def ask(number):
        found[number] = list(serving.submit(REQUESTS[number]))

    threads = [Thread(target=ask, args=(number,)) for number in range(len(REQUESTS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [found[number] for number in range(len(REQUESTS))] == wanted


def test_the_memory_that_it_holds_is_the_formula_before_between_and_after_requests():
    serving = generator(Budget(2), rows=3, capacity=12)
    # embedding and readout are one; a table of values in two of four layers, each with a gate of 16 channels
    weights = 3 * 3 * 16 + 2 * 16 * 16 + 4 * (4 + 8) * 16 * 16 + 2 * 2 * 16 + (2 * 4 + 2) * 16
    transition = sum(parameter.numel() for parameter in serving.model.transition.parameters())
    folded = 4 * 7 * 16 * 16 + 2 * 2 * 16
    cache = 2 * 3 * 12 * 16 * (1 + 2 * 2 + 1) + 3 * 16 + 12 * 8
    assert serving.bytes == 8 * (weights + transition + folded + cache)
    answers = [serving.submit(request) for request in REQUESTS]
    while serving.turn():
        assert serving.bytes == 8 * (weights + transition + folded + cache)
    assert all(answer.ended for answer in answers)


def test_a_turn_applies_the_core_once_to_all_requests_at_their_different_loops(monkeypatch):
    serving = generator(Full(6), rows=3)
    sound, tokens = FoldedStack.__call__, []

    def counted(self, x, *rest):
        if self is serving.reader._core:
            tokens.append(len(x))
        return sound(self, x, *rest)

    monkeypatch.setattr(FoldedStack, "__call__", counted)
    shallow, deep = (serving.submit(Request([0], tokens=count, steps=steps)) for count, steps in ((12, 1), (2, 6)))
    late = None
    for turn in range(12):
        serving.turn()
        if turn == 2:
            late = serving.submit(Request([1], tokens=3, steps=2))
    # a token of the shallow one at every turn, the deep one beside it at each of its loops, the late one from turn 3
    assert tokens == [2, 2, 2, 3, 3, 3, 3, 3, 3, 2, 2, 2]
    assert (len(shallow.steps), len(deep.steps), len(late.steps)) == (12, 2, 3)


def test_an_answer_ends_at_a_stop_token_or_when_it_is_cancelled_and_its_row_goes_to_the_next():
    serving = generator(LastLoop(), rows=1)
    request = REQUESTS[0]
    whole = list(serving.submit(request))
    stopping = Request(request.prompt, 6, 1, sampling=WARMTH, seed=1, stop=(whole[2],))
    assert list(serving.submit(stopping)) == whole[: whole.index(whole[2]) + 1]
    given_up, next_one, waiting = serving.submit(REQUESTS[1]), serving.submit(request), serving.submit(request)
    next(given_up)
    serving.turn()
    given_up.cancel()
    waiting.cancel()
    assert list(given_up) == list(waiting) == []
    assert list(next_one) == whole
    assert not serving.turn()


def test_how_many_loops_lie_behind_each_token_is_told_and_a_rule_makes_them_fewer():
    serving = generator(Full(6))
    answer = serving.submit(REQUESTS[3])
    list(answer)
    assert len(answer.steps) == 7
    assert answer.steps[0] == 6
    assert min(answer.steps) < 6


def test_a_model_that_diverges_on_one_prompt_is_an_error_of_that_answer_alone():
    serving = generator(LastLoop(), rows=2)
    wanted = list(serving.submit(REQUESTS[0]))
    (table,) = serving.model.core.tables()
    sound = table.weight[2].clone()
    with torch.no_grad():
        table.weight[2] = float("nan")
    bad, good = (serving.submit(Request([first, 0, 1], tokens=1, steps=1)) for first in (2, 1))
    with pytest.raises(ArithmeticError, match="the model has diverged"):
        next(bad)
    assert len(list(good)) == 1
    with torch.no_grad():
        table.weight[2] = sound
    assert list(serving.submit(REQUESTS[0])) == wanted


def test_a_turn_that_is_interrupted_can_be_made_again(monkeypatch):
    serving = generator(Budget(2))
    answers = [serving.submit(request) for request in REQUESTS]
    sound, calls = LoopedReader.leave, []

    def interrupted(self, wave, **options):
        found = sound(self, wave, **options)
        calls.append(1)
        if len(calls) in {1, 4}:
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(LoopedReader, "leave", interrupted)
    for _ in range(200):
        try:
            if not serving.turn():
                break
        except KeyboardInterrupt:
            continue
    monkeypatch.setattr(LoopedReader, "leave", sound)
    assert len(calls) > 4
    assert [list(answer) for answer in answers] == [alone(Budget(2), request) for request in REQUESTS]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda of: of.submit(Request([0] * 12, tokens=2, steps=1)), "must fit the context of 12 tokens, got 12 and 2"),
        (lambda of: of.submit(Request([0, 3], tokens=2, steps=1)), "tokens must lie in 0 .. 2, got 3"),
        (
            lambda of: of.submit(Request([0], tokens=2, steps=7)),
            "at most the 6 loops that the cache has room for, got 7",
        ),
        (lambda _: Request([], tokens=2, steps=1), "prompt must have at least one token, got none"),
        (lambda _: Request([0], tokens=0, steps=1), "tokens must be a whole number of at least 1, got 0"),
        (lambda _: Request([0], tokens=1.5, steps=1), "tokens must be a whole number of at least 1, got 1.5"),
        (lambda _: Request([0], tokens=1, steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda _: generator(LastLoop(), rows=0), "batch must be at least 1, got 0"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_at_once(make, message):
    serving = generator(Full(6))
    with refused(message):
        make(serving)
    assert not serving.turn()

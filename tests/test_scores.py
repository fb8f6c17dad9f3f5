"""Scores of word problems, against their definitions written as loops."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from refusal import refused
from torsor.groups import symmetric
from torsor.tasks import IGNORED, Proportion, Scores, WordProblem, score

matrices = st.integers(1, 6).flatmap(
    lambda length: st.lists(st.lists(st.booleans(), min_size=length, max_size=length), min_size=1, max_size=8)
)


def scores_of(*rows: str) -> Scores:
    return Scores.of(torch.tensor([[mark == "+" for mark in row] for row in rows]))


def test_scores_of_five_words_by_hand():
    scores = scores_of("++++", "+++-", "++-+", "-+++", "++++")
    assert (scores.words, scores.length) == (5, 4)
    assert scores.joint == Proportion(2, 5)
    assert scores.last == Proportion(4, 5)
    assert scores.conditional == Proportion(2, 3)
    assert scores.token == 17 / 20
    assert scores.curve == (4 / 5, 4 / 5, 3 / 5, 2 / 5)
    assert scores.position == (4 / 5, 5 / 5, 4 / 5, 4 / 5)
    assert scores.mean_first_error == (5 + 4 + 3 + 1 + 5) / 5


@given(matrices)
def test_scores_are_their_definitions(rows):
    scores = Scores.of(torch.tensor(rows))
    words, length = len(rows), len(rows[0])
    joint = sum(all(row) for row in rows)
    before = sum(all(row[:-1]) for row in rows)
    assert scores.joint == Proportion(joint, words)
    assert scores.last == Proportion(sum(row[-1] for row in rows), words)
    assert scores.conditional == (Proportion(joint, before) if before else None)
    assert scores.token == sum(sum(row) for row in rows) / (words * length)
    assert scores.curve == tuple(sum(all(row[:k]) for row in rows) / words for k in range(1, length + 1))
    first_errors = [next((t for t, ok in enumerate(row, 1) if not ok), length + 1) for row in rows]
    assert scores.mean_first_error == pytest.approx(sum(first_errors) / words, abs=1e-12)
    assert scores.mean_first_error == pytest.approx(1 + sum(scores.curve), abs=1e-12)


@given(matrices, st.integers(1, 7))
def test_scores_of_batches_add_up_to_those_of_all_words(rows, cut):
    first, second = rows[:cut], rows[cut:]
    if second:
        assert Scores.of(torch.tensor(first)) + Scores.of(torch.tensor(second)) == Scores.of(torch.tensor(rows))


def test_an_accuracy_on_condition_of_what_never_happened_is_none_and_not_a_number():
    scores = scores_of("-+", "-+")
    assert scores.conditional is None
    assert scores.last.value == 1.0
    written = scores.to_json()
    assert (written["conditional"], written["conditional_interval"], written["conditional_count"]) == (None, None, 0)
    assert scores_of("+-", "-+").conditional == Proportion(0, 1)  # a zero that was seen is another thing


def test_joint_last_and_token_accuracy_differ():
    scores = scores_of("-+", "+-", "++", "-+")
    assert (scores.joint.value, scores.last.value, scores.token) == (1 / 4, 3 / 4, 5 / 8)


def test_what_is_written_is_plain_and_holds_no_nan():
    for scores in (scores_of("-+", "++"), scores_of("--"), scores_of("+")):
        written = scores.to_json()
        assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written == {
        "words": 1,
        "length": 1,
        "joint": 1.0,
        "joint_interval": [pytest.approx(0.025), 1.0],
        "last": 1.0,
        "last_interval": [pytest.approx(0.025), 1.0],
        "conditional": 1.0,
        "conditional_interval": [pytest.approx(0.025), 1.0],
        "conditional_count": 1,
        "token": 1.0,
        "mean_first_error": 2.0,
        "curve": [1.0],
        "position": [1.0],
    }


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize(("hits", "trials"), [(0, 1), (1, 1), (0, 7), (3, 7), (7, 7), (1999, 2000), (5000, 10_000)])
def test_the_interval_is_that_of_clopper_and_pearson(hits, trials, level):
    low, high = Proportion(hits, trials).interval(level)
    oracle = binomtest(hits, trials).proportion_ci(level, method="exact")
    assert (low, high) == pytest.approx((oracle.low, oracle.high), rel=1e-9, abs=1e-12)
    assert 0 <= low <= hits / trials <= high <= 1


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_the_interval_covers_the_true_rate_at_least_as_often_as_it_says(rate):
    trials = 30
    weights = [math.comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in range(trials + 1)]
    intervals = [Proportion(k, trials).interval(0.9) for k in range(trials + 1)]
    assert sum(w for w, (low, high) in zip(weights, intervals, strict=True) if low <= rate <= high) >= 0.9


def logits_for(answers: torch.Tensor, classes: int, dtype=torch.float32) -> torch.Tensor:
    return torch.nn.functional.one_hot(answers, classes).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_answer_is_the_likeliest_class_and_the_begin_token_is_not_scored(dtype):
    targets = torch.tensor([[IGNORED, 2, 0], [IGNORED, 1, 1]])
    answers = torch.tensor([[0, 2, 1], [2, 1, 1]])
    assert score(logits_for(answers, 3, dtype), targets) == scores_of("+-", "++")


def test_right_logits_score_one_and_logits_one_position_late_do_not():
    task = WordProblem(symmetric(3), length=8, alphabet="all")
    targets = task.evaluation(200).targets
    right = logits_for(targets.clamp(min=0), 6)
    assert score(right, targets).joint.value == 1.0
    late = score(right.roll(1, dims=1), targets)
    assert late.joint.value < 0.01
    assert late.token == pytest.approx(1 / 6, abs=0.05)


def test_of_equal_logits_the_smallest_class_is_the_answer():
    assert score(torch.zeros(1, 2, 4), torch.tensor([[0, 1]])) == scores_of("+-")


GOOD = torch.zeros(2, 3, 4)
TARGETS = torch.tensor([[IGNORED, 2, 3], [IGNORED, 1, 0]])


def with_one(value: float) -> torch.Tensor:
    logits = GOOD.clone()
    logits[1, 0, 2] = value
    return logits


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: score(with_one(math.nan), TARGETS), "logits must be finite, got 1 of 24 that are NaN or infinite"),
        (lambda: score(with_one(math.inf), TARGETS), "logits must be finite, got 1 of 24"),
        (lambda: score(with_one(-math.inf), TARGETS), "logits must be finite, got 1 of 24"),
        (lambda: score(GOOD[:, :2], TARGETS), r"logits must have the shape of targets .*\(2, 2, 4\) for \(2, 3\)"),
        (lambda: score(GOOD[..., :3], TARGETS), "targets must be in 0 .. 2, or -100, got 3"),
        (lambda: score(GOOD, TARGETS.clamp(min=-1)), "targets must be in 0 .. 3, or -100, got -1"),
        (lambda: score(GOOD, torch.tensor([[IGNORED, 2, 3], [1, 1, 0]])), "-100 at the same positions of every word"),
        (lambda: score(GOOD, torch.full((2, 3), IGNORED)), "at least one word and one position, got 2 and 0"),
        (lambda: score(GOOD[:0], TARGETS[:0]), "at least one word and one position, got 0 and"),
        (lambda: scores_of("++") + scores_of("+"), "scores to add must be of one length, got 2 and 1"),
        (lambda: Scores(2, (1, 1), (1,)), "right and unbroken must be equally long, got 2 and 1"),
        (lambda: Scores(2, (1, 1), (0, 1)), "unbroken must decrease"),
        (lambda: Scores(2, (1, 1), (2, 1)), "not exceed right"),
        (lambda: Scores(2, (3,), (1,)), "nor right the words"),
        (lambda: Proportion(0, 0), "trials at least 1, got 0 of 0"),
        (lambda: Proportion(3, 2), "hits must be in 0 .. trials .*, got 3 of 2"),
        (lambda: Proportion(1, 2).interval(1.0), "level must be between 0 and 1, got 1.0"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_one_line(build, message):
    with refused(message):
        build()

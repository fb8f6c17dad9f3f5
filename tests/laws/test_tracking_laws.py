"""Laws of the tracking suite: its words, held-out pairs, controls, scores, streams, and what it refuses."""

import inspect
import json
import math
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from torch import nn

from refusal import refused
from torsor.groups import named
from torsor.models import LSTM
from torsor.tasks import Batch, Scores, WordProblem, score
from torsor.tracking import (
    SUITE_GROUPS,
    Chunked,
    HeldOutPairs,
    Stream,
    StreamEvaluation,
    Suite,
    choose_pairs,
    class_mean_subspace,
    contraction,
    error_control,
    evaluate,
    frontier,
    identity_word,
    leads_everywhere,
    order_blind_ceiling,
    order_blind_ceilings,
    over_depth,
    over_time,
    suites,
    word_pieces,
)
from torsor.tracking.ceiling import order_blind_ceiling_reference
from torsor.tracking.pair_choice import least_length
from torsor.tracking.resampling import bootstrap_mean, bootstrap_ratio
from torsor.tracking.spread import ErrorControl
from torsor.tracking.trajectories import Trajectory

the = cache(named)
alphabets = pytest.mark.parametrize("alphabet", ["generators", "all"])


def one_hot(answers: torch.Tensor, classes: int) -> torch.Tensor:
    return nn.functional.one_hot(answers, classes).double()


def tracker(task: WordProblem):
    return lambda tokens: one_hot(task.label(tokens).clamp(min=0), task.classes)


# The suite.


def test_the_documented_names_have_the_documented_faces():
    assert list(inspect.signature(order_blind_ceiling).parameters) == ["group", "length", "alphabet"]
    assert inspect.signature(order_blind_ceiling).parameters["alphabet"].default == "all"
    assert list(inspect.signature(evaluate).parameters) == ["model", "suite", "device"]


def test_there_is_a_suite_for_each_group_and_alphabet():
    orders = dict(zip(SUITE_GROUPS, (2, 6, 60, 6, 8, 8, 12, 24, 24, 60, 120, 36, 60), strict=True))
    for train_length in (16, 128):
        all_of_them = suites(train_length)
        assert len(all_of_them) == 26
        for suite, (name, alphabet) in zip(all_of_them, product(orders, ("all", "generators")), strict=True):
            assert (suite.task.classes, suite.task.alphabet) == (orders[name], alphabet)
            assert suite.lengths == tuple(multiple * train_length for multiple in (1, 2, 4, 16, 64))
            assert suite.stream().length == 1_048_576
            assert suite.stream().task is suite.task
    control = Suite(WordProblem(the("A5"), 8, "all", seed=3)).abelian_control()
    assert (control.task.group.name, control.task.length, control.task.seed) == ("C60", 8, 3)


# Words.


@alphabets
@pytest.mark.parametrize("piece", [1, 2, 7, 64, 500])
def test_the_pieces_joined_are_the_evaluation_words_of_the_task(alphabet, piece):
    task = WordProblem(the("S4"), length=10, alphabet=alphabet, seed=2**63 + 5)
    for words, length in ((1, 1), (70, 100)):
        pieces = list(word_pieces(task, words, length, piece))
        expected = task.evaluation(words, length)
        assert torch.equal(torch.cat([each.tokens for each in pieces], 1), expected.tokens)
        assert torch.equal(torch.cat([each.targets for each in pieces], 1), expected.targets)
        assert all(each.tokens.shape[1] <= piece for each in pieces)


def test_a_piece_is_all_that_is_held_whatever_the_length():
    largest = max(each.tokens.numel() for each in word_pieces(WordProblem(the("S3"), 5), 3, 40_000, piece=128))
    assert largest == 3 * 128


# Held-out pairs.

S3_PAIRS = HeldOutPairs(WordProblem(the("S3"), length=12, alphabet="all"), pairs=((1, 2), (4, 1), (5, 3)), forced=2)
PAIRED = [
    S3_PAIRS,
    HeldOutPairs(WordProblem(the("S3xS3"), length=9), ((0, 1),)),
    HeldOutPairs(task := WordProblem(the("S4"), length=31, alphabet="all"), choose_pairs(task), forced=10),
]
every_pairing = pytest.mark.parametrize("task", PAIRED)


def pairs_in(batch: Batch) -> list[set[tuple[int, int]]]:
    return [set(pairwise(word[1:])) for word in batch.tokens.tolist()]


@every_pairing
def test_no_training_word_holds_a_held_out_pair_and_every_evaluation_word_does(task):
    held_out = set(task.pairs)
    for batch in (task.batch(0, 300), task.batch(7, 90, length=40), task.familiar(300), task.familiar(20, 200)):
        assert not any(found & held_out for found in pairs_in(batch))
    for batch in (task.evaluation(300), task.evaluation(30, 100)):
        assert all(len(found & held_out) >= task.forced for found in pairs_in(batch))
    forced = pairs_in(task.evaluation(len(task.pairs)))
    assert set.union(*forced) >= held_out  # each in its turn
    assert all(task.pairs[word] in found for word, found in enumerate(forced))


@every_pairing
def test_targets_of_words_with_and_without_the_pairs_are_their_products(task):
    for batch in (task.batch(3, 50), task.familiar(50), task.evaluation(50)):
        assert torch.equal(task.task.label(batch.tokens), batch.targets)


@every_pairing
def test_a_smaller_batch_of_held_out_pairs_holds_the_first_words_of_a_larger_one(task):
    for some, more in (
        (task.batch(3, 5), task.batch(3, 100)),
        (task.familiar(5), task.familiar(100)),
        (task.evaluation(5), task.evaluation(100)),
    ):
        assert torch.equal(some.tokens, more.tokens[:5])
    assert not torch.equal(task.batch(3, 100).tokens, task.batch(4, 100).tokens)
    assert not torch.equal(task.batch(0, 100).tokens, task.familiar(100).tokens)


def test_the_letter_after_another_is_uniform_over_those_that_may_follow_it():
    tokens = S3_PAIRS.batch(0, 4000).tokens[:, 1:]
    counts = torch.zeros(6, 6)
    counts.index_put_((tokens[:, :-1].flatten(), tokens[:, 1:].flatten()), torch.tensor(1.0), accumulate=True)
    shares = counts / counts.sum(-1, keepdim=True)
    for before, after in product(range(6), range(6)):
        followers = 6 - sum(pair[0] == before for pair in S3_PAIRS.pairs)
        expected = 0 if (before, after) in S3_PAIRS.pairs else 1 / followers
        assert shares[before, after] == pytest.approx(expected, abs=0.015)


@pytest.mark.parametrize("length", [5, 6])
def test_forced_pairs_come_up_everywhere_in_the_word(length):
    task = HeldOutPairs(WordProblem(the("S3"), length=length, alphabet="all"), pairs=((1, 2),))
    tokens = task.evaluation(2000).tokens[:, 1:]
    places = ((tokens[:, :-1] == 1) & (tokens[:, 1:] == 2)).double().mean(0)
    at_all = 1 / 36  # by chance
    slots = (0, 1, 2, 3) if length == 5 else (0, 2, 4)  # the letter that is left over stands first or last
    for slot in range(length - 1):
        assert places[slot] == pytest.approx(at_all + (slot in slots) / len(slots), abs=0.06)


def reached_by_hand(task: WordProblem, pairs) -> tuple[bool, int | None]:
    """Whether every state is reached from everywhere, and the least length that meets all, by walking words."""
    letters, table = task.letters, task.group.table

    def reached(nodes):
        while True:
            more = nodes | {
                (y, int(table[q, letters[y]])) for x, q in nodes for y in range(len(letters)) if (x, y) not in pairs
            }
            if more == nodes:
                return {q for _, q in nodes}
            nodes = more

    level = {(x, letter) for x, letter in enumerate(letters)}
    met, seen, length = {q for _, q in level}, set(level), 1
    while len(met) < task.classes:
        level = {
            (y, int(table[q, letters[y]])) for x, q in level for y in range(len(letters)) if (x, y) not in pairs
        } - seen
        if not level:
            length = None
            break
        seen, met, length = seen | level, met | {q for _, q in level}, length + 1
    starts = {(x, letter) for x, letter in enumerate(letters)}
    everywhere, waiting = set(starts), list(starts)
    while waiting:
        x, q = waiting.pop()
        new = {(y, int(table[q, letters[y]])) for y in range(len(letters)) if (x, y) not in pairs} - everywhere
        everywhere |= new
        waiting += new
    dead = any(all((x, y) in pairs for y in range(len(letters))) for x in range(len(letters)))
    return not dead and all(len(reached({node})) == task.classes for node in everywhere), length


@pytest.mark.parametrize(
    ("name", "alphabet", "pairs"),
    [
        ("S3", "generators", ((0, 1),)),  # a word ends in repetitions of one letter
        ("S3", "generators", ((0, 0),)),
        ("S3", "generators", ((0, 1), (1, 0))),
        ("S3", "generators", ((0, 1), (0, 0))),  # nothing may follow the first letter
        ("S3", "all", ((1, 2), (4, 1))),
        ("S3", "all", tuple((a, b) for a in (1, 2, 5) for b in range(6))),
        ("S3", "all", tuple((a, b) for a in (1, 2, 5) for b in (1, 2, 5))),
        ("S3", "all", tuple((a, b) for a in (0, 3, 4) for b in (1, 2, 5))),  # no reflection after a turn
        ("C6", "generators", ()),
        ("S3xS3", "generators", ((0, 1),)),
        ("S3xS3", "generators", ((0, 1), (1, 0), (2, 3), (3, 2))),
        ("A4xZ5", "generators", ((0, 1),)),
        ("A4xZ5", "generators", ((0, 1), (1, 0))),
        ("A4xZ5", "generators", ((0, 2), (1, 2))),  # the last letter only at the beginning
    ],
)
def test_every_state_is_reached_from_everywhere_or_the_pairs_are_refused(name, alphabet, pairs):
    task = WordProblem(the(name), length=60, alphabet=alphabet)
    everywhere, length = reached_by_hand(task, pairs)
    assert leads_everywhere(task, pairs) == everywhere
    assert least_length(task, pairs) == length
    if pairs and everywhere:
        assert HeldOutPairs(task, pairs).batch(0, 1).tokens.shape == (1, 61)
    elif pairs:
        with refused(f"must lead from everywhere to every state of {task.group.name}, got {len(pairs)} pairs"):
            HeldOutPairs(task, pairs)


def test_chosen_pairs_do_not_commute_and_depend_on_task_share_and_seed_alone():
    for name, alphabet, share in (("A5", "all", 0.05), ("S3xS3", "generators", 0.1), ("D4", "all", 0.1)):
        task = WordProblem(the(name), length=16, alphabet=alphabet)
        pairs = choose_pairs(task, share, seed=4)
        assert pairs == choose_pairs(WordProblem(the(name), length=99, alphabet=alphabet, seed=8), share, seed=4)
        assert len(set(pairs)) == len(pairs) == max(1, round(share * len(task.letters) ** 2))
        for a, b in pairs:
            x, y = task.letters[a], task.letters[b]
            assert task.group.compose(x, y) != task.group.compose(y, x)
    assert choose_pairs(WordProblem(the("A5"), 16, "all"), seed=1) != choose_pairs(WordProblem(the("A5"), 16, "all"))
    commuting = choose_pairs(WordProblem(the("C60"), 16, "all"), 0.02, commuting=True)
    assert len(commuting) == 72


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: choose_pairs(WordProblem(the("C6"), 8, "all")),
            "at least 2 pairs that do not commute, got 0 among 6 of C6",
        ),
        (
            lambda: choose_pairs(WordProblem(the("S3"), 8)),
            "must lead everywhere, got no such choice among 2 letters of S3",
        ),
        (lambda: choose_pairs(WordProblem(the("S3"), 8), share=1.0), "share must be between 0 and 1, got 1.0"),
        (lambda: HeldOutPairs(S3_PAIRS.task, ()), r"pairs must be one or more, each once, got \(\)"),
        (lambda: HeldOutPairs(S3_PAIRS.task, ((1, 2), (1, 2))), "pairs must be one or more, each once"),
        (lambda: HeldOutPairs(S3_PAIRS.task, ((1, 6),)), r"two letters in 0 .. 5, got \(1, 6\)"),
        (lambda: HeldOutPairs(S3_PAIRS.task, ((1, 2),), forced=2), "at most the number of pairs, 1, and half .* got 2"),
        (
            lambda: HeldOutPairs(S3_PAIRS.task, S3_PAIRS.pairs, forced=0),
            "forced must be an integer of at least 1, got 0",
        ),
        (lambda: HeldOutPairs(WordProblem(the("S3"), 1, "all"), ((1, 2),)), "length must be at least 2 where a pair"),
        (lambda: HeldOutPairs(WordProblem(the("S3xS3"), 2), ((0, 1),)), "length must be at least . .* got 2"),
        (lambda: S3_PAIRS.batch(-1, 2), "update must be an integer in 0 .. 2\\*\\*64 - 1, got -1"),
        (lambda: S3_PAIRS.evaluation(2, length=3), "half of the length, 1, got 2"),
    ],
)
def test_pairs_that_cannot_be_held_out_are_refused_in_one_line(call, message):
    with refused(message):
        call()


# Controls.


@alphabets
@pytest.mark.parametrize(("name", "longest"), [("S3", 5), ("Q8", 4), ("D4", 4), ("A4", 3), ("A4xZ5", 3), ("C6", 4)])
def test_the_exact_ceiling_is_the_mean_over_all_words(name, longest, alphabet):
    for length in range(1, longest + 1 + 4 * (alphabet == "generators")):
        if len(the(name).generators if alphabet == "generators" else range(the(name).order)) ** length > 30_000:
            break
        value, kind = order_blind_ceiling(the(name), length, alphabet)
        assert kind == "exact"
        assert value == pytest.approx(order_blind_ceiling_reference(the(name), length, alphabet), abs=1e-12)


@alphabets
@pytest.mark.parametrize("name", ["S3", "Q8", "SL(2,3)", "A5", "S5", "S3xS3"])
def test_the_ceiling_decreases_to_one_in_the_commutator_subgroup_and_the_bound_is_above_it(name, alphabet):
    group = the(name)
    share = 1 / len(group.commutator_subgroup())
    lengths = [1, 2, 3, 4, 6, 8, 12, 20, 64, 8192]
    ceilings = order_blind_ceilings(group, lengths, alphabet)
    values = [value for value, _ in ceilings]
    assert values[0] == pytest.approx(1)
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(values))
    assert values[-1] == pytest.approx(share, abs=0.06 * share)
    assert min(values) > share - 1e-12
    kinds = [kind for _, kind in ceilings]
    assert kinds[0] == "exact"
    assert kinds == sorted(kinds, reverse=True)  # exact up to some length
    for length, (value, kind) in zip(lengths, ceilings, strict=True):
        if alphabet == "all" and length >= 3 and kind == "exact":
            assert value <= share + (1 - share) * math.sqrt((length + 3) / 2 ** (length + 1)) + 1e-12


def test_a_bound_is_not_below_the_exact_number(monkeypatch):
    lengths = (2, 3, 5, 8, 12)
    for name in ("S3", "Q8", "A4"):
        exact = order_blind_ceilings(the(name), lengths)
        monkeypatch.setattr("torsor.tracking.ceiling._MOST_WORK", 20_000 if name == "A4" else 3_000)
        bounds = order_blind_ceilings(the(name), lengths)
        monkeypatch.undo()
        assert any(kind == "bound" for _, kind in bounds)
        for (value, kind), (bound, how) in zip(exact, bounds, strict=True):
            if kind == "exact":
                assert bound >= value - 1e-12
                assert how == "bound" or bound == pytest.approx(value)


def test_in_a_commutative_group_the_ceiling_is_one_exactly():
    for name in ("C2", "C60"):
        for alphabet in ("all", "generators"):
            assert order_blind_ceiling(the(name), 8192, alphabet) == (1.0, "exact")
    with refused("length must be an integer of at least 1, got 0"):
        order_blind_ceiling(the("S3"), 0)
    with refused("alphabet must be 'generators' or 'all', got 'letters'"):
        order_blind_ceiling(the("S3"), 4, "letters")


# Frontiers and intervals.


def test_the_frontier_is_the_longest_beginning_with_enough_right_answers_everywhere():
    def scores(*right):
        return Scores(100, right, (0,) * len(right))

    assert frontier(scores(100, 90, 75, 74, 100), 0.75).value == 3
    assert frontier(scores(100, 90, 75, 74, 100), 0.90).value == 2
    assert frontier(scores(10, 90, 75), 0.75).value == 0
    assert frontier(scores(99, 99), 0.75).value == 2
    found = frontier(scores(100, 95, 85, 76, 70, 40, 20), 0.75)
    assert (found.low, found.value, found.high) == (3, 4, 5)
    with refused("threshold must be between 0 and 1, got 1"):
        frontier(scores(1), 1.0)


def test_the_interval_of_a_frontier_covers_the_frontier_of_other_words():
    rng = np.random.default_rng(0)
    accuracy = np.concatenate([np.full(6, 0.97), np.linspace(0.9, 0.2, 14)])
    true = int(np.argmin(accuracy >= 0.75))
    kept = [frontier(Scores(60, tuple(rng.binomial(60, accuracy).tolist()), (0,) * 20), 0.75) for _ in range(300)]
    assert sum(found.low <= true <= found.high for found in kept) >= 0.95 * 300
    assert any(found.value != true for found in kept)


def test_a_bootstrap_interval_covers_a_ratio_over_words_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        rates = rng.beta(2, 2, size=80)  # answers of a word depend on each other through its rate
        trials = rng.integers(1, 30, size=80)
        found = bootstrap_ratio(rng.binomial(trials, rates), trials)
        covered += found.low <= 0.5 <= found.high
    assert 85 <= covered <= 100
    assert bootstrap_ratio(np.array([1, 0]), np.array([2, 0])).value == 0.5
    assert bootstrap_mean(np.full(9, 0.25)).to_json() == {
        "value": 0.25,
        "low": 0.25,
        "high": 0.25,
        "words": 9,
        "level": 0.95,
    }
    assert bootstrap_mean(np.array([0.3])).low == 0.3
    with refused("trials must be positive for at least one word, got none"):
        bootstrap_ratio(np.zeros(3), np.zeros(3))


# Evaluation.


@alphabets
@pytest.mark.parametrize("name", ["C2", "S3", "A5"])
def test_a_model_that_answers_the_states_scores_one_at_every_length(name, alphabet):
    suite = Suite(WordProblem(the(name), length=6, alphabet=alphabet), multiples=(1, 2, 8), words=30)
    evaluation = evaluate(tracker(suite.task), suite)
    assert [entry.length for entry in evaluation.lengths] == [6, 12, 48]
    for entry in evaluation.lengths:
        assert entry.scores.joint.value == entry.scores.token == 1
        assert {each.value for each in entry.frontiers} == {entry.length}
        assert all(each.scores.joint.value == 1 for each in entry.quotients)
        assert entry.stage is None
        assert entry.chance == 1 / suite.task.classes
    assert evaluation.to_json() == json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert f"{suite.task.group.name}, alphabet {alphabet}, trained at length 6" in str(evaluation)


def test_the_words_are_those_of_evaluation_and_the_scores_those_of_score():
    suite = Suite(
        WordProblem(the("A4"), length=5, alphabet="all", seed=7), multiples=(1, 3), words=40, tokens_at_once=50
    )
    given = []

    def model(tokens):
        given.append(tokens.clone())
        generator = torch.Generator().manual_seed(int(tokens.sum()))
        return torch.randn(*tokens.shape, 12, generator=generator)

    evaluation = evaluate(model, suite)
    for entry in evaluation.lengths:
        batch = suite.task.evaluation(40, entry.length)
        read = [tokens for tokens in given if tokens.shape[1] == entry.length + 1]
        assert torch.equal(torch.cat(read), batch.tokens)
        assert all(tokens.numel() <= 50 for tokens in read)
        assert entry.scores == score(torch.cat([model(tokens) for tokens in read]), batch.targets)
        assert entry.ceiling == order_blind_ceiling(suite.task.group, entry.length)
        assert len(entry.scores.to_json()["joint_interval"]) == 2
        assert entry.token.value == pytest.approx(entry.scores.token)
        assert entry.token.low < entry.token.value < entry.token.high


def test_how_many_words_are_read_at_once_changes_nothing():
    task = WordProblem(the("S3"), length=8)
    model = LSTM(7, hidden=6).double()
    one, other = (evaluate(model, Suite(task, (1, 2), 33, tokens_at_once=n)) for n in (1, 10_000))
    assert one == other


def test_a_module_is_asked_in_evaluation_mode_and_goes_back_to_its_own():
    class Dropping(nn.Module):
        def forward(self, tokens):
            answers = one_hot(task.label(tokens).clamp(min=0), 6)
            return nn.functional.dropout(answers, 0.9, self.training), "a state"

        def step(self, tokens, state):
            return torch.zeros(*tokens.shape, 6), self.training

    task = WordProblem(the("S3"), length=8, alphabet="all")
    for training in (True, False):
        module = Dropping().train(training)
        assert evaluate(module, Suite(task, (1,), 20)).lengths[0].scores.joint.value == 1
        assert module.training == training

        def fails(tokens, module=module):
            raise KeyError

        with pytest.raises(KeyError):
            evaluate(fails, Suite(task, (1,), 20))
        assert module.training == training


def test_an_output_beyond_the_elements_is_a_wrong_answer_in_no_coset():
    task = WordProblem(the("S3"), length=30, alphabet="all")

    def model(tokens):
        logits = one_hot(task.label(tokens).clamp(min=0), 7)
        logits[..., 6] = 2.0 * (torch.arange(tokens.shape[1]) > 5)
        return logits

    (entry,) = evaluate(model, Suite(task, (1,), 20)).lengths
    assert entry.frontiers[0].value == entry.quotients[0].frontier.value == 5
    assert entry.quotients[0].scores.token == pytest.approx(5 / 30)
    assert entry.quotients[0].exact_given_coset is None
    assert entry.stage.outside == entry.stage.errors == 20 * 20


def test_a_model_that_has_not_seen_the_pairs_is_examined_with_them_and_without():
    held_out = HeldOutPairs(WordProblem(the("S3"), length=12, alphabet="all"), ((1, 2),))

    def model(tokens):  # goes wrong, and stays so, once it meets the pair
        met = torch.zeros(tokens.shape, dtype=torch.bool)
        met[:, 1:] = ((tokens[:, :-1] == 1) & (tokens[:, 1:] == 2)).cumsum(1) > 0
        right = held_out.task.label(tokens).clamp(min=0)
        return one_hot(torch.where(met, (right + 1) % 6, right), 6)

    suite = Suite(held_out.task, multiples=(1, 4), words=50, held_out=held_out)
    for entry in evaluate(model, suite).lengths:
        assert entry.familiar.joint.value == 1
        assert entry.forced.joint.value == 0
        assert 0 < entry.scores.joint.value < 1
    other = HeldOutPairs(WordProblem(the("S3"), length=13, alphabet="all"), ((1, 2),))
    with refused("held_out must be of the suite's word problem, S3 of length 12 in 6 letters, got S3 of length 13"):
        Suite(held_out.task, held_out=other)


TASK = WordProblem(the("S3"), length=8, alphabet="all")
SUITE = Suite(TASK, multiples=(1, 2), words=10)


def spoiled(value):
    def model(tokens):
        logits = torch.zeros(*tokens.shape, 6)
        logits[-1, 3, 2] = value
        return logits

    return model


def mutating(tokens):
    tokens[0, 1] = 0
    return torch.zeros(*tokens.shape, 6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            nn.Embedding(6, 6),
            "tokens 0 .. 6, 6 letters and the token that begins a word; it seems to know fewer, got index out of range",
        ),
        (
            lambda tokens: nn.functional.one_hot(tokens, 6).double(),
            "must read the tokens 0 .. 6, .*, got Class values must",
        ),
        (
            lambda tokens: torch.zeros(4, 6)[tokens.cumsum(1) * 0 + torch.arange(tokens.shape[1])],
            "words of 9 tokens, got index 4",
        ),
        (lambda tokens: torch.zeros(*tokens.shape, 5), "must tell the 6 elements of the group apart, got 5 outputs"),
        (lambda tokens: torch.zeros(len(tokens), 8, 6), r"for each of the tokens, \(10, 9, 6\), got \(10, 8, 6\)"),
        (lambda tokens: torch.zeros(*tokens.shape), r"for each of the tokens, \(10, 9, 6\), got \(10, 9\)"),
        (lambda tokens: tokens.tolist(), "must return logits, got a list"),
        (spoiled(math.nan), "logits must be finite, got 1 of 540 that are NaN or infinite"),
        (spoiled(math.inf), "logits must be finite, got 1 of 540"),
        (spoiled(-math.inf), "logits must be finite, got 1 of 540"),
        (mutating, "must not change its input, got tokens that it has written to"),
        (Chunked(lambda tokens, state: (tokens, state)), "callable of tokens alone for a Suite, got Chunked"),
    ],
)
def test_a_model_that_does_not_answer_is_refused_in_one_line(model, message):
    with refused(message):
        evaluate(model, SUITE)


def test_large_finite_logits_are_not_mistaken_for_infinite_ones():
    evaluate(lambda tokens: torch.full((*tokens.shape, 6), 1e308), SUITE)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Suite(TASK, multiples=(2, 1)), r"multiples must ascend from at least 1, got \(2, 1\)"),
        (lambda: Suite(TASK, multiples=()), "multiples must ascend"),
        (lambda: Suite(TASK, words=1), "words must be an integer of at least 2, got 1"),
        (lambda: Suite(TASK, tokens_at_once=0), "tokens_at_once must be an integer of at least 1, got 0"),
        (lambda: suites(8), "train_length must be in 16 .. 128, got 8"),
        (lambda: Stream(TASK, words=0), "words must be an integer of at least 1, got 0"),
        (lambda: Chunked(lambda t, s: (t, s), length=0), "length must be an integer of at least 1, got 0"),
        (lambda: StreamEvaluation(8, (None,)).unbroken(9), "position must be in 0 .. 8, got 9"),
        (lambda: next(word_pieces(TASK, 3, piece=0)), "piece must be an integer of at least 1, got 0"),
    ],
)
def test_an_inadmissible_suite_is_refused_in_one_line(call, message):
    with refused(message):
        call()


# Streams.


class Walker:
    """Reads on from the state; word ``i`` answers wrongly at one position, and it records what it was given."""

    def __init__(self, task, words, wrong=(), state=lambda q, count: (q, [count])):
        self.task, self.state = task, state
        self.wrong = torch.full((words,), 10**9)
        for word, position in wrong:
            self.wrong[word] = position
        self.rows = []
        self.table = torch.tensor(task.group.table.copy()).long()

    def read(self, tokens, state):
        self.rows.append(tuple(tokens.shape))
        if state is None:
            state = torch.zeros(len(tokens), 1).long(), [torch.stack([torch.zeros_like(self.wrong), self.wrong], 1)]
        q, (count,) = state
        answers = []
        for column in tokens.unbind(1):
            moved = self.table[q[:, 0], column.clamp(max=self.task.begin - 1)]
            q = torch.where(column == self.task.begin, q[:, 0], moved)[:, None]
            answers.append((q[:, 0] + (count[:, 0] >= count[:, 1])) % self.task.classes)
            count = torch.stack([count[:, 0] + 1, count[:, 1]], 1)
        return one_hot(torch.stack(answers, 1), self.task.classes), self.state(q, count)

    def step(self, tokens, state):
        outputs, state = self.read(tokens[:, None], state)
        return outputs[:, 0], state


WRONG = ((0, 1), (2, 16), (3, 17), (5, 300), (6, 999))
ERRORS = (1, None, 16, 17, None, 300, 999)


@pytest.mark.parametrize("length", [1, 7, 16, 17, 256, 2000])
def test_every_word_is_followed_to_its_first_error_whatever_the_chunk(length):
    found = evaluate(Chunked(Walker(TASK, 7, WRONG).read, length), Stream(TASK, 1000, 7))
    assert found.first_errors == ERRORS
    assert [found.unbroken(position).hits for position in (0, 1, 15, 16, 17, 300, 999, 1000)] == [
        7,
        6,
        6,
        5,
        4,
        3,
        2,
        2,
    ]
    assert found.frontier == 0
    assert (found.joint.hits, found.joint.trials) == (2, 7)
    assert found.positions == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
    assert found.to_json() == json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert "2 of 7 words without an error in 1000 tokens" in str(found)


def test_a_step_of_one_token_is_followed_as_a_chunk_of_many_is():
    walker = Walker(TASK, 7, WRONG)
    assert evaluate(walker.step, Stream(TASK, 1000, 7)).first_errors == ERRORS
    assert {shape[1] for shape in walker.rows} == {1}


def test_a_word_that_has_gone_wrong_is_not_read_on_and_the_others_are():
    walker = Walker(TASK, 7, WRONG)
    evaluate(Chunked(walker.read, 16), Stream(TASK, 1100, 7))
    words = [rows for rows, _ in walker.rows]
    assert words[:3] == [7, 6, 4]
    assert words[-1] == 2
    assert words == sorted(words, reverse=True)
    assert sum(length for _, length in walker.rows) == 1101
    everyone_wrong = Walker(TASK, 7, [(word, 40) for word in range(7)])
    found = evaluate(Chunked(everyone_wrong.read, 16), Stream(TASK, 1000, 7))
    assert found.first_errors == (40,) * 7
    assert len(everyone_wrong.rows) == 3  # and nothing is read when nobody is left


def test_a_state_that_cannot_be_parted_by_words_is_read_whole_and_gives_the_same():
    class Opaque:
        def __init__(self, q, count):
            self.parts = (q, [count])

        def __iter__(self):
            return iter(self.parts)

    walker = Walker(TASK, 7, WRONG, state=Opaque)
    assert evaluate(Chunked(walker.read, 16), Stream(TASK, 1000, 7)).first_errors == ERRORS
    assert {rows for rows, _ in walker.rows} == {7}


def test_a_state_whose_words_stand_second_as_in_torchs_own_modules_is_left_whole():
    # as many words as layers: the first axis would pass for the words
    walker = Walker(
        TASK, 2, [(0, 5)], state=lambda q, count: torch.stack([torch.cat([q, count], 1), 0 * torch.cat([q, count], 1)])
    )

    def read(tokens, state):
        return walker.read(tokens, None if state is None else (state[0, :, :1], [state[0, :, 1:]]))

    assert evaluate(Chunked(read, 4), Stream(TASK, 200, 2)).first_errors == (5, None)
    assert {rows for rows, _ in walker.rows} == {2}


def test_the_models_of_the_library_stream_by_forward_and_by_step_alike():
    model = LSTM(7, hidden=8, seed=3).double()
    batch = TASK.evaluation(40, 60)
    answers = model(batch.tokens)[0].argmax(-1)
    expected = tuple(int(row[1:].int().argmax()) + 1 if row[1:].any() else None for row in answers != batch.targets)
    for reader in (Chunked(model, 8), model.step):
        assert evaluate(reader, Stream(TASK, 60, 40)).first_errors == expected


def limited(places, chunk=False):
    """Reads on as far as it has places."""

    def step(tokens, state):
        state = tokens.shape[1] - 1 if chunk and state is None else 0 if state is None else state + tokens[0].numel()
        return torch.zeros(places + 1, 6)[state].expand(*tokens.shape, 6), state

    return step


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda tokens, state: torch.zeros(3, 6), r"must return a pair \(outputs, state\), got a Tensor"),
        (lambda tokens, state: (torch.zeros(3, 5), None), "must tell the 6 elements of the group apart, got 5 outputs"),
        (lambda tokens, state: (torch.zeros(2, 6), None), r"for each of the tokens, \(3, 21, 6\), got \(2, 21, 6\)"),
        (lambda tokens, state: (torch.full((3, 6), math.nan), None), "logits must be finite, got 378 of 378"),
        (lambda tokens, state: (torch.zeros(3, 6) + 0 * tokens.fill_(0)[:, None], None), "must not change its input"),
        (lambda tokens, state: (nn.functional.embedding(tokens, torch.eye(6)), None), "must read the tokens 0 .. 6"),
        (limited(8), "must read words of 21 tokens, got index 9"),
        (Chunked(limited(0, chunk=True), 1), "must read 1 tokens more of a word, got index 1"),
        (
            Chunked(lambda tokens, state: (nn.functional.embedding(tokens, torch.eye(6)), 0), 4),
            "must read the tokens 0 .. 6",
        ),
        (Chunked(lambda tokens, state: (torch.zeros(3, 2, 6), None), 4), r"for each of the tokens, \(3, 4, 6\), got"),
    ],
)
def test_a_step_that_does_not_answer_is_refused_in_one_line(model, message):
    with refused(message):
        evaluate(model, Stream(TASK, 20, 3))


# Error control.


def planted(horizons, displacement, seed=0, count=600, classes=4, width=9):
    """States at orthogonal means of length 2 in a frame, moved along a random direction of their span."""
    generator = torch.Generator().manual_seed(seed)
    frame = torch.linalg.qr(torch.randn(width, width, generator=generator)).Q
    labels = torch.arange(count) % classes
    means = 2 * torch.eye(classes, width)
    away = torch.randn(count, classes, generator=generator)
    away -= away.mean(-1, keepdim=True)  # in the span of the differences
    away = nn.functional.pad(away / away.norm(dim=-1, keepdim=True), (0, width - classes))
    states = torch.stack([(means[labels] + displacement(t) * away) @ frame for t in horizons])
    return Trajectory(tuple(horizons), states, labels.expand(len(horizons), -1)), frame


def numbers(control: ErrorControl) -> list[float]:
    return [*control.ratio, *control.accuracy, control.growth, control.predicted]


HORIZONS = (1, 2, 4, 8, 16, 32, 64)


def test_states_at_their_class_means_have_no_spread_and_are_all_read_rightly():
    control = error_control(planted(HORIZONS, lambda t: 0.0)[0], 4)
    assert max(control.spread) < 1e-12
    assert control.distance == pytest.approx([math.sqrt(8)] * 7)
    assert control.accuracy == (1.0,) * 7
    assert control.measured is None
    assert json.loads(json.dumps(control.to_json(), allow_nan=False))["formula"] == control.formula


@pytest.mark.parametrize(("drift", "power"), [(0.02, 1.0), (0.05, 1.0), (0.1, 0.5)])
def test_a_drift_grows_with_exponent_one_and_crosses_at_tau_m_over_eta(drift, power):
    trajectory, _ = planted(HORIZONS, lambda t: drift * t**power)
    control = error_control(trajectory, 4, fit_until=16)
    assert control.growth == pytest.approx(power, abs=0.05)
    expected = (0.5 * math.sqrt(8) / drift) ** (1 / power)
    assert control.predicted == pytest.approx(expected, rel=0.25)
    assert control.displacement == pytest.approx([drift * t**power for t in HORIZONS], rel=0.1)


def test_the_growth_is_fitted_up_to_the_horizon_that_is_asked_for():
    trajectory, _ = planted(HORIZONS, lambda t: 0.02 * min(t, 8))
    assert error_control(trajectory, 4, fit_until=8).growth == pytest.approx(1, abs=0.05)
    assert error_control(trajectory, 4).growth < 0.8


def test_a_random_walk_grows_with_exponent_one_half():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(2000) % 3
    steps = 0.1 * torch.randn(64, 2000, 3, generator=generator)
    states = (2 * torch.eye(3)[labels] + steps.cumsum(0))[torch.tensor(HORIZONS) - 1]
    control = error_control(Trajectory(HORIZONS, states, labels.expand(7, -1)), 3)
    assert control.growth == pytest.approx(0.5, abs=0.05)
    assert control.ratio[-1] == pytest.approx(8 * control.ratio[0], rel=0.1)
    # two of the three directions are in the span of the differences
    assert control.spread[-1] == pytest.approx(0.1 * 8 * math.sqrt(2), rel=0.05)


def test_the_predicted_crossing_is_near_the_measured_failure():
    horizons = tuple(range(5, 100, 5))
    control = error_control(planted(horizons, lambda t: 0.04 * t)[0], 4, fit_until=20)
    assert control.measured is not None
    assert control.predicted == pytest.approx(control.measured, rel=0.5)
    assert control.accuracy[0] == 1 > 0.75 > control.accuracy[-1]
    assert f"failure seen at {control.measured}" in str(control)


def test_what_happens_outside_the_span_of_the_means_changes_nothing():
    trajectory, frame = planted(HORIZONS, lambda t: 0.02 * t)
    outside = torch.randn(7, 600, 1) * frame[8] * 50
    moved = Trajectory(HORIZONS, trajectory.states + outside - outside.mean(1, keepdim=True), trajectory.labels)
    # the means themselves are moved a little by it, since they are means of states
    balanced = Trajectory(
        HORIZONS,
        torch.cat([trajectory.states + outside, trajectory.states - outside], 1),
        trajectory.labels.repeat(1, 2),
    )
    assert numbers(error_control(balanced, 4)) == pytest.approx(numbers(error_control(trajectory, 4)), rel=2e-3)
    assert numbers(error_control(moved, 4)) != pytest.approx(numbers(error_control(trajectory, 4)), rel=2e-3)


def test_a_rotation_a_shift_and_a_scale_of_all_states_change_neither_ratio_nor_crossing():
    trajectory, _ = planted(HORIZONS, lambda t: 0.02 * t)
    turn = torch.linalg.qr(torch.randn(9, 9)).Q
    other = Trajectory(HORIZONS, 3 * trajectory.states @ turn + torch.randn(9), trajectory.labels)
    assert numbers(error_control(other, 4)) == pytest.approx(numbers(error_control(trajectory, 4)), rel=1e-9)


def test_a_drift_that_all_words_share_is_no_spread_and_is_seen_as_displacement():
    labels = torch.arange(90) % 3
    states = torch.stack([2 * torch.eye(3)[labels] + 0.1 * t * torch.tensor([1.0, -1, 0]) for t in HORIZONS])
    control = error_control(Trajectory(HORIZONS, states, labels.expand(7, -1)), 3)
    assert max(control.spread) < 1e-12
    assert control.displacement[-1] == pytest.approx(0.1 * 63 * math.sqrt(2))
    assert control.measured is not None


def test_an_affine_return_map_that_fixes_the_class_means_corrects_nothing():
    torch.manual_seed(0)
    labels = torch.arange(400) % 5
    states = torch.randn(5, 8)[labels] + 0.01 * torch.randn(400, 8)
    subspace = class_mean_subspace(states, labels, 5, dimensions=4)
    centre = subspace.means.mean(0)
    inside = subspace.basis @ subspace.basis.T
    outside = torch.randn(8, 8) @ (torch.eye(8) - inside)  # whatever it does elsewhere

    def affine(h):
        return centre + (h - centre) @ (inside + outside).T

    assert torch.allclose(affine(subspace.means), subspace.means, atol=1e-12)
    for size in (1e-3, 0.5):
        factor = contraction(affine, states, subspace, size=size)
        assert factor.inside.value == pytest.approx(1, abs=1e-9)
        assert factor.inside.low == pytest.approx(factor.inside.high)
    # what leaks out of the span is in the whole alone
    leaking = inside + (torch.eye(8) - inside) @ torch.randn(8, 8) @ inside
    factor = contraction(lambda h: h @ leaking.T, states, subspace, size=0.5)
    assert factor.inside.value == pytest.approx(1, abs=1e-9)
    assert factor.whole.low > 1.1


def test_a_map_that_returns_to_the_nearest_mean_corrects_everything_and_a_scale_its_own_factor():
    torch.manual_seed(0)
    labels = torch.arange(400) % 5
    means = 4 * torch.eye(5, 8)
    states = means[labels] + 0.01 * torch.randn(400, 8)
    subspace = class_mean_subspace(states, labels, 5)
    nearest = contraction(lambda h: means[torch.cdist(h, means).argmin(-1)], states, subspace, size=0.5)
    assert nearest.inside.value == nearest.whole.value == 0
    for scale in (-0.5, 2.0):
        scaled = contraction(lambda h, scale=scale: scale * h, states, subspace, size=0.1)
        assert scaled.inside.value == pytest.approx(abs(scale))
        assert scaled.whole.value == pytest.approx(abs(scale))
    json.dumps(nearest.to_json(), allow_nan=False)
    with refused("size must be positive, got 0"):
        contraction(lambda h: h, states, subspace, size=0)
    with refused(r"carry must return states of shape \(400, 8\), got \(400, 5\)"):
        contraction(lambda h: h[:, :5], states, subspace, size=0.1)
    with refused(r"states must have the width 8 of the subspace, got \(400, 5\)"):
        contraction(lambda h: h, states[:, :5], subspace, size=0.1)


def test_the_identity_word_repeats_a_letter_until_nothing_is_left():
    task = WordProblem(the("S4"), length=4)
    for letter, element in enumerate(task.letters):
        word = identity_word(task, letter)
        product, seen = 0, []
        for token in word:
            product = task.group.compose(product, task.letters[token])
            seen.append(product)
        assert seen.index(0) == len(word) - 1
        assert set(word) == {letter}
        assert element == seen[0]
    with refused("letter must be in 0 .. 1, got 2"):
        identity_word(task, 2)


def test_states_over_time_are_those_at_the_horizons_whatever_the_chunk():
    task = WordProblem(the("S3"), length=8, alphabet="all")
    torch.manual_seed(0)
    gru = nn.GRU(7, 5, batch_first=True)

    def read(tokens, state):
        return gru(one_hot(tokens, 7), state)

    def step(tokens, state):
        outputs, state = read(tokens[:, None], state)
        return outputs[:, 0], state

    batch = task.evaluation(30, 40)
    everything = gru(one_hot(batch.tokens, 7))[0]
    for model in (Chunked(read, 3), Chunked(read, 100), step):
        trajectory = over_time(model, task, (4, 9, 40), words=30)
        assert torch.allclose(trajectory.states, everything[:, [4, 9, 40]].transpose(0, 1), atol=1e-12)
        assert torch.equal(trajectory.labels, batch.targets[:, [4, 9, 40]].T)
    wide = over_time(Chunked(read, 7), task, (4, 9, 40), words=30, window=3)
    assert torch.allclose(wide.states[1], everything[:, [7, 8, 9]].flatten(0, 1), atol=1e-12)
    assert torch.equal(wide.labels[1], batch.targets[:, [7, 8, 9]].flatten())


def test_a_tracker_of_one_hot_states_never_fails_over_time_and_a_leaking_one_does():
    task = WordProblem(the("S3"), length=8, alphabet="all")
    table = torch.tensor(task.group.table.copy()).long()
    generator = torch.Generator().manual_seed(0)

    def carried(noise):
        def step(tokens, state):
            if state is None:
                return torch.eye(6)[torch.zeros(len(tokens)).long()], torch.eye(6)[torch.zeros(len(tokens)).long()]
            moved = torch.zeros_like(state).scatter(1, table[:, tokens].T, state)
            moved = moved + noise * torch.randn(state.shape, generator=generator)
            return moved, moved

        return step

    kept = error_control(over_time(carried(0.0), task, (4, 16, 64, 256), words=200), 6)
    assert kept.accuracy == (1.0,) * 4
    assert kept.ratio[-1] < 1e-12
    lost = error_control(over_time(carried(0.05), task, (4, 16, 64, 256), words=200), 6)
    assert lost.growth == pytest.approx(0.5, abs=0.1)
    assert lost.accuracy[0] > 0.95 > 0.75 > lost.accuracy[-1]


def test_states_over_depth_are_those_of_the_last_position_after_each_number_of_loops():
    task = WordProblem(the("S3"), length=8, alphabet="all")

    def states_of(tokens, steps):
        exact = one_hot(task.label(tokens).clamp(min=0), 6)
        return exact * (1 - 0.5**steps)

    trajectory = over_depth(states_of, task, (1, 2, 3, 8), words=100)
    batch = task.evaluation(100)
    assert torch.allclose(trajectory.states[2], 0.875 * one_hot(batch.targets[:, -1], 6))
    assert torch.equal(trajectory.labels[3], batch.targets[:, -1])
    control = error_control(trajectory, 6, reference=8)
    assert control.distance == pytest.approx([math.sqrt(2) * (1 - 0.5**steps) for steps in (1, 2, 3, 8)])
    assert control.accuracy[-1] == 1
    assert control.growth < 0  # it draws nearer to where a decoder knows it
    assert control.predicted == math.inf


GOOD = planted((1, 2), lambda t: 0.1)[0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: error_control(GOOD, 5), r"every one of 5 classes must occur at every horizon, got \[4, 4\]"),
        (lambda: error_control(GOOD, 3), "labels must be in 0 .. 2, got 3"),
        (lambda: error_control(GOOD, 4, reference=3), r"reference must be one of the horizons \[1, 2\], got 3"),
        (lambda: error_control(GOOD, 4, threshold=0.0), "threshold must be positive, got 0.0"),
        (lambda: error_control(Trajectory((1, 2), GOOD.states * math.inf, GOOD.labels), 4), "states must be finite"),
        (
            lambda: error_control(Trajectory((1, 2), 0 * GOOD.states, GOOD.labels), 4),
            "must differ, got one mean for all",
        ),
        (lambda: Trajectory((2, 1), GOOD.states, GOOD.labels), r"horizons must ascend from at least 1, got \[2, 1\]"),
        (lambda: Trajectory((1, 2, 3), GOOD.states, GOOD.labels), "must be of 3 horizons and one count"),
        (lambda: over_time(lambda t, s: (t, s), TASK, (4, 8), window=5), "at least window = 5 apart and from 0"),
        (lambda: over_time(lambda t, s: (t, s), TASK, (4, 8), words=3), "must return a vector for each of the tokens"),
        (lambda: over_depth(lambda t, n: t, TASK, (4, 8), words=3), "must return a vector for each of the tokens"),
    ],
)
def test_states_that_cannot_be_measured_are_refused_in_one_line(call, message):
    with refused(message):
        call()

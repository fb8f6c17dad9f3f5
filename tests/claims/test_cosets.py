"""Tracking states or tracking cosets: what the paper says of errors, shown on predictors that are planted."""

import json
import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch

from cases import GROUPS
from refusal import refused
from torsor.groups import FiniteGroup, named
from torsor.tasks import IGNORED, WordProblem, score
from torsor.tracking import (
    StageTracker,
    Suite,
    blind_partition,
    class_mean_subspace,
    class_means,
    continuation_agreement,
    coset_fit,
    evaluate,
    linear_probe,
    lumpability,
    mean_rows,
    nearest_means,
    quotient_probes,
    reorder_sensitivity,
    support_partition,
    swap_agreement,
    within_class,
)

the = cache(named)
small_groups = pytest.mark.parametrize("name", ["S3", "D4", "Q8", "A4", "S4", "C6"])


def proper(group: FiniteGroup) -> list[tuple[int, ...]]:
    return [subgroup for subgroup in group.subgroups() if 1 < len(subgroup) < group.order]


PLANTED = [(name, number) for name in ("S4", "A5") for number in range(len(proper(the(name))))]
every_planted = pytest.mark.parametrize(("name", "number"), PLANTED)


def planted(group, subgroup, side="right", count=6000, noise=0.0, seed=0):
    """Uniform states, and answers that are uniform in their cosets, but for some that are uniform in the group."""
    rng = np.random.default_rng(seed)
    states = rng.integers(group.order, size=count)
    inside = rng.choice(np.array(subgroup), size=count)
    answers = group.table[inside, states] if side == "right" else group.table[states, inside]
    lost = rng.random(count) < noise
    answers = np.where(lost, rng.integers(group.order, size=count), answers)
    return torch.tensor(answers)[None], torch.tensor(states)[None]


def found(answers, states, group, **arguments):
    fit = coset_fit(answers, states, group, **arguments)
    return (fit.stage.subgroup, fit.stage.side) if fit.stage else None


@every_planted
def test_answers_uniform_in_the_cosets_of_a_subgroup_have_that_stage_on_the_right_side(name, number):
    group = the(name)
    subgroup = proper(group)[number]
    fit = coset_fit(*planted(group, subgroup), group)
    assert (fit.stage.subgroup, fit.stage.side) == (subgroup, "right")
    assert fit.stage.normal == group.is_normal(subgroup)
    assert fit.gap > 0.2
    assert fit.stage.right_share == 1
    assert fit.stage.distance < 0.1
    assert fit.reason is None


@every_planted
def test_left_cosets_of_a_subgroup_that_is_not_normal_are_told_from_right_ones(name, number):
    group = the(name)
    subgroup = proper(group)[number]
    side = "right" if group.is_normal(subgroup) else "left"  # of a normal one they are the same
    assert found(*planted(group, subgroup, side="left"), group) == (subgroup, side)


@every_planted
def test_five_in_a_hundred_answers_at_random_do_not_hide_the_stage(name, number):
    group = the(name)
    subgroup = proper(group)[number]
    for seed in range(2):
        assert found(*planted(group, subgroup, noise=0.05, seed=seed), group) == (subgroup, "right")


@every_planted
def test_half_of_the_answers_at_random_do(name, number):
    group = the(name)
    assert found(*planted(group, proper(group)[number], noise=0.5), group) is None


@pytest.mark.parametrize("name", [name for name in GROUPS if "one element" not in name])
def test_at_most_one_subgroup_of_a_side_is_nearer_than_a_quarter(name):
    # two laws of different subgroups are more than one half apart, so no third is within a quarter of both
    group = GROUPS[name]()
    laws = []
    for subgroup in group.subgroups()[1:]:
        law = np.zeros(group.order)
        law[list(subgroup[1:])] = 1 / (len(subgroup) - 1)
        laws.append(law)
    assert all(abs(one - other).sum() / 2 > 0.5 for one, other in combinations(laws, 2))


@pytest.mark.parametrize("name", ["S4", "A5", "SL(2,3)"])
def test_the_share_on_the_other_side_is_what_the_conjugacy_classes_predict(name):
    group = the(name)
    inverse = group.inverse(np.arange(group.order))
    for subgroup in proper(group):
        # every error of the law once: h q for each state q and each h in H but e
        inside = np.array(subgroup[1:])
        answers = group.table[inside].ravel()
        states = np.tile(np.arange(group.order), len(inside))
        within = np.isin(group.table[inverse[states], answers], subgroup).mean()
        fit = coset_fit(torch.tensor(answers)[None], torch.tensor(states)[None], group, fewest_errors=1)
        mine = next(each for each in fit.fits if each.subgroup == subgroup and each.side == "right")
        assert mine.predicted_other_share == pytest.approx(within, abs=1e-12)
        assert mine.left_share == pytest.approx(within, abs=1e-12)
        assert (mine.predicted_other_share > 1 - 1e-12) == group.is_normal(subgroup)


def test_one_product_of_transpositions_is_not_taken_for_the_four_group_that_it_fills_on_the_left():
    group = the("S4")
    double = group.index((1, 0, 3, 2))
    four = next(normal for normal in group.normal_subgroups() if len(normal) == 4)
    assert double in four
    assert found(*planted(group, (0, double)), group) == ((0, double), "right")
    assert found(*planted(group, four), group) == (four, "right")


def test_answers_at_chance_right_answers_and_sets_that_are_no_cosets_have_no_stage():
    group = the("S4")
    answers, states = planted(group, tuple(range(24)))
    fit = coset_fit(answers, states, group)
    assert fit.stage is None
    assert fit.fits[0].order == 24  # the whole group is nearest
    assert fit.reason == "the answers are at chance"
    assert coset_fit(states, states, group).reason == "too few errors, 0 of at least 100"
    for some in ((0, 1, 2), (0, 3, 9, 11), (0, 1, 2, 3, 4, 6)):
        assert not group.is_subgroup(some)
        assert found(*planted(group, some), group) is None


def test_an_accuracy_of_one_in_the_order_of_a_subgroup_proves_nothing():
    group = the("S4")
    rng = np.random.default_rng(0)
    states = rng.integers(24, size=8000)
    answers = np.where(rng.random(8000) < 0.25, states, rng.integers(24, size=8000))
    fit = coset_fit(torch.tensor(answers)[None], torch.tensor(states)[None], group)
    assert 0.2 < fit.accuracy < 0.35
    assert fit.stage is None
    # nor do errors that fill a subgroup, where the accuracy is another
    answers, states = planted(group, group.commutator_subgroup(), count=12_000)
    every_second_right = torch.where(torch.arange(12_000)[None] % 2 > 0, states, answers)
    fit = coset_fit(every_second_right, states, group)
    assert fit.fits[0].subgroup == group.commutator_subgroup()
    assert fit.stage is None
    assert fit.reason.startswith("the accuracy is 6.")


def test_with_too_few_errors_there_is_no_stage_and_the_reason_says_so():
    group = the("A5")
    two = proper(group)[0]
    one_error = coset_fit(torch.tensor([[two[1]] + [0] * 9]), torch.zeros(1, 10).long(), group)
    assert one_error.fits[0].distance == 0  # a single error fills a subgroup of order two
    assert (one_error.stage, one_error.reason) == (None, "too few errors, 1 of at least 100")
    twelve = proper(group)[-1]
    assert len(twelve) == 12
    few = coset_fit(*planted(group, twelve, count=900), group)
    assert few.stage is None
    assert few.reason == f"too few errors, {few.errors} of the 4400 that order 12 asks for"
    enough = coset_fit(*planted(group, twelve, count=4900), group)
    assert enough.stage.subgroup == twelve
    assert "no stage" in str(few)
    assert "order 12 (right cosets)" in str(enough)


def test_an_answer_beyond_the_elements_is_an_error_outside_every_coset():
    group = the("S3")
    answers, states = planted(group, (0, 3, 4))
    beyond = torch.where(torch.arange(6000)[None] % 2 > 0, torch.tensor(6), answers)
    fit = coset_fit(beyond, states, group)
    assert fit.outside == 3000
    assert all(each.distance > 0.3 for each in fit.fits)
    assert fit.stage is None
    json.dumps(fit.to_json(), allow_nan=False)


def test_the_stage_test_looks_at_the_scored_positions_of_its_window_alone():
    group = the("S4")
    subgroup = proper(group)[0]
    answers, states = (each.view(-1, 50).clone() for each in planted(group, subgroup, count=10_000))
    answers[:, :25] = 0
    states[:, 40:] = IGNORED
    assert found(answers, states, group) is None
    fit = coset_fit(answers, states, group, window=slice(25, None))
    assert fit.stage.subgroup == subgroup
    assert fit.scored == 200 * 15


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, q, g: coset_fit(a[:, :5], q, g), "answers and targets must have one shape, got"),
        (lambda a, q, g: coset_fit(a, q + 20, g), "targets must be elements of S3, or -100, got"),
        (lambda a, q, g: coset_fit(a - 9, q, g), "answers must be classes from 0, got -"),
        (lambda a, q, g: coset_fit(a, q, g, window=slice(9000, None)), "at least one scored position in the window"),
        (lambda a, q, g: coset_fit(a, q, g, tolerance=0.3), "tolerance must be above 0 and at most 0.25, got 0.3"),
        (lambda a, q, g: coset_fit(a, q, g, fewest_errors=0), "fewest_errors must be at least 1, got 0"),
    ],
)
def test_what_cannot_be_fitted_is_refused_in_one_line(call, message):
    group = the("S3")
    answers, states = planted(group, (0, 3, 4))
    with refused(message):
        call(answers, states, group)


def coset_model(task: WordProblem, subgroup, side="right"):
    """Logits that are uniform in the coset of the state: the least a model that knows it can say."""
    index = torch.tensor(task.group.coset_index(subgroup, side).copy())

    def model(tokens):
        states = task.label(tokens).clamp(min=0)
        return torch.where(index[states][..., None] == index, 0.0, -30.0)

    return model


@pytest.mark.parametrize("name", ["A4", "S4", "SL(2,3)"])
def test_on_a_plateau_the_exact_accuracy_is_the_quotient_accuracy_over_the_class_size(name):
    task = WordProblem(the(name), length=24, alphabet="all")
    commutators = task.group.commutator_subgroup()
    (entry,) = evaluate(coset_model(task, commutators), Suite(task, multiples=(1,), words=400)).lengths
    assert entry.abelian.subgroup == commutators
    assert entry.abelian.scores.token == 1
    assert entry.abelian.frontier.value == 24
    # ties go to the smallest class, which is the state of one word in f
    assert entry.scores.token == pytest.approx(1 / len(commutators), abs=0.02)
    conditional = entry.abelian.exact_given_coset
    assert conditional.low <= 1 / len(commutators) <= conditional.high
    assert (entry.stage.stage.subgroup, entry.stage.stage.normal) == (commutators, True)


def test_a_predictor_that_is_blind_to_order_knows_the_cosets_of_the_commutator_subgroup_and_no_more():
    task = WordProblem(the("S4"), length=40, alphabet="all")

    def sorted_product(tokens):
        length = tokens.shape[1]
        answers = torch.zeros(tokens.shape).long()
        for position in range(1, length):
            letters = tokens[:, 1 : position + 1].sort(-1).values
            answers[:, position] = task.label(torch.cat([tokens[:, :1], letters], 1))[:, -1]
        return torch.nn.functional.one_hot(answers, 24).double()

    batch = task.evaluation(250)
    answers = sorted_product(batch.tokens).argmax(-1)
    fit = coset_fit(answers, batch.targets, task.group, window=slice(16, None))
    assert fit.stage.subgroup == task.group.commutator_subgroup()
    assert score(sorted_product(batch.tokens)[:, 16:], batch.targets[:, 16:]).token == pytest.approx(1 / 12, abs=0.02)
    assert (
        max(reorder_sensitivity(sorted_product, task, (4, 16), words=50).divergence, key=lambda d: d.value).value == 0
    )


# The blind partition.


def rows_of(group, subgroup, side, sharpness=1.0):
    index = group.coset_index(subgroup, side)
    inside = (index[:, None] == index[None]) / len(subgroup)
    return torch.tensor(sharpness * inside + (1 - sharpness) / group.order)


@small_groups
@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_that_depend_on_the_coset_alone_are_parted_into_these_cosets(name, side):
    group = the(name)
    for subgroup in group.subgroups():
        partition = blind_partition(rows_of(group, subgroup, side, 0.9), group)
        assert partition.blocks == group.cosets(subgroup, side)
        assert partition.subgroup == subgroup
        assert partition.side == ("both" if group.is_normal(subgroup) else side)
        assert support_partition(rows_of(group, subgroup, side), group) == partition


def test_blocks_that_are_no_cosets_have_no_side():
    group = the("S4")
    rows = torch.eye(24)
    rows[[0, 1, 2]] = rows[[0, 1, 2]].mean(0)
    partition = blind_partition(rows, group)
    assert (partition.subgroup, partition.side) == (None, None)
    rows = torch.eye(24)
    rows[[5, 6]] = rows[[5, 6]].mean(0)  # the identity is alone, and its cosets are not these
    partition = blind_partition(rows, group)
    assert (partition.subgroup, partition.side) == ((0,), None)
    json.dumps(partition.to_json())


def test_states_are_linked_below_the_threshold_and_not_above_it():
    group = the("S3")
    for apart, blocks in ((0.14, 5), (0.16, 6)):
        rows = torch.eye(6)
        rows[5] = (1 - apart) * rows[4] + apart * rows[5]
        assert len(blind_partition(rows, group).blocks) == blocks
    assert len(blind_partition(rows, group, threshold=0.17).blocks) == 5


def test_a_chain_of_links_is_one_block():
    group = the("C6")
    # each row shares nine tenths with its neighbours, and nothing with the farthest
    rows = torch.stack(
        [torch.linspace(0, 0.5, 6)[k] * torch.eye(6)[0] + (1 - 0.1 * k) * torch.eye(6)[1] for k in range(6)]
    )
    rows = rows / rows.sum(-1, keepdim=True)
    assert len(blind_partition(rows, group).blocks) == 1
    assert len(blind_partition(rows, group, threshold=0.01).blocks) == 6


def test_mean_rows_are_the_mean_outputs_of_each_true_state():
    task = WordProblem(the("S3"), length=20, alphabet="all")
    batch = task.evaluation(60)
    logits = torch.randn(60, 21, 6)
    rows = mean_rows(logits, batch.targets, task.group)
    for state in range(6):
        assert torch.allclose(rows[state], logits.softmax(-1)[batch.targets == state].mean(0), atol=1e-12)
    partition = blind_partition(
        mean_rows(coset_model(task, (0, 1))(batch.tokens), batch.targets, task.group), task.group
    )
    assert (partition.subgroup, partition.side) == ((0, 1), "right")
    with refused("every state of S3 must occur, got . of 6 that never do"):
        mean_rows(logits[:, :2], batch.targets[:, :2].clamp(max=2), task.group)
    with refused("rows must be one for each of 6 elements, got shape"):
        blind_partition(torch.eye(5), task.group)


# Inside the classes.


def outputs(group, count=40, length=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(group.order, (count, length), generator=generator)
    return 3 * torch.randn(count, length, group.order, generator=generator), targets


@small_groups
def test_divergence_lies_between_none_and_all_bits_and_the_gain_is_at_most_all(name):
    group = the(name)
    logits, targets = outputs(group)
    for subgroup in group.subgroups():
        inside = within_class(logits, targets, group, subgroup)
        bits = math.log2(len(subgroup))
        assert -1e-12 <= inside.divergence.value <= bits + 1e-12
        assert inside.gain.value <= bits + 1e-12
        assert 0 < inside.mass.value <= 1 + 1e-12
        index = group.coset_index(subgroup, "right")
        by_hand = [0.0, 0.0, 0.0]
        for row, q in zip(logits.view(-1, group.order), targets.view(-1).tolist(), strict=True):
            members = [g for g in range(group.order) if index[g] == index[q]]
            mass = row.softmax(-1)[members].sum()
            p = row.softmax(-1)[members] / mass
            by_hand[0] += bits + (p * p.log2()).sum() if len(members) > 1 else 0
            by_hand[1] += bits + (row.softmax(-1)[q] / mass).log2()
            by_hand[2] += mass
        expected = [float(total) / targets.numel() for total in by_hand]
        assert [inside.divergence.value, inside.gain.value, inside.mass.value] == pytest.approx(expected, abs=1e-10)


def test_outputs_uniform_in_the_coset_have_neither_divergence_nor_gain_whatever_they_say_outside():
    group = the("S4")
    logits, targets = outputs(group)
    for subgroup in proper(group):
        index = torch.tensor(group.coset_index(subgroup, "right").copy())
        flat = torch.where(index[targets][..., None] == index, 1.5, logits)
        inside = within_class(flat, targets, group, subgroup)
        assert inside.divergence.value == pytest.approx(0, abs=1e-12)
        assert inside.gain.value == pytest.approx(0, abs=1e-12)
        assert inside.mass.value < 0.9


def test_outputs_sure_of_the_truth_have_all_bits_and_outputs_sure_of_another_a_negative_gain():
    group = the("A4")
    subgroup = group.commutator_subgroup()
    _, targets = outputs(group)
    sure = 40 * torch.nn.functional.one_hot(targets, 12).double()
    inside = within_class(sure, targets, group, subgroup)
    assert (inside.divergence.value, inside.gain.value) == (pytest.approx(2), pytest.approx(2))
    other = torch.tensor(group.table[subgroup[1]])[targets].long()
    wrong = within_class(40 * torch.nn.functional.one_hot(other, 12).double(), targets, group, subgroup)
    assert wrong.divergence.value == pytest.approx(2)
    assert wrong.gain.value < -40


def test_outputs_calibrated_inside_the_coset_gain_what_they_diverge():
    group = the("S4")
    subgroup = group.commutator_subgroup()
    logits, _ = outputs(group, count=3000)
    targets = torch.distributions.Categorical(logits=logits).sample()
    inside = within_class(logits, targets, group, subgroup)
    assert inside.gain.low <= inside.divergence.value <= inside.gain.high
    assert inside.divergence.value > 1


# Order.


def tracker(task: WordProblem):
    def model(tokens):
        return 50 * torch.nn.functional.one_hot(task.label(tokens).clamp(min=0), task.classes).double()

    return model


def test_a_model_that_tracks_the_state_diverges_on_the_words_whose_state_the_shuffling_moves():
    task = WordProblem(the("S4"), length=16, alphabet="all")
    sensitivity = reorder_sensitivity(tracker(task), task, words=100)
    assert sensitivity.positions == (1, 2, 4, 8, 16)
    assert [each.value for each in sensitivity.divergence] == pytest.approx(list(sensitivity.moved), abs=1e-9)
    assert sensitivity.moved[0] == 0 < 0.5 < sensitivity.moved[-1]
    json.dumps(sensitivity.to_json(), allow_nan=False)


def test_a_model_that_counts_letters_does_not_diverge_at_all():
    task = WordProblem(the("S4"), length=16, alphabet="all")

    def counting(tokens):
        return torch.nn.functional.one_hot(tokens, task.vocabulary).cumsum(1).double()

    assert max(each.value for each in reorder_sensitivity(counting, task, words=20).divergence) < 1e-15
    with refused("positions must be in 1 .. 16, the task's length, got 17"):
        reorder_sensitivity(counting, task, (17,))


# Stages in training.


def test_a_stage_lasts_when_it_is_seen_without_a_break_for_long_enough():
    group = the("A5")
    twelve, three = proper(group)[-1], next(subgroup for subgroup in proper(group) if len(subgroup) == 3)
    tracker = StageTracker(group)
    for update, subgroup in [(0, None), (100, twelve), (300, twelve), (400, twelve), (500, three), (799, three)]:
        answers, states = planted(group, subgroup or tuple(range(60)), seed=update)
        fit = tracker.observe(update, answers, states)
        assert (fit.stage.subgroup if fit.stage else None) == subgroup
    assert [(stage.subgroup, stage.first, stage.last) for stage in tracker.stages] == [(twelve, 100, 400)]
    tracker.observe(800, *planted(group, three))
    assert [(stage.subgroup, stage.first, stage.last) for stage in tracker.stages][1:] == [(three, 500, 800)]
    json.dumps(tracker.to_json())


def test_a_break_begins_a_stage_anew():
    group = the("S4")
    subgroup = proper(group)[0]
    tracker = StageTracker(group, updates=100)
    for update in (0, 99, 150, 200):
        seen = tuple(range(24)) if update == 150 else subgroup
        tracker.observe(update, *planted(group, seen))
    assert tracker.stages == ()
    with refused("update must be larger than that of the last observation, 200, got 200"):
        tracker.observe(200, *planted(group, subgroup))
    with refused("updates must be an integer of at least 1, got 0"):
        StageTracker(group, updates=0)


# Lumpability.


@small_groups
def test_right_cosets_are_lumpable_and_left_cosets_only_of_normal_subgroups(name):
    group = the(name)
    task = WordProblem(group, length=400)
    batch = task.evaluation(20)
    states = batch.targets.clamp(min=0)
    for subgroup in group.subgroups():
        for side in ("right", "left"):
            labels = torch.tensor(group.coset_index(subgroup, side).copy()).long()[states]
            lumped = lumpability(labels[:, 1:], batch.tokens[:, 1:])
            assert (lumped.defect == 0) == (side == "right" or group.is_normal(subgroup))
            assert 0 <= lumped.defect <= lumped.chance
    json.dumps(lumped.to_json())


def test_a_clustering_of_learned_states_is_lumpable_where_it_is_that_of_cosets():
    group = the("S4")
    task = WordProblem(group, length=200)
    batch = task.evaluation(40)
    generator = torch.Generator().manual_seed(0)
    subgroup = proper(group)[3]
    for side, lumpable in (("right", True), ("left", False)):
        index = torch.tensor(group.coset_index(subgroup, side).copy()).long()
        cosets = index[batch.targets[:, 1:]]
        codes = torch.randn(24 // len(subgroup), 16, generator=generator)
        states = codes[cosets] + 0.05 * torch.randn(*cosets.shape, 16, generator=generator)
        means = class_means(states.flatten(0, 1), cosets.flatten(), len(codes))
        labels = nearest_means(states, means)
        assert torch.equal(labels, cosets)
        assert (lumpability(labels, batch.tokens[:, 1:]).defect == 0) == lumpable
    noise = torch.randint(4, labels.shape, generator=generator)
    lumped = lumpability(noise, batch.tokens[:, 1:])
    assert lumped.defect == pytest.approx(0.75, abs=0.03)
    assert lumped.defect <= lumped.chance


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: lumpability(torch.zeros(2, 3).long(), torch.zeros(2, 4).long()),
            "labels and tokens must have one shape",
        ),
        (lambda: lumpability(torch.zeros(2, 1).long(), torch.zeros(2, 1).long()), "at least one word of two positions"),
        (lambda: lumpability(torch.full((2, 3), -1), torch.zeros(2, 3).long()), "labels must be in .*, got -1"),
        (lambda: nearest_means(torch.zeros(2, 3, 4), torch.zeros(2, 5)), "must have one width, got 4 and 5"),
    ],
)
def test_what_cannot_be_lumped_is_refused_in_one_line(call, message):
    with refused(message):
        call()


def test_words_that_end_in_one_coset_are_continued_alike_by_a_model_that_keeps_the_coset():
    task = WordProblem(the("S4"), length=12, alphabet="all")
    for subgroup in (proper(task.group)[0], task.group.commutator_subgroup()):
        agreement = continuation_agreement(coset_model(task, subgroup), task, subgroup, words=80)
        assert (agreement.within.value, agreement.across.value) == (1, 0)
        knows_more = continuation_agreement(tracker(task), task, subgroup, words=80)
        assert (knows_more.within.value, knows_more.across.value) == (0, 0)
    # a left coset is not continued alike: what follows depends on more than it
    subgroup = proper(task.group)[0]
    left = continuation_agreement(coset_model(task, subgroup, "left"), task, subgroup, words=80)
    assert left.within.value < 0.9
    with refused("words must hold a pair that ends in different cosets, got 20 words without one"):
        continuation_agreement(tracker(task), task, tuple(range(24)), words=20)


# Probes.


def test_a_linear_probe_reads_what_is_linear_and_the_shuffled_control_is_at_chance():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(5, (600,), generator=generator)
    codes = torch.randn(5, 12, generator=generator)
    states = codes[labels] + 0.1 * torch.randn(600, 12, generator=generator)
    probe = linear_probe(states, labels, 5)
    assert probe.accuracy.value == 1.0
    assert probe.shuffled.interval(0.99)[0] <= 0.2
    assert probe.shuffled.value < 0.35
    nothing = linear_probe(torch.randn(600, 12, generator=generator), labels, 5)
    assert nothing.accuracy.value < 0.35
    assert linear_probe(states, labels, 5) == probe
    json.dumps(probe.to_json())


def test_a_product_of_two_characters_may_be_out_of_reach_of_every_hyperplane():
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (800, 2), generator=generator)
    states = (2.0 * signs - 1) @ torch.randn(2, 6, generator=generator)
    for character in (0, 1):
        assert linear_probe(states, signs[:, character], 2).accuracy.value == 1
    product = linear_probe(states, signs.sum(-1) % 2, 2)
    # three of the four clusters can be cut off; and yet the state holds the product, without any noise
    assert product.accuracy.value < 0.8


def test_probes_of_every_quotient_read_the_coset_that_stands_in_the_state_and_not_the_place_inside():
    group = the("S4")
    four = next(normal for normal in group.normal_subgroups() if len(normal) == 4)
    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(24, (900,), generator=generator)
    codes = torch.randn(6, 10, generator=generator)
    index = torch.tensor(group.coset_index(four, "right").copy()).long()
    probes = quotient_probes(codes[index[targets]], targets, group)
    assert [len(probe.subgroup) for probe in probes] == [4, 12]
    assert [probe.coset.accuracy.value for probe in probes] == [1, 1]
    assert probes[0].inside.accuracy.value < 0.4
    # inside A4 the coset of the four-group is known: a third of the places can be told
    assert probes[1].inside.accuracy.value < 0.5
    exact = quotient_probes(torch.eye(24)[targets], targets, group)
    assert all(probe.inside.accuracy.value == 1 for probe in exact)
    assert quotient_probes(torch.eye(60)[:8], torch.arange(8), the("A5")) == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: linear_probe(torch.zeros(3, 2), torch.zeros(3).long(), 2),
            r"four or more with one label each, got \(3",
        ),
        (lambda: linear_probe(torch.zeros(8, 2), torch.zeros(7).long(), 2), r"one label each, got \(8, 2\) with"),
        (lambda: linear_probe(torch.zeros(8, 2), torch.zeros(8).long(), 1), "classes must be at least 2, got 1"),
        (lambda: linear_probe(torch.zeros(8, 2), torch.full((8,), 2), 2), "labels must be in 0 .. 1, got 2"),
        (lambda: linear_probe(torch.full((8, 2), math.nan), torch.zeros(8).long(), 2), "states must be finite, got 16"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_one_line(call, message):
    with refused(message):
        call()


# Swaps.


def planted_states(group, subgroup, targets, generator, width=16):
    """Coset codes in some directions, and in the others noise that no answer depends on."""
    cosets = group.order // len(subgroup)
    index = torch.tensor(group.coset_index(subgroup, "right").copy()).long()
    frame = torch.linalg.qr(torch.randn(width, width, generator=torch.Generator().manual_seed(5))).Q
    states = torch.randn(len(targets), width, generator=generator)
    states[:, :cosets] = 3 * torch.eye(cosets)[index[targets]]
    return states @ frame.T, frame[:, :cosets], index


def test_a_swap_in_the_span_of_the_class_means_makes_the_model_follow_the_donor():
    group = the("S4")
    task = WordProblem(group, length=10, alphabet="all")
    subgroup = next(each for each in proper(group) if len(each) == 6)
    generator = torch.Generator().manual_seed(0)
    fitted = torch.randint(24, (6000,), generator=generator)
    states, frame, index = planted_states(group, subgroup, fitted, generator)
    subspace = class_mean_subspace(states, index[fitted], 4)
    assert subspace.dimensions == 3  # four cosets span three differences
    receiver_targets = torch.randint(24, (300,), generator=generator)
    donor_targets = torch.tensor(group.table[receiver_targets, 9]).long()
    kept = index[receiver_targets] != index[donor_targets]
    receiver_targets, donor_targets = receiver_targets[kept], donor_targets[kept]
    receivers, donors = (
        planted_states(group, subgroup, each, generator)[0] for each in (receiver_targets, donor_targets)
    )
    representative = torch.tensor([members[0] for members in group.cosets(subgroup, "right")])

    def resume(states, tokens):
        state = representative[(states @ frame).argmax(-1)]
        words = torch.cat([torch.full((len(tokens), 1), task.begin), state[:, None], tokens], 1)
        answers = task.label(words)[:, 2:]  # in this alphabet the token of a letter is its element
        return torch.where(index[answers][..., None] == index, 0.0, -9.0)

    tokens = task.evaluation(len(receivers), 20).tokens[:, 1:]
    arguments = {
        "receivers": receivers,
        "donors": donors,
        "receiver_targets": receiver_targets,
        "donor_targets": donor_targets,
        "tokens": tokens,
    }
    agreement = swap_agreement(resume, task, subgroup, subspace, **arguments)
    assert agreement.whole.donor.value == 1
    assert agreement.subspace.donor.value > 0.99
    assert agreement.subspace.receiver.value < 0.01
    assert agreement.complement.receiver.value > 0.99
    assert agreement.random.donor.value < 0.5
    json.dumps(agreement.to_json(), allow_nan=False)
    with refused("receivers and donors must have one shape"):
        swap_agreement(resume, task, subgroup, subspace, **arguments | {"donors": donors[:, :3]})
    with refused("tokens must be in 0 .. 23, got 24"):
        swap_agreement(resume, task, subgroup, subspace, **arguments | {"tokens": tokens + 24 - tokens[0, 0]})


def test_the_number_of_directions_is_where_the_singular_values_fall_most():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(9, (5000,), generator=generator)
    for planted_dimensions in (1, 2, 5):
        codes = torch.randn(9, planted_dimensions, generator=generator)
        states = torch.cat([codes[labels], torch.zeros(5000, 10)], 1) + 0.05 * torch.randn(
            5000, 10 + planted_dimensions, generator=generator
        )
        subspace = class_mean_subspace(states, labels, 9)
        assert subspace.dimensions == planted_dimensions
        assert torch.allclose(subspace.basis.T @ subspace.basis, torch.eye(planted_dimensions), atol=1e-12)
        assert subspace.basis[planted_dimensions:].abs().max() < 0.05
    assert class_mean_subspace(states, labels, 9, dimensions=3).dimensions == 3
    with refused("every class must occur, got 1 of 10 that never do"):
        class_mean_subspace(states, labels, 10)
    with refused("class means must differ, got one mean for all classes"):
        class_mean_subspace(torch.ones(50, 3), labels[:50], 9)
    with refused("dimensions must be in 1 .. 9, got 10"):
        class_mean_subspace(states, labels, 9, dimensions=10)

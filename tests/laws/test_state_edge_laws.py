"""What a tracker may hold as its state, and labels and states whose type or place must change no answer."""

import pytest
import torch

from refusal import refused
from torsor.groups import named
from torsor.tasks import WordProblem
from torsor.tracking import (
    HeldOutPairs,
    Stream,
    Trajectory,
    choose_pairs,
    coset_fit,
    error_control,
    evaluate,
    lumpability,
    means_in_space,
    nearest_means,
    prove_closure,
    subject_of,
)

S3 = WordProblem(named("S3"), 16, alphabet="all")
TABLE = torch.tensor(S3.group.table).long()


class Counting:
    """Right for ``until`` letters, which it counts in a number of Python's, and wrong from there on."""

    def __init__(self, until):
        self.until = until

    def step(self, tokens, state):
        held = {"class": torch.zeros(len(tokens), dtype=torch.long), "position": 0} if state is None else state
        letters = torch.tensor([*S3.letters, S3.group.identity])[tokens]
        reached = TABLE[held["class"], letters]
        shown = reached if held["position"] < self.until else (reached + 1) % S3.classes
        logits = torch.nn.functional.one_hot(shown, S3.classes).float()
        return logits, {"class": reached, "position": held["position"] + 1}


def test_a_state_with_a_number_of_python_s_is_not_walked_since_the_walk_would_not_see_it():
    with refused("state must be of tensors .* and of no plain numbers"):
        prove_closure(Counting(until=100).step, S3)


def test_a_state_with_a_number_of_python_s_is_read_on_whole():
    found = evaluate(Counting(until=40).step, Stream(S3, 100, 5))
    assert found.first_errors == (40,) * 5


class Flat:
    """A right tracker whose state is one real number for each word."""

    def step(self, tokens, state):
        held = torch.zeros(len(tokens)) if state is None else state
        letters = torch.tensor([*S3.letters, S3.group.identity])[tokens]
        reached = TABLE[held.long(), letters]
        return torch.nn.functional.one_hot(reached, S3.classes).float(), reached.float()


def test_a_state_of_one_number_for_each_word_is_a_vector_of_one():
    subject = subject_of(Flat(), "flat", S3.vocabulary)
    assert subject.vectors is not None
    vectors = subject.vectors(S3.evaluation(4).tokens, 3)
    assert vectors.shape == (4, 3, 1)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_labels_in_a_narrow_type_are_lumped_as_wide_ones(dtype):
    task = WordProblem(named("A5"), 12, alphabet="all")
    batch = task.evaluation(40)
    labels, tokens = batch.targets[:, 1:], batch.tokens[:, 1:]
    assert lumpability(labels.to(dtype), tokens.to(dtype)) == lumpability(labels, tokens)


def test_a_common_shift_changes_no_nearest_mean():
    generator = torch.Generator().manual_seed(0)
    means = 1e-3 * torch.randn(60, 5, generator=generator, dtype=torch.float64)
    labels = torch.arange(60).repeat(2)
    states = means[labels] + 1e-6 * torch.randn(120, 5, generator=generator, dtype=torch.float64)
    assert torch.equal(nearest_means(states[:, None] + 1e5, means + 1e5)[:, 0], labels)
    trajectory = Trajectory((1, 2), torch.stack([states, states + 1e-6]) + 1e5, labels.expand(2, -1))
    found = error_control(trajectory, 60)
    assert found.accuracy == (1.0, 1.0)
    assert found.measured is None


def test_two_classes_with_one_mean_are_refused():
    states = torch.tensor([[0.0], [0.0], [1.0]]).repeat(2, 1)
    with refused("class means of the reference horizon must differ, got one mean for two classes"):
        error_control(Trajectory((1, 2), torch.stack([states, states + 0.1]), torch.arange(3).repeat(2, 2)), 3)


def test_a_position_that_is_not_scored_has_no_mean():
    with refused("targets must be in 0 .. 5, got -100"):
        means_in_space(torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 4, -100]), named("S3"))


def test_a_normal_subgroup_is_a_rival_of_left_cosets():
    group = named("D4")
    generator = torch.Generator().manual_seed(0)
    table = torch.tensor(group.table)
    reflection = next(h for h in range(1, group.order) if table[h, h] == 0 and not group.is_normal((0, h)))
    targets = torch.randint(group.order, (40, 60), generator=generator)
    inside = torch.tensor([0, reflection])[torch.randint(2, targets.shape, generator=generator)]
    fit = coset_fit(table[targets, inside], targets, group)
    assert fit.stage is not None
    assert fit.stage.side == "left"
    nearest = min(each.distance for each in fit.fits if each.subgroup != fit.stage.subgroup and each.normal)
    assert fit.gap <= nearest - fit.stage.distance
    assert fit.gap < 0.9


def test_a_group_of_one_element_has_no_stage_to_look_for():
    with refused("group must have at least two elements, got C1"):
        coset_fit(torch.ones(5, 30).long(), torch.zeros(5, 30).long(), named("C1"))


@pytest.mark.parametrize("draw", ["batch", "familiar", "evaluation"])
def test_more_words_than_a_machine_holds_are_refused_before_the_memory_does(draw):
    pairs = HeldOutPairs(S3, choose_pairs(S3))
    given = (0, 10**12) if draw == "batch" else (10**12,)
    with refused("size words of length .* must be at most"):
        getattr(pairs, draw)(*given)

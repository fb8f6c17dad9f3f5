"""Laws of ListOps: its expressions are those of the published generator, and its targets what they evaluate to."""

import random
import statistics

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from refusal import refused
from torsor.tasks import IGNORED, ListOps
from torsor.tasks.list_trees import CLOSE, OPERATORS, PAD, length_shares

SMALL = ListOps(depth=5, arguments=6, shortest=8, longest=40, seed=3)
PLAIN = {"[MIN": "min", "[MAX": "max", "[MED": "middle", "[SM": "last_digit"}


def reference(text: str) -> int:
    """The value by Python's own parser and its library."""
    names = {
        "min": lambda *given: min(given),
        "max": lambda *given: max(given),
        "middle": lambda *given: int(statistics.median(given)),
        "last_digit": lambda *given: int(str(sum(given))[-1]),
    }
    source = " ".join(
        f"{PLAIN[word]}(" if word in PLAIN else ")," if word == "]" else f"{word}," for word in text.split()
    )
    return eval(source.rstrip(","), {"__builtins__": {}}, names)


def expressions(batch):
    """Text, value and tokens of every expression of a batch."""
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        (end,) = (targets != IGNORED).nonzero()[:, 0].tolist()
        yield SMALL.write(tokens), int(targets[end]), tokens, end


@pytest.mark.parametrize("task", [SMALL, ListOps(seed=1), ListOps(depth=2, arguments=2, shortest=4, longest=4)])
def test_the_target_is_the_value_of_the_expression_at_its_last_bracket(task):
    for text, value, tokens, end in expressions(task.batch(2, 30)):
        assert value == reference(text) == task.value(tokens)
        assert int(tokens[end]) == CLOSE
        assert (tokens[end + 1 :] == PAD).all()
        assert (tokens[: end + 1] != PAD).all()
        assert task.shortest <= end + 1 <= task.longest
        assert torch.equal(task.read(text), tokens[: end + 1])


def test_a_wrong_value_would_be_seen():
    assert reference("[MED 1 4 [MAX 2 9 ] 4 ]") == 4
    assert reference("[MED 1 4 ]") == 2
    assert reference("[SM 9 9 [MIN 3 8 ] ]") == 1
    texts = [text for text, *_ in expressions(SMALL.batch(0, 300))]
    swapped = [text.replace("[MIN", "[MAX") for text in texts]
    assert sum(reference(a) != reference(b) for a, b in zip(texts, swapped, strict=True)) > 50


def shape(text: str) -> tuple[int, list[int], list[str]]:
    """Depth of an expression's tree, digits included, and the arities and kinds of its operators."""
    waiting, arities, kinds, deepest = [], [], [], 0
    for word in text.split():
        if word != "]" and waiting:
            waiting[-1] += 1
        if word in PLAIN:
            waiting.append(0)
            kinds.append(word)
        elif word == "]":
            arities.append(waiting.pop())
        else:
            deepest = max(deepest, len(waiting) + 1)
    return deepest, arities, kinds


def test_trees_are_as_deep_and_operators_have_as_many_arguments_as_documented():
    shapes = [shape(text) for text, *_ in expressions(SMALL.batch(1, 2000))]
    assert max(depth for depth, *_ in shapes) == 5
    arities = {arity for _, found, _ in shapes for arity in found}
    assert arities == {2, 3, 4, 5, 6}


def published_lengths(depth: int, arguments: int, trees: int, seed: int) -> list[int]:
    """Lengths of trees with an operator at the root, drawn node by node as the published generator does."""
    chance = random.Random(seed)

    def length(level: int, operator: bool) -> int:
        if not operator:
            return 1
        below = [level + 1 < depth and chance.random() < 0.25 for _ in range(chance.randint(2, arguments))]
        return 2 + sum(length(level + 1, each) for each in below)

    return [length(1, True) for _ in range(trees)]


def test_lengths_have_the_distribution_of_the_published_generator():
    shares = length_shares(5, 6, 40)
    drawn = np.bincount(published_lengths(5, 6, 20_000, seed=0), minlength=41)[:41]
    admissible = np.arange(41) >= 4
    rest = 20_000 - drawn.sum()
    expected = np.append(20_000 * shares[admissible], 20_000 * (1 - shares.sum()))
    assert chisquare(np.append(drawn[admissible], rest), expected).pvalue > 1e-3
    ends = torch.tensor([end + 1 for *_, end in expressions(SMALL.batch(0, 6000))])
    kept = shares[8:41] / shares[8:41].sum()
    assert chisquare(ends.bincount(minlength=41)[8:].numpy(), 6000 * kept).pvalue > 1e-3
    assert SMALL.kept == pytest.approx(shares[8:].sum())


def test_the_published_lengths_admit_a_third_of_all_trees_with_an_operator_at_the_root():
    assert ListOps().kept == pytest.approx(0.331, abs=1e-3)
    drawn = np.array(published_lengths(10, 10, 3000, seed=1))
    share = ((drawn > 500) & (drawn < 2000)).mean()
    assert abs(share - 0.331) < 4 * (0.331 * 0.669 / 3000) ** 0.5


def test_operators_and_digits_are_uniform_where_lengths_choose_nothing():
    # all trees of two levels with two arguments are four tokens long
    tokens = ListOps(depth=2, arguments=2, shortest=4, longest=4).batch(0, 20_000).tokens
    assert chisquare(tokens[:, 0].bincount()[list(OPERATORS)].numpy()).pvalue > 1e-3
    pairs = tokens[:, 1] * 10 + tokens[:, 2]
    assert chisquare(pairs.bincount(minlength=100).numpy()).pvalue > 1e-3


def test_one_operator_below_the_root_in_four_arguments():
    # three levels and two arguments: none, one or two operators make 4, 7 or 10 tokens
    task = ListOps(depth=3, arguments=2, shortest=4, longest=10)
    ends = torch.tensor([end + 1 for *_, end in expressions(task.batch(0, 4000))])
    assert chisquare(ends.bincount(minlength=11)[[4, 7, 10]].numpy(), 4000 * np.array([9, 6, 1]) / 16).pvalue > 1e-3


def test_a_smaller_batch_holds_the_first_expressions_of_a_larger():
    whole = SMALL.batch(3, 150)
    for size in (1, 63, 64, 65):
        assert torch.equal(SMALL.batch(3, size).tokens, whole.tokens[:size])
        assert torch.equal(SMALL.batch(3, size).targets, whole.targets[:size])


def test_no_expression_of_evaluation_or_of_another_update_or_seed_comes_up_in_training():
    batches = []
    for seed in (0, 2**64 - 1):
        task = ListOps(depth=6, arguments=8, shortest=60, longest=120, seed=seed)
        batches += [task.evaluation(70), *(task.batch(update, 70) for update in (0, 1, 2**32, 2**64 - 1))]
    seen = [set(map(tuple, batch.tokens.tolist())) for batch in batches]
    assert len(set.union(*seen)) == sum(map(len, seen)) == 70 * len(batches)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ListOps(depth=1), "depth must be at least 2, got 1"),
        (lambda: ListOps(arguments=1), "arguments must be at least 2, got 1"),
        (lambda: ListOps(shortest=0), "shortest must be at least 1, got 0"),
        (lambda: ListOps(shortest=30, longest=20), "longest must be at least shortest = 30, got 20"),
        (lambda: ListOps(seed=-1), "seed must be an integer in 0 .. 2\\*\\*64 - 1, got -1"),
        (lambda: ListOps(depth=3, arguments=2), "must admit at least 1e-04 of all trees of depth 3 with up to 2"),
        (lambda: ListOps(depth=2, arguments=2, shortest=1, longest=3), "must admit at least 1e-04 of all trees"),
        (lambda: SMALL.batch(-1, 2), "update must be an integer"),
        (lambda: SMALL.value(torch.tensor([10, 1, 2])), "must be one whole expression, got 0 and 1 open"),
        (lambda: SMALL.value(torch.tensor([1, 2])), "must be one whole expression, got 2 and 0 open"),
        (lambda: SMALL.value(torch.tensor([1, CLOSE])), "must be an expression, got 14 at position 1"),
        (lambda: SMALL.value(torch.tensor([10, CLOSE])), "must be an expression, got 14 at position 1"),
        (lambda: SMALL.value(torch.tensor([99])), "must be an expression, got 99 at position 0"),
        (lambda: SMALL.read("[MIN 1 two ]"), "must be words of ListOps, got 'two'"),
        (lambda: SMALL.read(" "), "must be words of ListOps, got ' '"),
    ],
)
def test_an_inadmissible_list_ops_is_refused_in_one_line(build, message):
    with refused(message):
        build()

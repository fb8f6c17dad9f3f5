"""Laws of every task in the register, and of the words that the word problem draws."""

import inspect
import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch
from scipy.stats import chisquare

from cases import GROUPS, TASKS
from refusal import refused
from register import concrete_subclasses
from torsor.groups import alternating, cyclic, symmetric
from torsor.tasks import IGNORED, Batch, Task, WordProblem

every_task = pytest.mark.parametrize("name", TASKS)
alphabets = pytest.mark.parametrize("alphabet", ["generators", "all"])


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.tokens, other.tokens) and torch.equal(one.targets, other.targets)


def test_the_register_holds_every_kind_of_task():
    assert {type(case()) for case in TASKS.values()} == concrete_subclasses(Task)


@every_task
def test_a_batch_depends_on_the_task_the_update_and_the_size_alone(name):
    task = TASKS[name]()
    expected = [task.batch(update, 5) for update in range(4)]
    state = torch.random.get_rng_state()
    torch.manual_seed(99)
    other = pickle.loads(pickle.dumps(TASKS[name]()))
    other.evaluation(3)
    for update in (3, 0, 2, 2, 1):  # in any order, and again
        assert same(other.batch(update, 5), expected[update])
    torch.random.set_rng_state(state)
    TASKS[name]().batch(0, 5)
    assert torch.equal(torch.random.get_rng_state(), state)  # nor is another's randomness consumed


@every_task
def test_the_evaluation_batch_is_the_same_at_every_call(name):
    task = TASKS[name]()
    first = task.evaluation(70)
    task.batch(0, 3)
    assert same(task.evaluation(70), first)
    few = task.evaluation(3)
    assert torch.equal(few.tokens, first.tokens[:3])
    assert torch.equal(few.targets, first.targets[:3])


@every_task
def test_tokens_lie_in_the_vocabulary_and_targets_in_the_classes(name):
    task = TASKS[name]()
    for batch in (task.batch(0, 100), task.evaluation(100)):
        assert batch.tokens.dtype == batch.targets.dtype == torch.int64
        assert batch.tokens.shape == batch.targets.shape
        assert set(batch.tokens.unique().tolist()) <= set(range(task.vocabulary))
        assert set(batch.targets.unique().tolist()) <= {IGNORED, *range(task.classes)}


@every_task
def test_a_batch_without_sequences_is_refused(name):
    with refused("size must be at least 1, got 0"):
        TASKS[name]().batch(0, 0)
    with refused("size must be at least 1, got -1"):
        TASKS[name]().evaluation(-1)


@pytest.mark.parametrize("name", [name for name in GROUPS if "one element" not in name])
@alphabets
def test_the_target_is_the_product_of_the_letters_from_left_to_right(name, alphabet):
    group = GROUPS[name]()
    task = WordProblem(group, length=9, alphabet=alphabet, seed=1)
    batch = task.batch(update=2, size=6)
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert tokens[0] == len(task.letters) == task.begin == task.vocabulary - 1
        assert targets[0] == IGNORED == -100
        images = list(range(group.degree))  # where the letters so far take each point
        for token, target in zip(tokens[1:], targets[1:], strict=True):
            letter = group.permutations[task.letters[token]].tolist()
            images = [letter[image] for image in images]
            assert images == group.permutations[target].tolist()


def test_the_letters_are_the_generators_in_their_order_or_all_elements():
    group = alternating(5)
    generators, everything = WordProblem(group, 3), WordProblem(group, 3, alphabet="all")
    assert generators.letters == group.generators == (16, 15)
    assert everything.letters == tuple(range(60))
    assert (generators.vocabulary, everything.vocabulary) == (3, 61)
    assert generators.classes == everything.classes == 60


def test_the_word_problem_has_the_documented_face():
    parameters = inspect.signature(WordProblem).parameters
    assert list(parameters) == ["group", "length", "alphabet", "seed"]
    assert (parameters["alphabet"].default, parameters["seed"].default) == ("generators", 0)
    task = WordProblem(symmetric(3), length=7)
    assert task.batch(update=0, size=4).tokens.shape == (4, 8)
    with pytest.raises(FrozenInstanceError):
        task.length = 8


@alphabets
def test_a_shorter_word_is_the_beginning_of_the_longer_and_a_smaller_batch_that_of_the_larger(alphabet):
    task = WordProblem(symmetric(4), length=10, alphabet=alphabet, seed=5)
    whole = task.batch(3, 200)
    for size, length in ((1, 1), (7, 10), (64, 3), (65, 4), (200, 9)):
        for part, full in ((task.batch(3, size, length), whole), (task.evaluation(size, length), task.evaluation(200))):
            assert torch.equal(part.tokens, full.tokens[:size, : length + 1])
            assert torch.equal(part.targets, full.targets[:size, : length + 1])
    assert torch.equal(task.batch(3, 200, length=30).tokens[:, :11], whole.tokens)
    longer = WordProblem(symmetric(4), length=30, alphabet=alphabet, seed=5)
    assert same(longer.batch(3, 200, length=10), whole)


def words_of(batch: Batch) -> set[tuple[int, ...]]:
    return {tuple(word) for word in batch.tokens.tolist()}


def test_no_word_of_evaluation_or_of_another_update_or_seed_comes_up_in_training():
    # Words of 24 letters out of 120: two drawn apart are equal with probability 1e-50.
    batches = []
    for seed in (0, 1, 2**32, 2**64 - 1):
        task = WordProblem(symmetric(5), length=24, alphabet="all", seed=seed)
        updates = (*range(6), 2**32, 2**32 + 1, 2**63, 2**64 - 1)
        batches += [task.evaluation(130), *(task.batch(update, 130) for update in updates)]
    words = [words_of(batch) for batch in batches]
    assert {len(some) for some in words} == {130}
    assert len(set.union(*words)) == 130 * len(batches)


def test_short_words_do_come_up_in_training_and_in_evaluation():
    task = WordProblem(symmetric(3), length=3)
    assert words_of(task.batch(0, 100)) == words_of(task.evaluation(100))


@pytest.mark.parametrize(
    ("group", "alphabet"), [(symmetric(3), "generators"), (alternating(5), "all"), (cyclic(7), "all")]
)
def test_letters_are_uniform_and_pairs_of_neighbours_too(group, alphabet):
    task = WordProblem(group, length=100, alphabet=alphabet)
    letters = torch.cat([task.batch(update, 400).tokens[:, 1:] for update in range(3)])
    count = len(task.letters)
    assert chisquare(letters.flatten().bincount(minlength=count)).pvalue > 1e-3
    along = letters[:, :-1] * count + letters[:, 1:]
    across = letters[:-1] * count + letters[1:]
    for pairs in (along, across):
        assert chisquare(pairs.flatten().bincount(minlength=count**2)).pvalue > 1e-3


def philox(counter: list[int], key: list[int]) -> list[int]:
    """One block of the generator Philox 4x64-10, after Salmon et al., in plain integers."""
    c, k, mask = list(counter), list(key), 2**64 - 1
    for _ in range(10):
        a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
        c = [(b >> 64) ^ c[1] ^ k[0], b & mask, (a >> 64) ^ c[3] ^ k[1], a & mask]
        k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
    return c


@pytest.mark.parametrize("update", [0, 5, 2**63 + 9])
def test_letters_are_blocks_of_philox_with_block_update_and_stream_for_counter(update):
    seed, size, length = 2**63 + 77, 70, 3
    task = WordProblem(alternating(5), length, alphabet="all", seed=seed)
    for stream, batch in ((0, task.batch(update, size)), (1, task.evaluation(size))):
        for word in (0, 1, 63, 64, 69):
            for position in range(length):
                number = position * 64 + word % 64
                counter = [1 + number // 4, word // 64, 0 if stream else update, stream]
                assert batch.tokens[word, position + 1] == philox(counter, [seed, 0])[number % 4] % 60


@alphabets
def test_labels_of_given_words_are_the_targets_of_a_batch(alphabet):
    task = WordProblem(symmetric(4), length=6, alphabet=alphabet)
    batch = task.batch(0, 20)
    assert torch.equal(task.label(batch.tokens), batch.targets)
    assert torch.equal(task.label(batch.tokens.int()), batch.targets)
    assert torch.equal(task.label(batch.tokens[:, :1]), batch.targets[:, :1])
    alone = torch.tensor([[task.begin, 1, 0]])
    expected = task.group.compose(task.letters[1], task.letters[0])
    assert task.label(alone).tolist() == [[IGNORED, task.letters[1], expected]]


S3 = symmetric(3)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: WordProblem(cyclic(1), 4), "group must have at least two elements, got C1 of order 1"),
        (lambda: WordProblem(S3, 0), "length must be at least 1, got 0"),
        (lambda: WordProblem(S3, -3), "length must be at least 1, got -3"),
        (lambda: WordProblem(S3, 4, alphabet="letters"), "alphabet must be 'generators' or 'all', got 'letters'"),
        (lambda: WordProblem(S3, 4, seed=-1), "seed must be an integer in 0 .. 2\\*\\*64 - 1, got -1"),
        (lambda: WordProblem(S3, 4).batch(-1, 2), "update must be an integer in 0 .. 2\\*\\*64 - 1, got -1"),
        (
            lambda: WordProblem(S3, 4).batch(2**64, 2),
            "update must be an integer in 0 .. 2\\*\\*64 - 1, got 18446744073709551616",
        ),
        (lambda: WordProblem(S3, 4).batch(0, 2, length=0), "length must be at least 1, got 0"),
        (lambda: WordProblem(S3, 4).evaluation(2, length=-1), "length must be at least 1, got -1"),
        (lambda: WordProblem(S3, 4).label(torch.tensor([[2, 2]])), "letters must be in 0 .. 1, got 2"),
        (lambda: WordProblem(S3, 4).label(torch.tensor([[2, 0], [2, -1]])), "letters must be in 0 .. 1, got -1"),
        (lambda: WordProblem(S3, 4).label(torch.tensor([[2, 0], [1, 0]])), "must begin with the begin token 2"),
        (lambda: WordProblem(S3, 4).label(torch.zeros(2, 0).long()), "must begin with the begin token 2"),
        (lambda: Batch(torch.zeros(2, 3).long(), torch.zeros(2, 4).long()), r"one shape, got \(2, 3\) and \(2, 4\)"),
    ],
)
def test_an_inadmissible_word_problem_is_refused_in_one_line(build, message):
    with refused(message):
        build()

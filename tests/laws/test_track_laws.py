"""Laws of a whole examination: every way of asking gives the same, and what is drawn is what was counted."""

import json
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch import nn

from refusal import refused
from torsor.groups import named
from torsor.models import LSTM, parcae_transformer
from torsor.tasks import WordProblem
from torsor.tracking import (
    Chunked,
    HeldOutPairs,
    Stream,
    Subject,
    Suite,
    choose_pairs,
    confusion_by_coset,
    evaluate,
    evaluate_depths,
    means_in_space,
    subject_of,
    track,
)
from torsor.tracking.subject import in_pieces, read_on_subject, state_grows, states_after
from torsor.tracking.tracked import portions, thinned
from torsor.transitions import BlockConformal

the = cache(named)
S3 = WordProblem(the("S3"), length=6, alphabet="all")


def lstm() -> LSTM:
    """With answers that differ from word to word."""
    model = LSTM(S3.vocabulary, hidden=8, classes=6, seed=1).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5)
        model.readout.bias.zero_()
    return model


def failing(task: WordProblem):
    """Right at first, and less and less often."""
    generator = torch.Generator().manual_seed(0)

    def answer(tokens):
        right = nn.functional.one_hot(task.label(tokens).clamp(min=0), task.classes)
        times = torch.arange(tokens.shape[1]) / 20
        return right * (torch.rand(tokens.shape, generator=generator) > times / (1 + times))[..., None].double()

    return answer


def looped():
    return parcae_transformer(BlockConformal(8, groups=2), vocabulary=7, classes=6, heads=2).double()


def automaton(task: WordProblem):
    """Reads on and is always right."""
    table = torch.tensor(task.group.table.copy()).long()
    letters = torch.tensor([*task.letters, 0])

    def read(tokens, state):
        q = torch.zeros(len(tokens), dtype=torch.long) if state is None else state[:, 0].long()
        answers = []
        for token in tokens.unbind(1):
            q = torch.where(token == task.begin, q, table[q, letters[token]])
            answers.append(q)
        return nn.functional.one_hot(torch.stack(answers, 1), task.classes).double(), q[:, None].double()

    return read


def in_cosets(task: WordProblem, subgroup: tuple[int, ...], side: str):
    """Knows the coset of the state and draws inside it."""
    coset = torch.from_numpy(task.group.coset_index(subgroup, side).copy())
    generator = torch.Generator().manual_seed(0)

    def answer(tokens):
        q = task.label(tokens).clamp(min=0)
        noise = torch.rand(*q.shape, task.classes, generator=generator)
        return noise + (coset[q][..., None] == coset)

    return answer


# Evaluations.


def test_the_evaluation_at_several_depths_is_that_at_each():
    model, suite = looped(), Suite(S3, multiples=(1, 3), words=20, tokens_at_once=60)
    found = evaluate_depths(model, suite, (1, 4, 2))
    assert list(found) == [1, 4, 2]
    for depth, evaluation in found.items():
        assert evaluation == evaluate(lambda tokens, depth=depth: model(tokens, steps=depth), suite)
    assert model.training
    for depths, message in [((), "depths must be one or more"), ((2, 2), "each once"), ((0,), "at least 1, got 0")]:
        with refused(message):
            evaluate_depths(model, suite, depths)


def test_words_of_chosen_lengths_are_those_of_the_multiples():
    suite = Suite(S3, words=20, at_lengths=(6, 18))
    assert suite.lengths == (6, 18)
    assert evaluate(lstm(), suite) == evaluate(lstm(), Suite(S3, multiples=(1, 3), words=20))
    assert [each.multiple for each in evaluate(lstm(), Suite(S3, words=20, at_lengths=(3, 9))).lengths] == [0.5, 1.5]
    for lengths in ((), (3, 3), (0,), (4, 2)):
        with refused("lengths must ascend from at least 1"):
            Suite(S3, at_lengths=lengths)


@pytest.mark.parametrize("kind", ["chunked", "step", "module that only steps", "both", "callable"])
def test_every_way_of_asking_one_model_gives_the_same(kind):
    model = lstm()

    class OneByOne:
        step = staticmethod(model.step)

    class Stepping(nn.Module):
        step = staticmethod(model.step)

    asked = {"module that only steps": Stepping()}
    asked |= {"chunked": Chunked(model, 4), "step": OneByOne(), "both": model, "callable": lambda tokens: model(tokens)}
    subject = subject_of(asked[kind], "it", S3.vocabulary)
    assert len(set(model(S3.evaluation(15).tokens)[0].argmax(-1).flatten().tolist())) > 3
    suite, stream = Suite(S3, (1, 2), 15), None if kind == "callable" else Stream(S3, 50, 15)
    found = track(subject, suite, stream)
    assert found.evaluations == {None: evaluate(model, suite)}
    if stream is None:
        assert found.stream is None
        assert found.means_of == "logits"
        with refused("it must have a state to be streamed"):
            track(subject, suite, Stream(S3, 50, 15))
    else:
        assert found.stream == evaluate(Chunked(model, 16), stream)
        assert found.means_of == "state"


def test_what_is_no_model_is_refused_in_one_line():
    with refused(r"it must give a callable tokens -> logits, a torsor.tracking.Chunked, or an object with step"):
        subject_of(3, "it", 7)


def test_a_looped_subject_is_examined_at_its_depths_and_its_pictures_are_of_the_trained_one():
    model, suite = looped(), Suite(S3, (1, 2), 20)
    found = track(Subject("it", model, depths=(1, 2, 3), trained_steps=2), suite)
    at_two = track(subject_of(lambda tokens: model(tokens, steps=2), "it", 7), suite)
    assert found.means == at_two.means
    assert found.means_of == "logits"
    assert found.evaluations == evaluate_depths(model, suite, (1, 2, 3))
    assert found.confusion_steps == 2
    assert found.confusion == confusion_by_coset(found.evaluations[2].lengths[-1], the("S3"))


def test_watching_changes_nothing_and_adds_up_to_the_portions():
    read = automaton(S3)
    suite = Suite(S3, (1, 3), 20, held_out=HeldOutPairs(S3, choose_pairs(S3, 0.1)))
    stream, subject = Stream(S3, 70, 9), subject_of(Chunked(read, 16), "it", 7)
    work, seen = portions(subject, suite, stream), [0, 0, 0]

    def watch(place, tokens):
        seen[place] += tokens

    found = track(subject, suite, stream, watch=watch)
    assert found == track(subject, suite, stream)
    assert seen == [portion.tokens for portion in work]
    assert [portion.length for portion in work] == [6, 18, 16]
    assert found.closure is not None
    assert found.closure.proven
    assert found.closure.states == 6
    assert found.stream.joint.hits == 9


def test_all_that_was_found_is_plain_json():
    found = track(subject_of(in_cosets(S3, (0,), "right"), "it", 7), Suite(S3, (1, 2), 30)).to_json()
    assert found == json.loads(json.dumps(found, allow_nan=False))
    assert found["task"] == {
        "group": "S3",
        "order": 6,
        "alphabet": "all",
        "letters": 6,
        "train_length": 6,
        "seed": 0,
        "words": 30,
        "held_out": [],
    }
    assert [each["length"] for each in found["readings"][0]["lengths"]] == [6, 12]
    assert sorted(map(tuple, found["edges"])) == sorted(
        (g, int(the("S3").table[g, x])) for g in range(6) for x in the("S3").generators
    )


# What stands for a position.


def test_the_state_after_a_position_is_that_of_the_word_that_ends_there():
    model, tokens = lstm(), S3.evaluation(7, 12).tokens
    found = states_after(Chunked(model, 5), 7, tokens, 3)
    for place, end in enumerate((11, 12, 13)):
        _, (hidden, cell) = model(tokens[:, :end])
        torch.testing.assert_close(found[:, place], torch.cat([hidden, cell], 1))
    assert states_after(lambda token, state: (torch.zeros(7, 6), torch.zeros(2, 7)), 7, tokens, 3) is None
    assert states_after(lambda token, state: (torch.zeros(7, 6), None), 7, tokens, 3) is None


def one_token(read, tokens, state):
    logits, state = read(tokens[:, None], state)
    return logits[:, 0], state


def test_a_state_that_grows_is_seen_and_neither_drawn_nor_walked():
    read_on = automaton(S3)

    def remembering(tokens, state):
        logits, q = read_on(tokens, None if state is None else state[0])
        return logits, (q, tokens if state is None else torch.cat([state[1], tokens], 1))

    def looking_back(tokens, state):
        logits, (q, seen) = remembering(tokens, state)
        return logits, (q, seen[:, -2:])  # it grows at first, and then no more

    for read, grows in ((remembering, True), (looking_back, False), (read_on, False)):
        for reader in (lambda token, state, read=read: one_token(read, token, state), Chunked(read, 4)):
            assert state_grows(reader, S3.vocabulary) == grows
        found = track(subject_of(Chunked(read, 4), "it", S3.vocabulary), Suite(S3, (1,), 10), Stream(S3, 20, 5))
        assert found.stream.joint.hits == 5
        assert found.means_of == ("logits" if grows else "state")
        assert (found.closure is None) == grows


def test_a_word_in_pieces_gets_the_logits_of_the_whole_word():
    model, tokens = lstm(), S3.evaluation(7, 12).tokens
    expected = model(tokens)[0]
    for reader in (Chunked(model, 5), Chunked(model, 100), model.step):
        torch.testing.assert_close(in_pieces(reader, 7)(tokens), expected)
    subject = read_on_subject("it", None, model.step, 7)
    torch.testing.assert_close(subject.answer(tokens), expected)


def test_means_in_a_space_of_three_directions_keep_all_their_distances():
    group = the("A4")
    places = torch.randn(12, 3)
    frame = torch.linalg.qr(torch.randn(9, 9)).Q[:3]
    targets = torch.arange(11).repeat(50)  # element 11 never comes up
    found = means_in_space(places[targets] @ frame + 4.0, targets, group)
    assert found.coordinates[11] is None
    drawn = torch.tensor(found.coordinates[:11])
    torch.testing.assert_close(torch.cdist(drawn, drawn), torch.cdist(places[:11], places[:11]))
    assert found.share == pytest.approx(1)
    assert found.scatter == pytest.approx(0, abs=1e-6)
    assert found.count == 550


def test_the_share_is_what_three_directions_hold_and_the_scatter_is_that_within_classes():
    group, generator = the("S3"), torch.Generator().manual_seed(0)
    targets = torch.arange(6).repeat(4000)
    means = torch.eye(6) * torch.tensor([3.0, 2.0, 2.0, 1.0, 0.5, 0.5])
    vectors = means[targets] + 0.1 * torch.randn(len(targets), 6, generator=generator)
    found = means_in_space(vectors, targets, group)
    squared = torch.linalg.svdvals(means - means.mean(0)).square()
    assert found.share == pytest.approx(float(squared[:3].sum() / squared.sum()), rel=0.01)
    assert found.scatter == pytest.approx(0.1 * 3**0.5, rel=0.02)


def test_means_that_do_not_differ_are_not_drawn():
    group = the("S3")
    assert means_in_space(torch.ones(12, 4), torch.arange(6).repeat(2), group) is None
    assert means_in_space(torch.randn(5, 4), torch.full((5,), 3), group) is None
    line = means_in_space(torch.arange(6.0)[:, None], torch.arange(6), group)
    assert all(each[1:] == (0.0, 0.0) for each in line.coordinates)
    with refused("vectors must be finite, got 1 of 12"):
        means_in_space(torch.tensor([torch.nan] + [0.0] * 11)[:, None], torch.arange(6).repeat(2), group)


# Confusion.


@pytest.mark.parametrize("side", ["right", "left"])
def test_answers_uniform_in_cosets_fill_the_blocks_of_these_cosets_and_nothing_else(side):
    task = WordProblem(the("S4"), length=40, alphabet="all")
    subgroup = next(each for each in the("S4").subgroups() if len(each) == 3)
    evaluation = evaluate(in_cosets(task, subgroup, side), Suite(task, (1,), 400)).lengths[0]
    found = confusion_by_coset(evaluation, task.group)
    assert (found.subgroup, found.side, found.chosen) == (subgroup, side, "the stage")
    assert found.cosets == task.group.cosets(subgroup, side)
    counts = torch.tensor(found.counts)
    blocks = torch.block_diag(*[torch.ones(3, 3)] * 8).bool()
    assert not counts[~blocks].any()
    assert counts[blocks].min() > 0.7 * counts[blocks].double().mean()
    assert counts.sum() == 400 * (40 - evaluation.window + 1)
    assert found.first == evaluation.window


def test_the_cosets_of_a_confusion_are_those_that_say_most():
    def chosen(task, model, words=40):
        evaluation = evaluate(model, Suite(task, (1,), words)).lengths[0]
        found = confusion_by_coset(evaluation, task.group)
        return len(found.subgroup), found.chosen, found

    right = lambda task: in_cosets(task, (0,), "right")  # noqa: E731
    s4, a5, c6 = (WordProblem(the(name), 9, "all") for name in ("S4", "A5", "C6"))
    order, why, found = chosen(s4, right(s4))
    assert (order, why) == (12, "the commutator subgroup")
    assert torch.equal(torch.tensor(found.counts), torch.diag(torch.tensor(found.counts).diag()))
    assert found.first == 1
    assert sum(map(sum, found.counts)) == 9 * 40
    assert chosen(a5, right(a5))[:2] == (12, "the largest proper subgroup")
    assert chosen(c6, right(c6))[:2] == (3, "the largest proper subgroup")
    assert chosen(a5, lambda tokens: torch.rand(*tokens.shape, 60))[1] == "nearest to the errors"
    beyond = lambda tokens: nn.functional.one_hot(torch.full_like(tokens, 24), 25).double()  # noqa: E731
    assert sum(chosen(s4, beyond)[2].outside) == 40 * (9 - 6 + 1)


# Files.


def test_curves_are_kept_at_the_positions_that_are_named():
    entry = evaluate(failing(S3), Suite(S3, (1, 100), 50)).lengths
    assert len(set(entry[0].scores.curve)) > 3
    assert len(set(entry[1].scores.position[300:])) > 3
    short, long = (thinned(each.to_json()) for each in entry)
    assert short["positions"] == list(range(1, 7))
    assert short["scores"] == entry[0].to_json()["scores"]
    places = long["positions"]
    assert places[:64] == list(range(1, 65))
    assert places[-1] == 600
    assert 64 < len(places) < 180
    assert max(later / earlier for earlier, later in pairwise(places[63:])) < 1.04
    for scores, kept in [
        (entry[1].scores, long["scores"]),
        (entry[1].quotients[0].scores, long["quotients"][0]),
    ]:
        assert kept["curve"] == [scores.curve[at - 1] for at in places]
        assert kept["position"] == [scores.position[at - 1] for at in places]
    assert {name: value for name, value in long["scores"].items() if name not in {"curve", "position"}} == {
        name: value for name, value in entry[1].scores.to_json().items() if name not in {"curve", "position"}
    }

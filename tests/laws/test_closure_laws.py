"""Laws of the proof by closure: exact automata are proven, broken ones refuted by a shortest word."""

from functools import cache
from itertools import product

import pytest
import torch
from torch.nn.functional import one_hot

from refusal import refused
from torsor.groups import named
from torsor.models import GRU
from torsor.tasks import WordProblem
from torsor.tracking import evaluate, prove_closure
from torsor.tracking.streaming import Stream

the = cache(named)


def automaton(task, redundant=1, broken=None):
    """A tracker of states numbered ``element + order * copy``; ``broken`` is (state, letter, wrong next element)."""
    order, letters = task.group.order, len(task.letters)
    table = torch.from_numpy(task.group.table[:, list(task.letters)].astype("int64"))
    following = torch.cat([table + order * ((copy + 1) % redundant) for copy in range(redundant)])
    if broken is not None:
        state, letter, wrong = broken
        following[state, letter] = wrong

    def step(tokens, state):
        if state is None:
            state = torch.full_like(tokens, task.group.identity)
        else:
            begun = tokens == letters
            moved = following[state, tokens.clamp(max=letters - 1)]
            state = torch.where(begun, torch.full_like(moved, task.group.identity), moved)
        return one_hot(state % order, order).double(), state

    return step


def word_is_right(task, step, letters):
    state, outputs = None, None
    for token in (task.begin, *letters):
        outputs, state = step(torch.tensor([token]), state)
    tokens = torch.tensor([[task.begin, *letters]])
    return int(outputs.argmax()) == int(task.label(tokens)[0, -1])


@pytest.mark.parametrize("name", ["C2", "S3", "A4", "A5"])
@pytest.mark.parametrize("alphabet", ["generators", "all"])
@pytest.mark.parametrize("redundant", [1, 3])
def test_an_exact_automaton_of_any_number_of_states_is_proven(name, alphabet, redundant):
    task = WordProblem(the(name), length=8, alphabet=alphabet)
    found = prove_closure(automaton(task, redundant), task)
    assert found.proven
    assert found.verdict == "proven"
    assert (found.counterexample, found.answer, found.length, found.margin) == (None, None, None, 1)
    assert found.states <= task.group.order * redundant
    assert found.transitions == found.states * len(task.letters)
    if alphabet == "all" and redundant == 1:
        assert found.states == task.group.order
    assert "proven at every length" in str(found)
    assert evaluate(automaton(task, redundant), Stream(task, length=300, words=5)).joint.value == 1


@pytest.mark.parametrize("alphabet", ["generators", "all"])
def test_one_wrong_transition_is_refuted_by_a_word_than_which_no_wrong_one_is_shorter(alphabet):
    task = WordProblem(the("S3"), length=8, alphabet=alphabet)
    letters = range(len(task.letters))
    for state, letter in product(range(6), letters):
        right = int(task.group.table[state, task.letters[letter]])
        step = automaton(task, broken=(state, letter, (right + 1) % 6))
        found = prove_closure(step, task, words_at_once=5)
        assert found.verdict == "refuted"
        assert not found.proven
        begin, *word = found.counterexample
        assert begin == task.begin
        assert found.answer == (right + 1) % 6
        assert found.margin <= 0
        assert not word_is_right(task, step, word)
        assert found.length == len(word) - 1
        for shorter in range(1, len(word)):
            assert all(word_is_right(task, step, tried) for tried in product(letters, repeat=shorter))


def test_a_right_answer_on_the_way_to_a_state_that_stands_for_another_element_is_refuted_at_the_next_letter():
    # it answers by where it comes from: all transitions are right once, and the last leads to a state met before
    task = WordProblem(the("C3"), length=8)

    def step(tokens, state):
        if state is None:
            return torch.zeros(len(tokens), 3), torch.zeros_like(tokens)
        return one_hot(torch.tensor([1, 2, 0])[state], 3).double(), torch.tensor([1, 2, 1])[state]

    found = prove_closure(step, task)
    assert found.verdict == "refuted"
    assert len(found.counterexample) - 1 == 4
    assert found.answer == 2  # where it is 1


def test_a_state_that_grows_is_not_finite_and_all_words_up_to_the_length_that_it_names_are_right():
    task = WordProblem(the("C3"), length=8)

    def counting(tokens, state):
        state = torch.zeros_like(tokens) if state is None else state + 1
        return one_hot(state % 3, 3).double(), state

    found = prove_closure(counting, task, most=40)
    assert (found.verdict, found.states, found.length, found.counterexample) == ("not finite", 41, 40, None)
    assert "not finite within 40 states; all words right up to length 40" in str(found)


def test_a_model_that_is_right_in_a_call_of_one_shape_alone_is_proven_for_that_shape_alone():
    task = WordProblem(the("S3"), length=8)
    exact, wrong = automaton(task), automaton(task, broken=(0, 0, 5))

    def step(tokens, state):
        return (exact if len(tokens) == 7 else wrong)(tokens, state)

    assert prove_closure(step, task, words_at_once=7).proven
    assert prove_closure(step, task, words_at_once=8).verdict == "refuted"


def test_the_margin_is_the_least_lead_of_the_right_logit():
    task = WordProblem(the("C3"), length=8)

    def step(tokens, state):
        state = torch.zeros_like(tokens) if state is None else (state + 1) % 3
        logits = one_hot(state, 3).double() * torch.tensor([5.0, 0.25, 2.0])[state][:, None]
        return logits, state

    assert prove_closure(step, task).margin == 0.25


def test_a_trained_or_untrained_network_of_real_numbers_is_refuted_or_not_finite_and_never_proven():
    task = WordProblem(the("C3"), length=8)
    found = prove_closure(GRU(task.vocabulary, 4, classes=3).step, task, most=50)
    assert found.verdict in {"refuted", "not finite"}


def test_the_result_as_plain_numbers_keeps_everything():
    task = WordProblem(the("S3"), length=8)
    found = prove_closure(automaton(task, broken=(0, 0, 5)), task).to_json()
    assert found["verdict"] == "refuted"
    assert found["counterexample"] == [task.begin, 0]
    assert set(found) >= {"proven", "states", "transitions", "length", "answer", "margin", "words_at_once", "most"}


def test_what_is_not_admissible_is_refused_in_one_line():
    task = WordProblem(the("S3"), length=8)
    for wrong in ({"most": 0}, {"words_at_once": 0}):
        with refused("must be an integer of at least 1, got 0"):
            prove_closure(automaton(task), task, **wrong)
    with refused("state must be of tensors whose first axis alone is as long as there are words, 67"):
        prove_closure(lambda tokens, state: (torch.zeros(67, 6), torch.zeros(2, 67, 4)), task)
    with refused("logits must be finite"):
        prove_closure(lambda tokens, state: (torch.full((len(tokens), 6), torch.nan), tokens), task)

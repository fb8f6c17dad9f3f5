"""The proof that a tracker is right at every length, by all its states and letters, or a shortest word it fails on."""

import math
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.answers import likeliest
from torsor.tracking.reading import Step, asked_to_read, has_words_first, read, selected
from torsor.tracking.requirements import require_at_least, require_outputs
from torsor.tracking.state_rows import bits_of_rows, joined

Verdict = Literal["proven", "refuted", "not finite"]


@final
@dataclass(frozen=True)
class Closure:
    """What the states of a tracker have to say about all words at once.

    Args:
        verdict: "proven" where every word of every length is answered rightly at every position; "refuted"
            where one is not; "not finite" where there are more than ``most`` states, and no wrong word so far.
        states: how many different states were met, told apart by their bits.
        transitions: how many states by letters were tried.
        length: up to which all words are right; None where they are at every length.
        counterexample: the tokens of a shortest word that goes wrong at its end, the begin token first.
        answer: the wrong answer to it.
        margin: the least lead of the right logit over all others, over the transitions tried; 0 or less if refuted.
        words_at_once: the words in each call: the calls that are spoken of.
        most: states, beyond which the search ends.
    """

    verdict: Verdict
    states: int
    transitions: int
    length: int | None
    counterexample: tuple[int, ...] | None
    answer: int | None
    margin: float
    words_at_once: int
    most: int

    @property
    def proven(self) -> bool:
        """Whether every word of every length is answered rightly."""
        return self.verdict == "proven"

    def __str__(self) -> str:
        tried = f"{self.states} states, {self.transitions} transitions in calls of {self.words_at_once} words"
        match self.verdict:
            case "proven":
                return f"proven at every length: {tried}, least lead {self.margin:.3g}"
            case "refuted":
                letters = len(self.counterexample or ()) - 1
                return f"refuted: a word of {letters} letters is answered by {self.answer}; {tried}"
            case "not finite":
                return f"not finite within {self.most} states; all words right up to length {self.length}; {tried}"

    def to_json(self) -> dict[str, Any]:
        """The verdict with its numbers as a plain dictionary."""
        word = self.counterexample
        return {
            "verdict": self.verdict,
            "proven": self.proven,
            "states": self.states,
            "transitions": self.transitions,
            "length": self.length,
            "counterexample": None if word is None else list(word),
            "answer": self.answer,
            "margin": self.margin,
            "words_at_once": self.words_at_once,
            "most": self.most,
        }


@torch.no_grad()
def prove_closure(
    step: Step,
    task: WordProblem,
    *,
    most: int = 10_000,
    words_at_once: int = 67,
    device: torch.device | str = "cpu",
) -> Closure:
    r"""Try every state of a tracker that can be met by every letter.

    A tracker with a state answers the letter :math:`x` in the state :math:`s` by something that :math:`s` and
    :math:`x` fix. From the state after the begin token, with :math:`q = e`, all pairs :math:`(s, q)` are walked,
    nearest first, states told apart by their bits. If the walk ends and every answer was :math:`q x`, then by
    induction over its length every word is answered rightly at every position.

    What is proven is proven of the calls that were made: one token of ``words_at_once`` words at a time, the last
    call filled up with a repeated word. A matrix product may round otherwise in a call of another shape. A
    model whose answers do not depend on that, as those of ``SnappedRNN``, is right in any call.
    For a state of real numbers that never comes back to its own bits, the walk ends at ``most``.

    Guarantees, each a test in ``tests/laws/test_closure_laws.py``:

    * an exact automaton of any number of states is proven, and its answers are right on long words;
    * one wrong transition is refuted by a word than which no wrong one is shorter;
    * a state that grows is "not finite", and all words up to the length that it names are right;
    * a model that is right in a call of one shape alone is proven for that shape alone.

    Args:
        step: ``step(tokens "batch", state) -> (logits "batch outputs", state)`` with a state of tensors whose rows
            are the words; the first state is None. A module is asked in evaluation mode; a method of one as it is.
        task: the word problem. A word begins with its begin token, whose answer does not count.
        most: states, at least 1.
        words_at_once: at least 1; a prime by default, since no other axis of the state may be as long.
        device: where tokens are put.

    Raises:
        ValueError: when a number is below 1, the state cannot be parted into words, or the model cannot be asked.

    Example:
        >>> from torsor.groups import cyclic
        >>> task = WordProblem(cyclic(3), length=8)
        >>> def step(tokens, state):  # one generator: the state counts modulo 3
        ...     state = torch.zeros_like(tokens) if state is None else (state + 1) % 3
        ...     return torch.nn.functional.one_hot(state, 3).float(), state
        >>> prove_closure(step, task).verdict
        'proven'
    """
    require_at_least(1, most=most, words_at_once=words_at_once)
    with asked_to_read(step):
        return _Walk(step, task, most, words_at_once, device).result()


@final
class _Walk:
    """The pairs of a state and the element that it should stand for, nearest to the start first."""

    def __init__(self, step: Step, task: WordProblem, most: int, at_once: int, device: torch.device | str) -> None:
        self.step, self.task, self.most, self.at_once, self.device = step, task, most, at_once, device
        self.states: set[bytes] = set()
        self.met: set[tuple[bytes, int]] = set()
        self.transitions, self.margin = 0, math.inf

    def result(self) -> Closure:
        _, state = self._call([self.task.begin] * self.at_once, None)
        if not has_words_first(state, self.at_once):
            raise ValueError(
                f"state must be of tensors whose first axis alone is as long as there are words, {self.at_once}, and "
                "of no plain numbers: torch's own recurrent modules have the words on the second"
            )
        level = _Level(selected(state, torch.tensor([0])), [self.task.group.identity], [(self.task.begin,)])
        self._is_new(bits_of_rows(level.state, 1)[0], level.elements[0])
        length = 0
        while level.words and len(self.states) <= self.most:
            level, wrong = self._next(level)
            if wrong is not None:
                return self._closure("refuted", length, *wrong)
            length += 1
        return self._closure("not finite", length) if level.words else self._closure("proven", None)

    def _next(self, level: "_Level") -> "tuple[_Level, tuple[tuple[int, ...], int] | None]":
        """The pairs one letter further that were not met before, or the first wrong word and its answer."""
        letters, table = self.task.letters, self.task.group.table
        tries = [(row, letter) for row in range(len(level.words)) for letter in range(len(letters))]
        states, elements, words = [], [], []
        for start in range(0, len(tries), self.at_once):
            some = tries[start : start + self.at_once]
            filled = [*some, *[some[-1]] * (self.at_once - len(some))]
            outputs, after = self._call(
                [letter for _, letter in filled], selected(level.state, torch.tensor([row for row, _ in filled]))
            )
            wanted = [int(table[level.elements[row], letters[letter]]) for row, letter in some]
            answers = likeliest(outputs).tolist()
            self._note_margin(outputs[: len(some)].double().cpu(), torch.tensor(wanted))
            new = []
            for place, ((row, letter), answer, bits) in enumerate(
                zip(some, answers, bits_of_rows(after, self.at_once), strict=False)
            ):
                self.transitions += 1
                if answer != wanted[place]:
                    return level, ((*level.words[row], letter), answer)
                if self._is_new(bits, wanted[place]):
                    new.append(place)
                    elements.append(wanted[place])
                    words.append((*level.words[row], letter))
            if new:
                states.append(selected(after, torch.tensor(new)))
        return _Level(joined(states) if states else None, elements, words), None

    def _call(self, tokens: list[int], state: Any) -> tuple[Tensor, Any]:
        outputs, state = read(self.step, torch.tensor(tokens, device=self.device)[:, None], state, self.task.vocabulary)
        require_outputs(outputs, (len(tokens), 1), self.task.classes)
        return outputs[:, 0], state

    def _is_new(self, bits: bytes, element: int) -> bool:
        self.states.add(bits)
        known = (bits, element) in self.met
        self.met.add((bits, element))
        return not known

    def _note_margin(self, outputs: Tensor, wanted: Tensor) -> None:
        right = outputs.gather(1, wanted[:, None])[:, 0]
        others = outputs.scatter(1, wanted[:, None], -math.inf).amax(1)
        self.margin = min(self.margin, float((right - others).min()))

    def _closure(
        self, verdict: Verdict, length: int | None, word: tuple[int, ...] | None = None, answer: int | None = None
    ) -> Closure:
        return Closure(
            verdict,
            len(self.states),
            self.transitions,
            length,
            word,
            answer,
            self.margin,
            self.at_once,
            self.most,
        )


@final
@dataclass(frozen=True)
class _Level:
    """Pairs that a shortest word leads to, all of one length: their states, their elements, and the words."""

    state: Any
    elements: list[int]
    words: list[tuple[int, ...]]

"""A whole examination of one model: every length, the stream, the confusion of cosets and the class means."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import torch
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.answers import Model, asked
from torsor.tracking.closure import Closure, prove_closure
from torsor.tracking.confusion import Confusion, confusion_by_coset
from torsor.tracking.drawn_means import MeansInSpace, means_in_space
from torsor.tracking.evaluation import evaluate, evaluate_depths
from torsor.tracking.reading import Chunked, Step, asked_to_read, has_words_first
from torsor.tracking.results import Evaluation, LengthEvaluation
from torsor.tracking.state_rows import tensors_of
from torsor.tracking.streaming import Stream, StreamEvaluation
from torsor.tracking.subject import Subject, logits_after, one_by_one
from torsor.tracking.suite import Suite

CLOSURE_WORDS, MOST_STATES = 67, 1000  # of the walk over all states; a model with more is called not finite
MEAN_WORDS, MEAN_POSITIONS = 256, 8  # whose vectors the class means are of: every element often enough, within memory


@final
@dataclass(frozen=True)
class Portion:
    """A part of the work, read at one length.

    Args:
        length: of the words; of one chunk, where the words are streamed.
        tokens: in all, if no word is given up.
    """

    length: int
    tokens: int


Watch = Callable[[int, int], None]
"""``(place of the portion, tokens just read)``; of no tokens, when it begins to read some."""


@final
@dataclass(frozen=True)
class Tracked:
    """What an examination has found.

    Args:
        subject: the name of the model.
        suite: the words.
        evaluations: by depth; under None where the model has no depths.
        trained_steps: the largest depth of training.
        stream: how far words are tracked, where the model can be read on.
        confusion: by coset, at the length and the depth that say most of it.
        confusion_steps: that depth.
        means: the class means of the model's vectors; None where they do not differ.
        means_of: what the vectors are.
        closure: what all its states and letters say of every length, where the model can be read on and its state
            be parted into words.
    """

    subject: str
    suite: Suite
    evaluations: dict[int | None, Evaluation]
    trained_steps: int | None
    stream: StreamEvaluation | None
    confusion: Confusion
    confusion_steps: int | None
    means: MeansInSpace | None
    means_of: str
    closure: Closure | None

    def to_json(self) -> dict[str, Any]:
        """All numbers as a plain dictionary; curves over many positions at some of them, closest at the beginning."""
        task = self.suite.task
        generators = task.group.generators
        return {
            "model": self.subject,
            "task": {
                "group": task.group.name,
                "order": task.group.order,
                "alphabet": task.alphabet,
                "letters": len(task.letters),
                "train_length": task.length,
                "seed": task.seed,
                "words": self.suite.words,
                "held_out": [list(pair) for pair in self.suite.held_out.pairs] if self.suite.held_out else [],
            },
            "trained_steps": self.trained_steps,
            "readings": [
                {"steps": steps, "lengths": [thinned(each.to_json()) for each in found.lengths]}
                for steps, found in self.evaluations.items()
            ],
            "closure": self.closure.to_json() if self.closure else None,
            "stream": self.stream.to_json() if self.stream else None,
            "confusion": {"steps": self.confusion_steps, **self.confusion.to_json()},
            "means": {"of": self.means_of, **self.means.to_json()} if self.means else None,
            # the Cayley graph: where each generator takes each element
            "edges": [[g, int(task.group.table[g, x])] for x in generators for g in range(task.group.order)],
        }


def portions(subject: Subject, suite: Suite, stream: Stream | None) -> tuple[Portion, ...]:
    """The work of an examination, in the order in which it is done.

    Args:
        subject: the model.
        suite: the words.
        stream: the words that are read on; None for none.
    """
    each = suite.words * (3 if suite.held_out else 1)
    found = [Portion(length, each * (length + 1)) for length in suite.lengths]
    if stream is not None:
        piece = subject.read_on.length if isinstance(subject.read_on, Chunked) else 1
        found.append(Portion(piece, stream.words * (stream.length + 1)))
    return tuple(found)


def track(
    subject: Subject,
    suite: Suite,
    stream: Stream | None = None,
    *,
    device: torch.device | str = "cpu",
    watch: Watch = lambda place, tokens: None,
) -> Tracked:
    """Examine a model in every way that it can be asked.

    Guarantees, each a test in ``tests/laws/test_track_laws.py``:

    * the evaluations are those of ``evaluate``, of a looped model those of ``evaluate_depths``, and
      the stream is that of ``evaluate`` on it;
    * watching changes nothing, and what is watched adds up to the portions, less the words given up.

    Args:
        subject: the model.
        suite: the words.
        stream: the words that are read on; None for none.
        device: where the tokens are put.
        watch: is told of what has been read.

    Raises:
        ValueError: as ``evaluate``, or when there is a stream and the model has no state.
    """
    if stream is not None and subject.read_on is None:
        raise ValueError(f"{subject.name} must have a state to be streamed: step(tokens, state), or Chunked")
    lengths = {length: place for place, length in enumerate(suite.lengths)}

    def asked_and_watched(tokens: Tensor, **given: Any) -> Any:
        place = lengths.get(tokens.shape[1] - 1)
        if place is None:
            return subject.answer(tokens, **given)
        watch(place, 0)
        result = subject.answer(tokens, **given)
        watch(place, tokens.numel())
        return result

    with asked(subject.answer):
        if subject.depths:
            by_depth = evaluate_depths(asked_and_watched, suite, subject.depths, device=device)
            evaluations: dict[int | None, Evaluation] = {**by_depth}
        else:
            evaluations = {None: evaluate(asked_and_watched, suite, device=device)}
        means, means_of = _means(subject, suite, device)
    followed = None
    if stream is not None and subject.read_on is not None:
        with asked_to_read(subject.read_on):
            watched = _watched(subject.read_on, partial(watch, len(lengths)), stream.words)
            followed = evaluate(watched, stream, device=device)
    steps = subject.trained_steps if subject.trained_steps in evaluations else next(reversed(evaluations))
    shown = _most_telling(evaluations[steps].lengths)
    return Tracked(
        subject.name,
        suite,
        evaluations,
        subject.trained_steps,
        followed,
        confusion_by_coset(shown, suite.task.group),
        steps,
        means,
        means_of,
        None if subject.read_on is None or subject.grows else _closure(subject.read_on, suite.task, device),
    )


def _closure(model: Step | Chunked, task: WordProblem, device: torch.device | str) -> Closure | None:
    step = one_by_one(model)
    with asked_to_read(model):
        _, state = step(torch.full((CLOSURE_WORDS,), task.begin, device=device), None)
        if not has_words_first(state, CLOSURE_WORDS) or not any(True for _ in tensors_of(state)):
            return None
        return prove_closure(step, task, most=MOST_STATES, words_at_once=CLOSURE_WORDS, device=device)


def _watched(model: Step | Chunked, watch: Callable[[int], None], words: int) -> Step | Chunked:
    """The same model, of which is told how many tokens of all words it has read."""
    chunked = isinstance(model, Chunked)
    read = model.read if isinstance(model, Chunked) else model

    def reading(tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        watch(0)
        found = read(tokens, state)
        watch(words * (tokens.shape[1] if chunked else 1))
        return found

    return replace(model, read=reading) if isinstance(model, Chunked) else reading


def _most_telling(lengths: tuple[LengthEvaluation, ...]) -> LengthEvaluation:
    """The longest words whose errors have a stage; else the longest that have errors beyond the frontier; else all."""
    staged = [each for each in lengths if each.stage and each.stage.stage]
    return (staged or [each for each in lengths if each.stage] or lengths)[-1]


@torch.no_grad()
def _means(subject: Subject, suite: Suite, device: torch.device | str) -> tuple[MeansInSpace | None, str]:
    """The class means at the last positions of words of the trained length."""
    length = min(suite.task.length, suite.lengths[-1])
    batch, last = suite.task.evaluation(MEAN_WORDS, length), min(MEAN_POSITIONS, length)
    tokens, targets = batch.tokens.to(device), batch.targets[:, -last:].flatten()
    vectors, name = subject.vectors(tokens, last) if subject.vectors else None, subject.vectors_are
    if vectors is None:
        vectors, name = logits_after(_at_one_depth(subject), tokens, last), "logits"
    return means_in_space(vectors.flatten(0, 1).cpu(), targets, suite.task.group), name


def _at_one_depth(subject: Subject) -> Model:
    """The logits of whole words, of a looped model at the depth of training."""
    if not subject.depths:
        return subject.answer
    steps = subject.trained_steps if subject.trained_steps in subject.depths else subject.depths[-1]
    return lambda tokens: subject.answer(tokens, steps=(steps,))[0]


_ALL_UP_TO, _AN_OCTAVE = 64, 32  # positions that are all kept, and how many of each later doubling are


def thinned(entry: dict[str, Any]) -> dict[str, Any]:
    """The numbers of one length, with its curves at some positions only, which are named.

    Args:
        entry: what ``LengthEvaluation.to_json`` gives.
    """
    length = entry["length"]
    doublings = (_ALL_UP_TO * 2 ** (step / _AN_OCTAVE) for step in range(length.bit_length() * _AN_OCTAVE))
    places = sorted({*range(1, min(length, _ALL_UP_TO) + 1), *(round(at) for at in doublings if at <= length), length})

    def thin(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: [part[place - 1] for place in places] if name in {"curve", "position"} else thin(part)
                for name, part in value.items()
            }
        return [thin(part) for part in value] if isinstance(value, list) else value

    return {**thin(entry), "positions": places}

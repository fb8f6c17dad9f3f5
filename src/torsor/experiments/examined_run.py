"""The model of a run of a word problem, ready to be examined by the tracking suite."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.experiments.modelled import what_is_modelled
from torsor.experiments.run import load
from torsor.experiments.study import Study
from torsor.experiments.word_examination import WordExamination
from torsor.models import LoopedTransformer
from torsor.models.attending import Attending
from torsor.tasks import WordProblem
from torsor.tracking import Chunked, HeldOutPairs, Recurrent, Stream, Subject, Suite
from torsor.tracking.subject import read_on_subject, subject_of
from torsor.training import read_run

STREAMED_WORDS, STREAMED_LETTERS = 100, 2**20
_CHUNK = 256


@final
@dataclass(frozen=True)
class Examined:
    """A subject and the word problem that it is examined on.

    Args:
        subject: the model.
        task: the word problem, of the length that the model was trained on.
        held_out: the pairs that training has left out, where it has.
    """

    subject: Subject
    task: WordProblem
    held_out: HeldOutPairs | None = None

    def suite(self, words: int, lengths: Sequence[int] = ()) -> Suite:
        """The words that are read whole: at these lengths, or at the usual multiples of the trained one.

        Raises:
            ValueError: when a number is out of range.
        """
        return Suite(self.task, words=words, held_out=self.held_out, at_lengths=tuple(lengths) or None)

    def stream(self, words: int, letters: int | None) -> Stream | None:
        """The words that are read on, a hundred at most; None where there is nothing to stream.

        Args:
            words: how many there are of the others.
            letters: in each; None for 1,048,576 where the model has a state that does not grow; 0 for no stream.

        Raises:
            ValueError: when the number of letters is negative.
        """
        if letters is None:
            letters = STREAMED_LETTERS if self.subject.read_on is not None and not self.subject.grows else 0
        if letters < 0:
            raise ValueError(f"stream must be a number of letters, or 0 for none, got {letters}")
        return Stream(self.task, letters, min(words, STREAMED_WORDS)) if letters else None


def examined_run(path: Path, seed: int | None = None, device: torch.device | str = "cpu") -> Examined:
    """A run's model as its last checkpoint has it: a looped one at its depths, one with a state by reading on.

    Args:
        path: a run folder; the run may be going on.
        seed: of the words; that of the run's own evaluation by default.
        device: where the model is put.

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when the run is of no word problem.
    """
    study = load(path)
    task, held_out = study.task, None
    if isinstance(task, HeldOutPairs):
        task, held_out = task.task, task
    if not isinstance(task, WordProblem):
        raise ValueError(f"{path} must hold a model of a word problem, it holds one of {what_is_modelled(study)}")
    if seed is not None:
        task = replace(task, seed=seed)
        held_out = replace(held_out, task=task) if held_out else None
    described = read_run(path)
    name = f"{study.label}, seed {described.seed}"
    return Examined(_subject(path, study, name, task.vocabulary, device), task, held_out)


def _subject(path: Path, study: Study, name: str, vocabulary: int, device: torch.device | str) -> Subject:
    model = study.model.to(device)
    if isinstance(model, LoopedTransformer):
        if not isinstance(study.examination, WordExamination):
            raise ValueError(f"{path} must say at which depths its model is examined, {study.label} does not")
        depths, trained = study.examination.depths, study.examination.trained_steps
        vectors = partial(before_readout, model, trained)
        return Subject(name, model, depths=depths, trained_steps=trained, vectors=vectors, vectors_are="state")
    if isinstance(model, Attending):
        return Subject(name, model)  # its state is all that it has read
    if isinstance(model, Recurrent):
        return read_on_subject(name, model, Chunked(model, _CHUNK), vocabulary, device)
    return subject_of(model, name, vocabulary, device)


@torch.no_grad()
def before_readout(
    model: LoopedTransformer, steps: int, tokens: Tensor, last: int
) -> Float[Tensor, "batch last width"]:
    """What the readout of a looped model reads at the last positions.

    Args:
        model: as it is; it is left in the mode it was in.
        steps: loops.
        tokens: whole words.
        last: how many positions.
    """
    kept: list[Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        kept.append(inputs[0])

    hook = model.readout.register_forward_pre_hook(keep)
    try:
        model(tokens, steps=steps)
    finally:
        hook.remove()
    return kept[-1][:, -last:]

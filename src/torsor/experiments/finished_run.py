"""A finished run as it is handed on: the trained model, what its tokens are, and the numbers of its record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from torch import nn

from torsor.experiments.language_data import language_data
from torsor.experiments.language_examination import LanguageExamination
from torsor.experiments.reading import evaluation
from torsor.experiments.run import CHECKING, rebuild
from torsor.experiments.study import Examination
from torsor.experiments.word_examination import WordExamination
from torsor.models import LoopedTransformer
from torsor.tasks import Characters, PackedTokens, Task, WordProblem
from torsor.text import Tokenizer
from torsor.training import load_weights, read_run
from torsor.training.run_description import RUNNING


@final
@dataclass(frozen=True)
class FinishedRun:
    """What another program needs of a run.

    Args:
        model: trained, on the CPU, in evaluation mode.
        tokenizer: that it was trained with; None for characters, and where tokens are no text.
        symbols: the character of every token of a model of plain characters; None for any other.
        steps: loops that a looped model was trained with; None for any other.
        labels: whether it labels what it reads, in place of naming the next token.
        about: the run's record, by name.
        scores: of its examination.
    """

    model: nn.Module
    tokenizer: Tokenizer | None
    symbols: str | None
    steps: int | None
    labels: bool
    about: dict[str, Any]
    scores: dict[str, Any]


def finished_run(path: Path) -> FinishedRun:
    """A finished run, with the weights of its last checkpoint.

    Raises:
        RunFolderError: when the folder is no run folder or its checkpoint cannot be read.
        ValueError: when the run is not finished, or its task is neither a language's nor a word problem.
    """
    described = read_run(path)
    if not described.finished:
        state = "has not ended" if described.status == RUNNING else f"is {described.status}"
        command = described.command(path) or "the command that began it"
        raise ValueError(f"{path} must hold a finished run, this one {state}: {command} goes on")
    study, _ = rebuild(path)
    tokenizer, symbols, labels = _tokens(study.task, path, described.arguments)
    load_weights(path, study.model, watch=CHECKING)
    return FinishedRun(
        study.model.eval(),
        tokenizer,
        symbols,
        _steps(study.model, study.examination),
        labels,
        {
            "experiment": described.experiment,
            **{name: described.about[name] for name in ("label", "parameters", "command") if name in described.about},
            **described.arguments,
            **{f"version of {name}": version for name, version in described.versions.items()},
        },
        evaluation(path),
    )


def _tokens(task: Task, path: Path, arguments: dict[str, Any]) -> tuple[Tokenizer | None, str | None, bool]:
    match task:
        case Characters():
            return None, task.symbols, False
        case PackedTokens():
            return language_data(arguments["text"], arguments["entries"]).tokenizer, None, False
        case WordProblem():
            return None, None, True
    raise ValueError(f"{path} must hold a run on text or on a word problem, its task is {type(task).__name__}")


def _steps(model: nn.Module, examination: Examination) -> int | None:
    if isinstance(model, LoopedTransformer) and isinstance(examination, LanguageExamination | WordExamination):
        return examination.trained_steps
    return None

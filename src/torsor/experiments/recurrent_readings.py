"""How the tables of the recurrent experiments read a finished run."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from torsor.experiments.reading import Cell, Reading, evaluation


@final
@dataclass(frozen=True)
class AccuracyByLength(Reading):
    """Accuracies of a word problem at the trained length, twice and four times it, and of streamed words."""

    axis = "letters"
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "last", "joint")
    legend = "accuracy: over all positions; last: at the last position; joint: the whole word right"

    def cells(self, run: Path) -> tuple[Cell, ...]:
        found = evaluation(run)
        return tuple(_accuracies(scores) for scores in (*found["lengths"], found["stream"]))

    def merit(self, run: Path) -> float:
        """The mean accuracy over the three lengths, without the stream."""
        lengths = evaluation(run)["lengths"]
        return sum(each["token"] for each in lengths) / len(lengths)


@final
@dataclass(frozen=True)
class ListOpsAccuracy(Reading):
    """The share of expressions that are evaluated right, and what their first operator gives by itself."""

    axis = "expressions"
    scores: ClassVar[tuple[str, ...]] = ("accuracy", "balanced", "first operator")
    legend = (
        "balanced: the mean over the ten values of the accuracy where it is the value; "
        "first operator: always the commonest value of the outermost operator, a control"
    )

    def cells(self, run: Path) -> tuple[Cell, ...]:
        found = evaluation(run)["expressions"]
        return tuple(_proportions(found[part]) for part in ("validation", "test"))

    def merit(self, run: Path) -> float:
        """The accuracy on the expressions for validation."""
        return evaluation(run)["expressions"]["validation"]["accuracy"]


def _accuracies(scores: Mapping[str, Any]) -> Cell:
    return _cell(scores, scores["words"], {"accuracy": "token", "last": "last", "joint": "joint"})


def _proportions(scores: Mapping[str, Any]) -> Cell:
    names = {"accuracy": "accuracy", "balanced": "balanced", "first operator": "first_operator"}
    return _cell(scores, scores["expressions"], names)


def _cell(scores: Mapping[str, Any], count: int, names: Mapping[str, str]) -> Cell:
    return Cell({name: scores[key] for name, key in names.items()}, dict.fromkeys(names, count))

"""How a table reads a finished run: which numbers stand in which column, and which of them is the headline."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final


@final
@dataclass(frozen=True)
class Cell:
    """What one run has to say in one column.

    Args:
        values: each score by its name; None where the run has no such number.
        counts: how many examples each score rests on.
        here: what the column stands for in this run, where that differs from the paper's name of it.
    """

    values: Mapping[str, float | None]
    counts: Mapping[str, int]
    here: str = ""


class Reading(ABC):
    """The numbers of a table. To add one: a final class with the members below; it must not import torch.

    Attributes:
        axis: what the columns are: "depth", "split".
        scores: names of the scores, the headline first: that one is set against the paper's number.
        legend: what the scores are, one line under the table.
        number: the format of a score.
    """

    axis: ClassVar[str]
    scores: ClassVar[tuple[str, ...]]
    legend: ClassVar[str]
    number: ClassVar[str] = ".3f"

    @abstractmethod
    def cells(self, run: Path) -> tuple[Cell, ...]:
        """One cell for each column of the table, from the files of a finished run."""

    @abstractmethod
    def merit(self, run: Path) -> float:
        """A number of a finished run by which the values of a tuned argument are compared; the larger the better.

        It must not rest on what the table calls a test.
        """


@final
@dataclass(frozen=True)
class AccuracyByDepth(Reading):
    """Accuracies of a word problem at each evaluated depth.

    Which of the three the paper means is not certain, so all stand side by side.
    """

    axis = "depth"
    scores = ("joint", "last", "conditional")
    legend = "joint: the whole word right; conditional: the last position, among the words right before it"

    def cells(self, run: Path) -> tuple[Cell, ...]:
        return tuple(
            Cell(
                {name: depth[name] for name in self.scores},
                {"joint": depth["words"], "last": depth["words"], "conditional": depth["conditional_count"]},
                f"{depth['steps']} loops",
            )
            for depth in evaluation(run)["depths"]
        )

    def merit(self, run: Path) -> float:
        """The mean joint accuracy over the evaluated depths."""
        depths = evaluation(run)["depths"]
        return sum(depth["joint"] for depth in depths) / len(depths)


@final
@dataclass(frozen=True)
class BitsPerCharacter(Reading):
    """Bits per character of validation and test text; the smaller the better."""

    axis = "text"
    scores = ("bits",)
    legend = "bits: per character, every character but the first scored once"

    def cells(self, run: Path) -> tuple[Cell, ...]:
        scores = evaluation(run)
        return tuple(
            Cell({"bits": scores[part]["bits_per_character"]}, {"bits": scores[part]["characters"]})
            for part in ("validation", "test")
        )

    def merit(self, run: Path) -> float:
        """Minus the bits of the validation text."""
        return -evaluation(run)["validation"]["bits_per_character"]


def evaluation(run: Path) -> dict[str, Any]:
    """The scores of a finished run."""
    from torsor.training.durable import read_json  # late: a table is declared without torch

    return read_json(run / "evaluation.json")

"""How a table reads a finished run: which numbers stand in which column, and which of them is the headline."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

if TYPE_CHECKING:
    from torsor.training import RunDescription


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
        admits_divergence: whether a run that met a number that is not finite is a result, and no mistake.
    """

    axis: ClassVar[str]
    scores: ClassVar[tuple[str, ...]]
    legend: ClassVar[str]
    number: ClassVar[str] = ".3f"
    admits_divergence: ClassVar[bool] = False

    @abstractmethod
    def cells(self, run: Path) -> tuple[Cell, ...]:
        """One cell for each column of the table, from the files of a finished run."""

    @abstractmethod
    def merit(self, run: Path) -> float:
        """A number of a finished run by which the values of a tuned argument are compared; the larger the better.

        It must not rest on what the table calls a test.
        """

    def told(self, merit: float) -> str:
        """A merit as it is printed: the number that a reader knows it by."""
        return f"{merit:{self.number}}"


@final
@dataclass(frozen=True)
class AccuracyByDepth(Reading):
    """Accuracies of a word problem at each evaluated depth.

    Which of the three the paper's last-token accuracy is, is not certain, so all stand side by side. It is called
    demanding there, so the one that asks for all positions before the last, too, is set against it.
    """

    axis = "depth"
    scores: ClassVar[tuple[str, ...]] = ("joint", "last", "conditional")
    legend = (
        "joint: the whole word right, which is how we read the paper's last-token accuracy; last: the last position "
        "right, whatever stands before it; conditional: the last position, among the words right before it"
    )

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
    scores: ClassVar[tuple[str, ...]] = ("bits",)
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

    def told(self, merit: float) -> str:
        """The bits of the validation text."""
        return f"{-merit:{self.number}}"


@final
@dataclass(frozen=True)
class PerplexityByDepth(Reading):
    """Perplexity of held-out text at each evaluated depth, and LAMBADA where it was scored."""

    axis = "depth"
    scores: ClassVar[tuple[str, ...]] = ("perplexity", "bits per byte", "LAMBADA")
    legend = "perplexity: over held-out tokens that are no special ones; LAMBADA: the whole last word by greedy choice"
    number = ".3f"

    def cells(self, run: Path) -> tuple[Cell, ...]:
        scores = evaluation(run)
        last = {each["steps"]: each for each in scores["lambada_by_depth"]}
        return tuple(
            Cell(
                {
                    "perplexity": depth["perplexity"],
                    "bits per byte": depth["bits_per_byte"],
                    "LAMBADA": last[depth["steps"]]["accuracy"] if depth["steps"] in last else None,
                },
                {
                    "perplexity": depth["labels"],
                    "bits per byte": depth["labels"],
                    "LAMBADA": last[depth["steps"]]["passages"] if depth["steps"] in last else 0,
                },
            )
            for depth in scores["perplexity_by_depth"]
        )

    def merit(self, run: Path) -> float:
        """Minus the mean over depths of the negative log-likelihood of a label."""
        depths = evaluation(run)["perplexity_by_depth"]
        return -sum(depth["nats"] / depth["labels"] for depth in depths) / len(depths)


@final
@dataclass(frozen=True)
class DefectBySteps(Reading):
    """Toeplitz defect of a trained run's transition over its own blocks and the whole vector.

    Args:
        steps: of the iterates that are compared, one number for each column.
    """

    steps: tuple[int, ...]

    axis = "steps"
    scores: ClassVar[tuple[str, ...]] = ("own blocks", "whole vector")
    legend = "relative Frobenius distance of the Gram matrix from its Toeplitz projection, mean over 256 probes"
    number = ".1e"

    def cells(self, run: Path) -> tuple[Cell, ...]:
        from torsor.experiments.trained_defects import trained_defects  # late: a table is declared without torch

        return tuple(
            Cell({"own blocks": own, "whole vector": whole}, {"own blocks": 256, "whole vector": 256})
            for own, whole in trained_defects(run, self.steps)
        )

    def merit(self, run: Path) -> float:
        """Nothing is chosen by a defect: 0 for every run."""
        return 0.0


def description(run: Path) -> "RunDescription":
    """What a run folder says of itself."""
    from torsor.training import read_run  # late: a table is declared without torch

    return read_run(run)


def trained_geometry(run: Path) -> dict[str, Any]:
    """What was measured of a finished run's transition."""
    from torsor.training.durable import DamagedFileError, RunFolderError, read_json  # late, as above

    try:
        return read_json(run / "geometry.json")
    except DamagedFileError as error:
        raise RunFolderError(f"{error}; torsor measure {run} writes it again") from error


def evaluation(run: Path) -> dict[str, Any]:
    """The scores of a finished run.

    Raises:
        RunFolderError: when they are not there or cannot be read; the line says what makes them again.
    """
    from torsor.training.durable import RunFolderError, read_json  # late: a table is declared without torch

    path = run / "evaluation.json"
    if not path.is_file():
        finished = description(run).finished
        how = "examines the model again" if finished else "goes on"
        state = "finished" if finished else "not ended"
        raise RunFolderError(f"{path} is not there and the run has {state}: {_command(run)} {how}")
    try:
        scores = read_json(path)
    except RunFolderError as error:
        raise RunFolderError(f"{error}; {_remedy(run)}") from error
    if not isinstance(scores, dict):
        raise RunFolderError(f"{path} must hold a JSON object, it does not; {_remedy(run)}")
    return scores


def _command(run: Path) -> str:
    return description(run).command(run) or "torsor train with the same arguments"


def _remedy(run: Path) -> str:
    return f"delete it, and {_command(run)} examines the model again"

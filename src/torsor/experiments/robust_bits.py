"""Bits per character of runs some of which diverge, and what is left of an optimizer over several learning rates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any, ClassVar, final

from torsor.experiments.reading import Cell, Reading, evaluation
from torsor.experiments.table import Table

LIMIT = log2(65)  # bits of whoever knows nothing of Tiny Shakespeare


@final
@dataclass(frozen=True)
class BitsOrDiverged(Reading):
    """Bits per character of validation and test text, or nothing where a run met a number that is not finite."""

    axis = "text"
    scores: ClassVar[tuple[str, ...]] = ("bits",)
    legend = "bits: per character, every character but the first scored once; none: the run diverged"
    admits_divergence = True

    def cells(self, run: Path) -> tuple[Cell, ...]:
        if not (run / "evaluation.json").is_file():
            return tuple(Cell({"bits": None}, {"bits": 0}) for _ in range(2))
        scores = evaluation(run)
        return tuple(
            Cell({"bits": scores[part]["bits_per_character"]}, {"bits": scores[part]["characters"]})
            for part in ("validation", "test")
        )

    def merit(self, run: Path) -> float:
        """Minus the bits of the validation text; worse than any of them for a run that diverged."""
        bits = self.cells(run)[0].values["bits"]
        return float("-inf") if bits is None else -bits

    def told(self, merit: float) -> str:
        """The bits of the validation text; inf for a run that diverged."""
        return f"{-merit:{self.number}}"


def robustness(
    table: Table, content: Sequence[Mapping[str, Any]], column: str, limit: float = LIMIT
) -> list[dict[str, Any]]:
    """What the runs of each panel and series of a table come to, over their places and seeds.

    Args:
        table: whose rows have places; a row's place is a learning rate.
        content: what ``results`` gave for its rows.
        column: whose headline is looked at.
        limit: bits from which a run has learnt nothing and counts as diverged.

    Returns:
        For each panel and series the lowest bits and their rate, how far the runs that have not diverged
        lie apart, how many runs there are, and the share of them that diverged.
    """
    gathered: dict[tuple[str, str], list[tuple[float, float | None]]] = {}
    for given in content:
        place = table.row(given["row"]).place
        if place is None:
            continue
        bits = given["columns"][column]["ours"][table.reading.scores[0]]["seeds"]
        gathered.setdefault((place.panel, place.series), []).extend((place.at, each) for each in bits)
    return [
        {"panel": panel, "series": series} | _robustness([(at, bits) for at, bits in runs], limit)
        for (panel, series), runs in gathered.items()
    ]


def _robustness(runs: Sequence[tuple[float, float | None]], limit: float) -> dict[str, Any]:
    sound = sorted((bits, at) for at, bits in runs if bits is not None and bits < limit)
    best, rate = sound[0] if sound else (None, None)
    return {
        "best": best,
        "at": rate,
        "spread": sound[-1][0] - sound[0][0] if sound else None,
        "runs": len(runs),
        "diverged": None if not runs else 1 - len(sound) / len(runs),
    }

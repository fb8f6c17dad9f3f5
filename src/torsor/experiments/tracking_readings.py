"""How the table of learned trackers reads a finished run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from torsor.experiments.reading import Cell, Reading, evaluation


@final
@dataclass(frozen=True)
class ProvenAndRight(Reading):
    """Whether a tracker is proven right at every length, and how many words it has right at some."""

    axis = "words"
    scores: ClassVar[tuple[str, ...]] = ("right", "token")
    legend = (
        "every length: 1 for a run that is proven right by closure over all its states, 0 for one that is not; "
        "elsewhere right: the share of words without an error, token: of all positions; once, twice, 4 times: words of "
        "that many times the length trained up to, which is 128 letters where a row says nothing else; "
        "held-out pairs: words into which pairs are written that training never has"
    )

    def cells(self, run: Path) -> tuple[Cell, ...]:
        found = evaluation(run)
        shown = [_words(scores) for scores in found["lengths"]]
        pairs, stream = found.get("held_out"), found.get("stream")
        return (_proof(found), *shown, _words(pairs and pairs["forced"]), _words(stream))

    def merit(self, run: Path) -> float:
        """The mean accuracy over the three lengths."""
        lengths = evaluation(run)["lengths"]
        return sum(each["token"] for each in lengths) / len(lengths)


def _proof(found: dict[str, Any]) -> Cell:
    closure = found.get("closure")
    here = "no state" if closure is None else closure["verdict"]
    return Cell({"right": float(here == "proven"), "token": None}, {"right": 1, "token": 0}, here)


def _words(scores: dict[str, Any] | None) -> Cell:
    if not scores:
        return Cell({"right": None, "token": None}, {"right": 0, "token": 0})
    return Cell(
        {"right": scores["joint"], "token": scores["token"]}, dict.fromkeys(("right", "token"), scores["words"])
    )

"""What the page holds of state tracking: the models that were examined, sentences, charts and pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torsor.report import tracking_curves, tracking_pictures, wording
from torsor.report.figure import Figure
from torsor.report.rows import Row
from torsor.report.run import Run
from torsor.report.sentences import Sentence
from torsor.report.tracking_run import LengthScores, Reading, Tracking


@final
@dataclass(frozen=True)
class Examined:
    """One model that was examined; its pictures are of the depth of training."""

    row: Row
    run: Run
    tracking: Tracking
    pictures: Figure


@final
@dataclass(frozen=True)
class Tracked:
    """Everything that the page says of state tracking."""

    names: tuple[str, ...]
    reading: tuple[Sentence, ...]
    figures: tuple[Figure, ...]
    examined: tuple[Examined, ...]


def tracked_of(table: Sequence[Row]) -> Tracked | None:
    """What the page says of the runs that were examined or recorded stages; None where there is none."""
    found = [(row, run, run.tracking) for row in table for run in row.runs if run.tracking]
    recorded = [(row, run.stages) for row in table for run in row.runs if run.stages]
    passage = tracking_curves.passage(recorded)
    if not found and passage is None:
        return None
    figures = tracking_curves.by_position([(row, tracking) for row, _, tracking in found]) if found else []
    return Tracked(
        names=tuple(dict.fromkeys(f"tracking of {tracking.task}" for _, _, tracking in found)),
        reading=tuple(_sentence(row, run, tracking) for row, run, tracking in found),
        figures=(*figures, *([passage] if passage else [])),
        examined=tuple(
            Examined(row, run, tracking, tracking_pictures.pictures(tracking)) for row, run, tracking in found
        ),
    )


def verdict(scores: LengthScores) -> str:
    """The stage, or that there is none and why."""
    if scores.stage:
        nearness = "" if scores.stage.distance is None else f", d = {scores.stage.distance:.3f}"
        return f"stage: {scores.stage.name}{nearness}"
    if scores.joint == 1:
        return "no stage: no errors"
    return f"no stage: {scores.no_stage}" if scores.no_stage else wording.NOTHING


def half(scores: LengthScores) -> int:
    """The last recorded position up to which half of the words have no error; 0 where there is none."""
    curve = zip(scores.positions, scores.curve, strict=False)
    return max((at for at, value in curve if value is not None and value >= 0.5), default=0)


def depth_name(reading: Reading, tracking: Tracking) -> str:
    """At how many loops, where there are any."""
    if reading.steps is None:
        return ""
    return f"{reading.steps} loops{', trained' if reading.steps == tracking.trained_steps else ''}"


def _sentence(row: Row, run: Run, tracking: Tracking) -> Sentence:
    first, last = tracking.main.lengths[0], tracking.main.lengths[-1]
    seed = f" (seed {run.seed})" if len(row.runs) > 1 else ""
    told = "" if first.joint is None else f"{wording.percent(first.joint)} of words of length {first.length} right; "
    phrases = [(row.label, row.css), (f"{seed} on {tracking.task}: {told}", "")]
    streamed = tracking.streamed
    if streamed and streamed.joint is not None:
        words, length = wording.whole(streamed.words), wording.whole(streamed.length)
        phrases.append(
            (f"{wording.percent(streamed.joint)} of {words} words of {length} letters without an error; ", "")
        )
    else:
        phrases.append((f"half of those of length {last.length} without an error up to position {half(last)}; ", ""))
    said = verdict(last)
    return [
        *phrases,
        (f"at length {last.length}, {said}." if said != wording.NOTHING else "no stage was looked for.", ""),
    ]

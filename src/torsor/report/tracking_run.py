"""What ``tracking.json`` and the stage records of a run hold, as plain values."""

from dataclasses import dataclass
from typing import final

from torsor.report.numbers import Interval, Matrix, Series


@final
@dataclass(frozen=True)
class Reach:
    """How far words are tracked: the longest beginning at whose every position enough answers are right."""

    threshold: float
    value: int
    low: int
    high: int


@final
@dataclass(frozen=True)
class StageFound:
    """The cosets that a model tells apart and no more: of which subgroup, on which side, how near the errors are."""

    order: int
    side: str
    normal: bool
    distance: float | None

    @property
    def name(self) -> str:
        """Which cosets they are."""
        kind = "normal" if self.normal else f"{self.side} cosets"
        return f"order {self.order}, {kind}"


@final
@dataclass(frozen=True)
class AbelianControl:
    """How well the cosets of the commutator subgroup are tracked, and the answers inside them."""

    order: int
    token: float | None
    joint: float | None
    inside: float | None
    interval: Interval | None


@final
@dataclass(frozen=True)
class LengthScores:
    """The scores on words of one length, and the controls."""

    length: int
    words: int | None
    joint: float | None
    interval: Interval | None
    token: float | None
    token_interval: Interval | None
    reaches: tuple[Reach, ...]
    chance: float | None
    ceiling: float | None
    ceiling_kind: str | None
    abelian: AbelianControl | None
    stage: StageFound | None
    no_stage: str | None
    window: int | None
    familiar: float | None
    forced: float | None
    positions: tuple[int, ...]
    curve: Series
    right: Series


@final
@dataclass(frozen=True)
class Reading:
    """The scores of one model at one depth; a model without depths has none."""

    steps: int | None
    lengths: tuple[LengthScores, ...]


@final
@dataclass(frozen=True)
class Streamed:
    """Words that were read on, to their first error or to their end.

    ``right`` is the accuracy since the position before, where they were read to their end.
    """

    length: int
    words: int | None
    joint: float | None
    interval: Interval | None
    frontier: int | None
    positions: tuple[int, ...]
    unbroken: Series
    intervals: tuple[Interval | None, ...]
    right: Series


@final
@dataclass(frozen=True)
class Confused:
    """Counts of answers to each element, arranged by cosets."""

    steps: int | None
    length: int | None
    first: int | None
    order: int
    side: str
    chosen: str
    sizes: tuple[int, ...]
    elements: tuple[int, ...]
    counts: Matrix


@final
@dataclass(frozen=True)
class Placed:
    """Where the mean vector of each element lies, in three directions."""

    of: str
    share: float | None
    scatter: float | None
    coordinates: tuple[Series, ...]


@final
@dataclass(frozen=True)
class Tracking:
    """What one model has learnt about a group: ``tracking.json``, or what was recorded at the end of its training."""

    model: str
    command: str | None
    group: str | None
    order: int | None
    alphabet: str | None
    letters: int | None
    train_length: int | None
    held_out: int
    trained_steps: int | None
    readings: tuple[Reading, ...]
    streamed: Streamed | None
    confused: Confused | None
    placed: Placed | None
    edges: tuple[tuple[int, int], ...]
    proof: str | None = None

    @property
    def main(self) -> Reading:
        """The reading at the depth of training, or the deepest."""
        return next((each for each in self.readings if each.steps == self.trained_steps), self.readings[-1])

    @property
    def task(self) -> str:
        """What was tracked."""
        letters = {"generators": "from its generators", "all": "from all its elements"}
        return (
            f"{self.group or 'an unnamed group'} {letters.get(self.alphabet or '', 'from letters that are not named')}"
        )


@final
@dataclass(frozen=True)
class StageCheck:
    """A look at the errors while the model was trained."""

    update: int
    stage: StageFound | None
    exact: bool


@final
@dataclass(frozen=True)
class StageHeld:
    """A stage that lasted, from one update to another."""

    stage: StageFound
    first: int
    last: int


@final
@dataclass(frozen=True)
class StageRecord:
    """The stages that a run passed through; looks at it and what lasted, where either was recorded."""

    checks: tuple[StageCheck, ...]
    held: tuple[StageHeld, ...]

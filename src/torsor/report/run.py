"""What a run folder holds, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from torsor.report.numbers import Interval, Matrix, Series
from torsor.report.tracking_run import StageRecord, Tracking


@final
@dataclass(frozen=True)
class Task:
    """What the words were: equal tasks are the only ones whose scores may be compared."""

    group: str | None
    length: int | None
    alphabet: str | None
    words: int | None


@final
@dataclass(frozen=True)
class Depth:
    """The scores of one run at one number of recurrent steps."""

    steps: int
    joint: float | None
    interval: Interval | None
    last: float | None
    token: float | None
    conditional: float | None
    conditional_count: int | None
    curve: Series
    position: Series


@final
@dataclass(frozen=True)
class Evaluation:
    """``evaluation.json``: the scores at every depth that was tried, by growing depth."""

    task: Task
    trained_steps: int | None
    depths: tuple[Depth, ...]

    def at(self, steps: int) -> Depth | None:
        """The scores at this depth, or None where it was not tried."""
        return next((depth for depth in self.depths if depth.steps == steps), None)


@final
@dataclass(frozen=True)
class Text:
    """Which text a character model learned; the hash is over the split and all parts."""

    name: str | None
    split: str | None
    sha256: str | None
    symbols: int | None


@final
@dataclass(frozen=True)
class Part:
    """A part of a text, how many of its characters were scored, and what the model had read before each of them."""

    name: str
    characters: int | None
    protocol: str | None


@final
@dataclass(frozen=True)
class Examined:
    """What was scored and how: equal ones are the only ones whose bits per character may be compared."""

    text: Text
    parts: tuple[Part, ...]

    @property
    def protocol(self) -> str:
        """The protocol of all parts, or that of each where they differ."""
        said = {part.name: part.protocol or "a protocol that is not recorded" for part in self.parts}
        if len(set(said.values())) < 2:
            return next(iter(said.values()), "nothing was scored")
        return "; ".join(f"{name}: {protocol}" for name, protocol in said.items())


@final
@dataclass(frozen=True)
class TextScores:
    """``evaluation.json`` of a character model: bits per character by the name of the part."""

    examined: Examined
    bits: Mapping[str, float | None]


@final
@dataclass(frozen=True)
class Spread:
    """A mean and a standard deviation over probes."""

    mean: float | None
    std: float | None


@final
@dataclass(frozen=True)
class Geometry:
    """``geometry.json``: what was measured of one transition, over its own blocks and over the whole vector."""

    blocks: tuple[tuple[int, int], ...]
    spectrum: tuple[tuple[float, float, int], ...]
    gram: Matrix
    gram_own: tuple[Matrix, ...]
    lag_own: Series
    lag_whole: Series
    readability_own: float | None
    readability_whole: float | None
    readability_formula: str | None
    toeplitz_own: Spread
    toeplitz_whole: Spread
    toeplitz_formula: str | None
    steps: int | None
    probes: int | None
    initial: "Geometry | None"


@final
@dataclass(frozen=True)
class Update:
    """One line of ``metrics.jsonl`` that tells of an optimizer update."""

    update: int
    loss: float | None
    gradient_norm: float | None
    learning_rate: float | None
    length: float | None


@final
@dataclass(frozen=True)
class Check:
    """One line of ``metrics.jsonl`` that tells of an evaluation during training."""

    update: int
    steps: int | None
    joint: float | None
    token: float | None
    last: float | None
    bits: float | None


@final
@dataclass(frozen=True)
class Sample:
    """``generated.json``: what the trained model writes after a prompt; ``ended`` says why it stopped early."""

    prompt: str
    text: str
    temperature: float | None
    seed: int | None
    steps: int | None
    ended: str | None


@final
@dataclass(frozen=True)
class Run:
    """Everything a run folder holds; a file that is missing is None, and so is ``text`` where words were learned.

    ``damage`` says what is lost of a file that was truncated. The folder of a user's own model holds ``tracking``
    and no training: it is ``foreign``.
    """

    folder: Path
    label: str
    experiment: str
    arguments: Mapping[str, object]
    seed: int | None
    versions: Mapping[str, str]
    threads: int | None
    status: str | None
    command: str | None
    parameters: int | None
    updates: tuple[Update, ...] | None
    checks: tuple[Check, ...]
    seconds: float | None
    tokens: float | None
    evaluation: Evaluation | None
    text: Text | None
    text_scores: TextScores | None
    geometry: Geometry | None
    tracking: Tracking | None = None
    stages: StageRecord | None = None
    sample: Sample | None = None
    damage: str | None = None
    foreign: bool = False

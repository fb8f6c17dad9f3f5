"""Runs gathered into rows: one row is one setting, its runs are its seeds."""

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import final

from scipy.special import stdtrit

from torsor.report import wording
from torsor.report.numbers import Interval
from torsor.report.run import Depth, Examined, Run

CONFIDENCE = 0.95


@final
@dataclass(frozen=True)
class Mean:
    """A mean over seeds with the half-width of its 95 % Student interval, None below two seeds."""

    value: float
    half_width: float | None
    count: int


@final
@dataclass(frozen=True)
class Row:
    """The runs of one setting, ordered by seed, with the letter that stands for them in every chart."""

    key: str
    css: str
    label: str
    runs: tuple[Run, ...]

    @property
    def trained_steps(self) -> int | None:
        """The depth of training, where the runs agree on one."""
        found = {run.evaluation.trained_steps for run in self.runs if run.evaluation}
        return found.pop() if len(found) == 1 else None

    @property
    def depths(self) -> tuple[int, ...]:
        """Every depth at which some seed was evaluated."""
        return tuple(sorted({depth.steps for run in self.runs if run.evaluation for depth in run.evaluation.depths}))

    @property
    def reads_text(self) -> bool:
        """Whether a text was learned, and not words."""
        return any(run.text for run in self.runs)

    @property
    def sampled(self) -> Run | None:
        """The first run of which a text was drawn."""
        return next((run for run in self.runs if run.sample), None)

    @property
    def foreign(self) -> bool:
        """Whether it was examined and not trained here."""
        return all(run.foreign for run in self.runs)

    @property
    def looped(self) -> bool:
        """Whether its model has depths to be compared at; until it is scored, it may."""
        scored = [run.evaluation for run in self.runs if run.evaluation]
        return not self.foreign and (not scored or any(evaluation.depths for evaluation in scored))

    @property
    def examined(self) -> Examined | None:
        """The text and how it was scored, the same for every seed that was; None where none was."""
        return next((run.text_scores.examined for run in self.runs if run.text_scores), None)

    def bits(self, part: str) -> Mean | None:
        """Bits per character of one part of the text, over seeds."""
        return mean([run.text_scores.bits.get(part) for run in self.runs if run.text_scores])

    def at(self, steps: int) -> tuple[Depth, ...]:
        """The scores at one depth, one for each seed that has them."""
        found = (run.evaluation.at(steps) for run in self.runs if run.evaluation)
        return tuple(depth for depth in found if depth is not None)

    def joint(self, steps: int) -> Mean | None:
        """Joint accuracy at one depth, over seeds; of two it has no interval.

        Student's of two seeds is 12.7 times their half distance: of a share that is no statement, and each of
        the two says more.
        """
        found = mean([depth.joint for depth in self.at(steps)])
        return found if found is None or found.count > 2 else Mean(found.value, None, found.count)

    def joints(self, steps: int) -> tuple[float, ...]:
        """Joint accuracy at one depth, of each seed that has it."""
        return tuple(depth.joint for depth in self.at(steps) if depth.joint is not None)

    def interval(self, steps: int) -> Interval | None:
        """The interval of the joint accuracy: Student's over seeds, within 0 and 1, or Clopper-Pearson's over words.

        The second for one seed alone; None for two.
        """
        found = self.joint(steps)
        if found is None or found.count == 2:
            return None
        if found.half_width is not None:
            return max(0.0, found.value - found.half_width), min(1.0, found.value + found.half_width)
        return next((depth.interval for depth in self.at(steps) if depth.joint is not None), None)


def mean(values: Sequence[float | None]) -> Mean | None:
    r"""The mean of what was measured, :math:`\bar x \pm t_{n-1,\,0.975}\, s / \sqrt n`; None of nothing."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    count = len(known)
    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2)) if count > 1 else 0.0
    return Mean(fmean(known), quantile * stdev(known) / count**0.5 if count > 1 else None, count)


def gather(runs: Sequence[Run]) -> tuple[Row, ...]:
    """Gather runs that differ in nothing but the seed, in the order in which the settings first appear.

    Runs of one setting that were scored on other data, or by another protocol, are rows of their own, and so are
    several runs of one seed: they are no seeds to take a mean over.
    """
    gathered: dict[str, list[Run]] = {}
    for run in runs:
        gathered.setdefault(json.dumps([run.experiment, run.label, _setting(run)], sort_keys=True), []).append(run)
    settings = [
        once for setting in gathered.values() for alike in _examined_alike(setting) for once in _each_seed_once(alike)
    ]
    names = [setting[0].label for setting in settings]
    found = []
    for index, setting in enumerate(settings):
        twins = [other[0] for other in settings if other[0].label == names[index]]
        key = string.ascii_uppercase[index] if index < 26 else str(index + 1)
        seeds = sorted(setting, key=lambda run: (run.seed is None, run.seed or 0))
        found.append(Row(key, f"r{index % 6}", names[index] + _difference(setting[0], twins), tuple(seeds)))
    return tuple(found)


def _examined_alike(runs: list[Run]) -> list[list[Run]]:
    """Runs of one setting, parted by what they were scored on; those without scores go with the first."""
    scored: dict[Examined, list[Run]] = {}
    for run in runs:
        if run.text_scores:
            scored.setdefault(run.text_scores.examined, []).append(run)
    first, *others = scored.values() or [[]]
    return [[*first, *(run for run in runs if not run.text_scores)], *others]


def _each_seed_once(runs: list[Run]) -> list[list[Run]]:
    """Runs of one setting, parted so that no two of a part have one seed."""
    parts: list[list[Run]] = []
    for run in runs:
        free = (part for part in parts if all(other.seed != run.seed for other in part))
        part = next(free, None)
        if part is None:
            parts.append([run])
        else:
            part.append(run)
    return parts


def _setting(run: Run) -> dict[str, object]:
    # a foreign model has no arguments: its folder tells it from another of its name
    own = {"folder": str(run.folder)} if run.foreign else run.arguments
    return {name: value for name, value in own.items() if name != "seed"}


def _difference(run: Run, twins: list[Run]) -> str:
    """What tells a row from the others of its name."""
    everything = [{"experiment": twin.experiment, **_setting(twin)} for twin in twins]
    own = {"experiment": run.experiment, **_setting(run)}
    names = sorted({name for one in everything for name in one})
    different = [name for name in names if any(one.get(name) != own.get(name) for one in everything)]
    said = "".join(f", {name} {own[name]}" if name in own else f", no {name}" for name in different)
    said += _other_data(run, twins)
    same = [twin for twin in twins if _told_by(twin) == _told_by(run)]
    return f"{said}, {run.folder}" if len(same) > 1 else said  # there is another run of its seed


def _told_by(run: Run) -> tuple[object, ...]:
    """What rows of one name are told apart by, the folder apart."""
    return run.experiment, _setting(run), run.text_scores.examined if run.text_scores else None


def _other_data(run: Run, twins: list[Run]) -> str:
    """What tells the data and the protocol of a row from those of the others of its name."""
    if not run.text_scores:
        return ""
    scored = [twin.text_scores.examined for twin in twins if twin.text_scores]
    own, said = run.text_scores.examined, ""
    if any(other.text.sha256 != own.text.sha256 for other in scored):
        said += f", {wording.data(own.text)}"
    if any(other.protocol != own.protocol for other in scored):
        said += f", {own.protocol}"
    return said

"""A table as it is wanted, and one run of it: where it lies, what it is made with, and whether it is there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from torsor.advice import RUN_FILE, typed_option
from torsor.experiments.catalogue import find
from torsor.experiments.experiment import Scale
from torsor.experiments.given_arguments import folder_of
from torsor.experiments.table import Row, Table
from torsor.experiments.tuning import Tuning
from torsor.training import read_run
from torsor.training.run_description import STOPPED, OtherRunError, as_json


@final
@dataclass(frozen=True)
class Order:
    """A table as it is wanted: which rows, how large, how often, where, and with which arguments of the user's own.

    Args:
        table: the table.
        rows: those of its rows that are wanted.
        scale: of the runs.
        seeds: runs of each row, at least 1.
        root: folder of all tables' runs.
        tuned: whether each row takes the value that its trials choose.
        given: arguments that replace the table's and the scale's.

    Raises:
        ValueError: when ``seeds`` is below 1, a table that has nothing to tune is to be tuned, the tuned
            argument is given as well, or the trials' seed is one of the table's.
    """

    table: Table
    rows: Sequence[Row]
    scale: Scale
    seeds: int
    root: Path
    tuned: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")
        if not self.tuned:
            return
        tuning = self.tuning
        if tuning.argument in self.given:
            raise ValueError(
                f"{tuning.argument} must not be given where it is tuned, got {self.given[tuning.argument]}"
            )
        if self.seeds > tuning.seed:
            raise ValueError(f"seeds must be at most {tuning.seed}, the seed of the trials, got {self.seeds}")

    @property
    def tuning(self) -> Tuning:
        """What is tuned."""
        if self.table.tuning is None:
            raise ValueError(f"{self.table.name} has no argument to tune: leave --tune away")
        return self.table.tuning


@final
@dataclass(frozen=True)
class TableRun:
    """One run of a row: where it lies, what it is made with, and the command that makes it by itself.

    Args:
        order: the table as it is wanted.
        row: of it.
        seed: of the run.
        chosen: the value that is tuned, by name; nothing where nothing is.
    """

    order: Order
    row: Row
    seed: int
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Its folder."""
        where = (self.order.root, self.order.table, self.row, self.order.scale, self.seed, self.chosen)
        return run_path(*where, given=self._others)

    @property
    def _others(self) -> dict[str, Any]:
        """What was given in place of the table's own, where it is another value."""
        experiment, scale = find(self.order.table.experiment), self.order.scale
        own, all_given = (experiment.arguments(scale=scale, **each) for each in (self._own, self._wanted))
        return {name: value for name, value in self.order.given.items() if own.get(name) != all_given.get(name)}

    @property
    def may_diverge(self) -> bool:
        """Whether a number that is not finite is a result: it speaks against a tuned value, or is admitted."""
        return self.order.tuned or self.order.table.reading.admits_divergence

    @property
    def _is_trial(self) -> bool:
        return self.order.tuned and self.seed == self.order.tuning.seed

    @property
    def _own(self) -> dict[str, Any]:
        """What the table says of it, and what its trials chose."""
        shared = self.order.table.presets.get(self.order.scale, {})
        trial = self.order.tuning.arguments if self._is_trial else {}
        return {**shared, **self.row.arguments, **trial, **self.chosen, "seed": self.seed}

    @property
    def _wanted(self) -> dict[str, Any]:
        return {**self._own, **self.order.given}

    @property
    def _shortened(self) -> dict[str, Any]:
        """The updates of a trial, where they are fewer than a run's."""
        if not self._is_trial or self.order.tuning.share == 1:
            return {}
        whole = find(self.order.table.experiment).arguments(scale=self.order.scale, **self._wanted)["updates"]
        return {"updates": max(1, round(whole * self.order.tuning.share))}

    @property
    def arguments(self) -> dict[str, Any]:
        """All arguments of its experiment."""
        wanted = {**self._wanted, **self._shortened}
        return find(self.order.table.experiment).arguments(scale=self.order.scale, **wanted)

    @property
    def command(self) -> str:
        """Trains it by itself."""
        options = {"scale": self.order.scale, **self._wanted, **self._shortened, "out": self.path}
        typed = (typed_option(name, value) for name, value in options.items())
        return " ".join(["torsor train", self.order.table.experiment, *typed])

    @property
    def refusal(self) -> str:
        """Why the folder's run is not this one; nothing where it is, or none is there."""
        if not (self.path / RUN_FILE).is_file():
            return ""
        try:
            wanted = as_json(self.arguments)
            read_run(self.path).check_same_run(self.path, self.order.table.experiment, wanted, self.seed)
        except OtherRunError as error:
            return str(error)
        return ""

    def is_finished(self) -> bool:
        """Whether it is there and has ended, or diverged where that is a result; one of other arguments is not it."""
        ended = is_finished(self.path) or (self.may_diverge and has_diverged(self.path))
        return ended and not self.refusal


def run_path(
    root: Path,
    table: Table,
    row: Row,
    scale: Scale,
    seed: int,
    chosen: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Path:
    """Where a row's run lies; equal rows of tables with one setting lie in one place, other arguments in another."""
    name = "".join(f"-{name}={value}" for name, value in (chosen or {}).items())
    return root / f"{table.setting}-{scale}{folder_of(given or {})}" / f"{row.folder}{name}-{seed}"


def is_finished(path: Path) -> bool:
    """Whether a run is there and has ended."""
    return (path / "run.json").is_file() and read_run(path).finished


def has_diverged(path: Path) -> bool:
    """Whether a run is there and met a number that is not finite."""
    return (path / "run.json").is_file() and read_run(path).status.startswith(STOPPED)

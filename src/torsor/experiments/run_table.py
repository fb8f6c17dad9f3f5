"""Carry a table out: the runs that are not there yet, and the paper's numbers beside ours."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, final

from torsor.experiments.catalogue import find
from torsor.experiments.experiment import Scale
from torsor.experiments.over_seeds import OverSeeds, difference
from torsor.experiments.reading import Cell
from torsor.experiments.run import Updates, carry_out
from torsor.experiments.study import NonFiniteLogitsError
from torsor.experiments.table import Row, Table
from torsor.experiments.tuning import Tuning
from torsor.training import NonFiniteLoss, read_run
from torsor.training.run_description import STOPPED, as_json


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
class _Run:
    """One run of a row: where it lies, what it is made with, and the command that makes it by itself."""

    order: Order
    row: Row
    seed: int
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return run_path(self.order.root, self.order.table, self.row, self.order.scale, self.seed, self.chosen)

    @property
    def may_diverge(self) -> bool:
        """Whether a number that is not finite is a result: it speaks against a tuned value, or is admitted."""
        return self.order.tuned or self.order.table.reading.admits_divergence

    @property
    def _is_trial(self) -> bool:
        return self.order.tuned and self.seed == self.order.tuning.seed

    @property
    def _wanted(self) -> dict[str, Any]:
        shared = self.order.table.presets.get(self.order.scale, {})
        trial = self.order.tuning.arguments if self._is_trial else {}
        return {**shared, **self.row.arguments, **trial, **self.chosen, "seed": self.seed, **self.order.given}

    @property
    def _shortened(self) -> dict[str, Any]:
        """The updates of a trial, where they are fewer than a run's."""
        if not self._is_trial or self.order.tuning.share == 1:
            return {}
        whole = find(self.order.table.experiment).arguments(scale=self.order.scale, **self._wanted)["updates"]
        return {"updates": max(1, round(whole * self.order.tuning.share))}

    @property
    def arguments(self) -> dict[str, Any]:
        wanted = {**self._wanted, **self._shortened}
        return find(self.order.table.experiment).arguments(scale=self.order.scale, **wanted)

    @property
    def command(self) -> str:
        options = {"scale": self.order.scale, **self._wanted, **self._shortened, "out": self.path}
        typed = (_typed(name.replace("_", "-"), value) for name, value in options.items())
        return " ".join(["torsor train", self.order.table.experiment, *typed])

    def is_finished(self) -> bool:
        """Whether it is there and has ended, or diverged where that is a result; one of other arguments is refused."""
        if not (is_finished(self.path) or (self.may_diverge and has_diverged(self.path))):
            return False
        wanted = as_json(self.arguments)
        read_run(self.path).check_same_run(self.path, self.order.table.experiment, wanted, self.seed)
        return True


def _typed(name: str, value: Any) -> str:
    """An option as it is typed."""
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no-{name}"
    return f"--{name} {shlex.quote(str(value))}"


def run_path(
    root: Path, table: Table, row: Row, scale: Scale, seed: int, chosen: Mapping[str, Any] | None = None
) -> Path:
    """Where a row's run lies; equal rows of tables with one setting lie in one place."""
    name = "".join(f"-{name}={value}" for name, value in (chosen or {}).items())
    return root / f"{table.setting}-{scale}" / f"{row.folder}{name}-{seed}"


def is_finished(path: Path) -> bool:
    """Whether a run is there and has ended."""
    return (path / "run.json").is_file() and read_run(path).finished


def has_diverged(path: Path) -> bool:
    """Whether a run is there and met a number that is not finite."""
    return (path / "run.json").is_file() and read_run(path).status.startswith(STOPPED)


def complete(order: Order, follow: Callable[[Updates, Path], None]) -> None:
    """Run what is not there yet, seed by seed, and go on with what was interrupted; trials come first.

    Args:
        order: what is wanted.
        follow: draws from each run and shows it.

    Raises:
        RunFolderError: when a run that is there had other arguments than those wanted.
    """
    if order.tuned:
        # One value of every row before a second one of any, and below one seed of every row before a second:
        # an interrupted table is a whole table of fewer runs.
        for chosen in order.tuning.trials():
            for row in order.rows:
                _carry_out(_Run(order, row, order.tuning.seed, chosen), follow)
    choices = None
    while choices != (now := [_chosen(order, row) for row in order.rows]):  # again where a value was given up
        choices = now
        for seed in range(order.seeds):
            for row in order.rows:
                chosen = _chosen(order, row)
                if chosen is not None:  # it is where every value diverged
                    _carry_out(_Run(order, row, seed, chosen), follow)


def _carry_out(run: _Run, follow: Callable[[Updates, Path], None]) -> None:
    if not run.is_finished():
        experiment = find(run.order.table.experiment)
        updates = carry_out(experiment, run.arguments, run.path, command=run.command, device="auto")
        try:
            follow(updates, run.path)
        except (NonFiniteLoss, NonFiniteLogitsError):
            if not run.may_diverge:
                raise


def _merits(order: Order, row: Row) -> tuple[float | None, ...]:
    """Of each trial of a row; None for one that is missing, minus infinity for one that diverged."""
    trials = [_Run(order, row, order.tuning.seed, chosen) for chosen in order.tuning.trials()]
    return tuple(_merit(trial) if trial.is_finished() else None for trial in trials)


def _merit(trial: _Run) -> float:
    return -inf if has_diverged(trial.path) else trial.order.table.reading.merit(trial.path)


def _chosen(order: Order, row: Row) -> dict[str, Any] | None:
    """What the trials chose for a row; nothing where nothing is tuned; None while a trial is missing.

    A value at which one of the row's runs diverged is given up for the next best, for all seeds.
    """
    if not order.tuned:
        return {}
    judged = zip(_merits(order, row), _given_up(order, row), strict=True)
    value = order.tuning.choice(tuple(-inf if given_up else merit for merit, given_up in judged))
    return None if value is None else {order.tuning.argument: value}


def _given_up(order: Order, row: Row) -> list[bool]:
    """Of each tuned value whether a run of the row diverged at it; where that is a result, none is."""
    if order.table.reading.admits_divergence:
        return [False for _ in order.tuning.values]
    return [
        any(has_diverged(_Run(order, row, seed, chosen).path) for seed in range(order.seeds))
        for chosen in order.tuning.trials()
    ]


def results(order: Order) -> list[dict[str, Any]]:
    """The paper's numbers and ours for every row, from the runs that are finished.

    Returns:
        For each row its label, its command, what its trials gave and chose, for each column the
        paper's number, ours by each score over seeds, and the difference of the means; and, where the row is
        set against another that is wanted too, how far its headline lies above that one's in each column.

    Raises:
        RunFolderError: when a run that is there had other arguments than those wanted.
    """
    found = [_result(order, row) for row in order.rows]
    return [each | {"against": _against(order.table, each, found)} for each in found]


def finished_runs(order: Order) -> list[tuple[str, int, Path]]:
    """The label, the seed and the folder of every run of the table that is finished; trials are not among them.

    Raises:
        RunFolderError: when a run that is there had other arguments than those wanted.
    """
    runs = [(row, seed, _chosen(order, row)) for row in order.rows for seed in range(order.seeds)]
    found = [_Run(order, row, seed, chosen) for row, seed, chosen in runs if chosen is not None]
    return [(run.row.label, run.seed, run.path) for run in found if run.is_finished() and is_finished(run.path)]


def _result(order: Order, row: Row) -> dict[str, Any]:
    table, chosen = order.table, _chosen(order, row)
    runs = [] if chosen is None else [_Run(order, row, seed, chosen) for seed in range(order.seeds)]
    seen = [table.reading.cells(run.path) for run in runs if run.is_finished()]
    columns = {}
    for number, column in enumerate(table.columns):
        cells = [each[number] for each in seen]
        ours = {name: _over_seeds(cells, name) for name in table.reading.scores}
        paper, headline = row.paper.get(column), ours[table.reading.scores[0]].mean
        columns[column] = {
            "here": cells[0].here if cells else "",
            "paper": None if paper is None else {"value": paper.value, "spread": paper.spread},
            "ours": {name: each.to_json() for name, each in ours.items()},
            "difference": None if paper is None or headline is None else headline - paper.value,
        }
    first = runs[0] if runs else _Run(order, row, 0)
    result = {"row": row.label, "command": first.command, "columns": columns}
    return result | {"tuning": _tuned(order, row, chosen)} if order.tuned else result


def _against(table: Table, content: dict[str, Any], every: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    label, headline = table.row(content["row"]).against, table.reading.scores[0]
    other = next((each for each in every if each["row"] == label), None)
    if other is None:
        return None
    found = {}
    for column in table.columns:
        ours, theirs = (OverSeeds.of(each["columns"][column]["ours"][headline]) for each in (content, other))
        apart = difference(ours, theirs)
        found[column] = None if apart is None else {"value": apart.value, "half_width": apart.half_width}
    return {"row": label, "columns": found}


def _tuned(order: Order, row: Row, chosen: Mapping[str, Any] | None) -> dict[str, Any]:
    tried = zip(order.tuning.values, _merits(order, row), _given_up(order, row), strict=True)
    return {
        "argument": order.tuning.argument,
        "seed": order.tuning.seed,
        "trials": [
            {"value": value, "merit": None if merit == -inf else merit, "diverged": merit == -inf, "given_up": given_up}
            for value, merit, given_up in tried
        ],
        "chosen": None if chosen is None else chosen[order.tuning.argument],
    }


def _over_seeds(cells: Sequence[Cell], name: str) -> OverSeeds:
    return OverSeeds(tuple(cell.values[name] for cell in cells), tuple(cell.counts[name] for cell in cells))

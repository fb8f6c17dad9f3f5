"""Carry a table out: the runs that are not there yet, and the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from typing import Any, final

from scipy.stats import t as student

from torsor.experiments.catalogue import find
from torsor.experiments.experiment import Scale
from torsor.experiments.run import EVALUATION, Updates, carry_out
from torsor.experiments.table import Row, Table
from torsor.training import read_run
from torsor.training.durable import read_json
from torsor.training.run_description import as_json

SCORES = ("joint", "last", "conditional")  # which of them the paper means is not certain, so all stand side by side


@final
@dataclass(frozen=True)
class OverSeeds:
    """One number for every seed.

    Args:
        values: in the order of the seeds; None where a seed has no such number.
        counts: examples that each value rests on.
    """

    values: tuple[float | None, ...]
    counts: tuple[int, ...]

    @property
    def mean(self) -> float | None:
        """Mean over the seeds that have the number; None without one."""
        known = [value for value in self.values if value is not None]
        return mean(known) if known else None

    @property
    def half_width(self) -> float | None:
        """Half of Student's 95 % interval of the mean over seeds; None with fewer than two."""
        known = [value for value in self.values if value is not None]
        if len(known) < 2:
            return None
        return float(student.ppf(0.975, len(known) - 1)) * stdev(known) / sqrt(len(known))

    def to_json(self) -> dict[str, Any]:
        """Every seed's value with its count, the mean, and the half-width."""
        return {
            "seeds": list(self.values),
            "counts": list(self.counts),
            "mean": self.mean,
            "half_width": self.half_width,
        }


def run_path(root: Path, table: Table, row: Row, scale: Scale, seed: int) -> Path:
    """Where a row's run lies; equal rows of tables with one setting lie in one place."""
    return root / f"{table.setting}-{scale}" / f"{row.folder}-{seed}"


def command(table: Table, row: Row, scale: Scale, seed: int, path: Path, **given: Any) -> str:
    """The command that makes one run of a row by itself."""
    options = {"scale": scale, **table.presets.get(scale, {}), **row.arguments, "seed": seed, **given, "out": path}
    return " ".join(
        ["torsor train", table.experiment, *(f"--{name.replace('_', '-')} {value}" for name, value in options.items())]
    )


def is_finished(path: Path) -> bool:
    """Whether a run is there and has ended."""
    return (path / "run.json").is_file() and read_run(path).finished


def complete(
    table: Table,
    rows: Sequence[Row],
    scale: Scale,
    seeds: int,
    root: Path,
    follow: Callable[[Updates, Path], None],
    **given: Any,
) -> None:
    """Run what is not there yet, seed by seed, and go on with what was interrupted.

    Args:
        table: the table.
        rows: those of its rows that are wanted.
        scale: of the runs.
        seeds: runs of each row, at least 1.
        root: folder of all tables' runs.
        follow: draws from each run and shows it.
        given: arguments that replace the table's and the scale's.

    Raises:
        ValueError: when ``seeds`` is below 1.
    """
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    experiment = find(table.experiment)
    # One seed of every row before a second one of any: an interrupted table is a whole table of fewer seeds.
    for seed in range(seeds):
        for row in rows:
            path = run_path(root, table, row, scale, seed)
            arguments = _arguments(table, row, scale, seed, given)
            if is_finished(path):
                read_run(path).check_same_run(path, experiment.name, as_json(arguments), seed)
                continue
            typed = command(table, row, scale, seed, path, **given)
            follow(carry_out(experiment, arguments, path, command=typed), path)


def _arguments(table: Table, row: Row, scale: Scale, seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {**table.presets.get(scale, {}), **row.arguments, "seed": seed, **given}
    return find(table.experiment).arguments(scale=scale, **wanted)


def results(
    table: Table, rows: Sequence[Row], scale: Scale, seeds: int, root: Path, **given: Any
) -> list[dict[str, Any]]:
    """The paper's numbers and ours for every row, from the runs that are finished.

    Returns:
        For each row its label, its command and, for each column, the paper's number, ours by each
        score over seeds, and the difference of the means.

    Raises:
        RunFolderError: when a run that is there had other arguments than those wanted.
    """
    return [_result(table, row, scale, seeds, root, given) for row in rows]


def _result(table: Table, row: Row, scale: Scale, seeds: int, root: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    paths = [run_path(root, table, row, scale, seed) for seed in range(seeds)]
    evaluations = []
    for seed, path in enumerate(paths):
        if is_finished(path):
            wanted = as_json(_arguments(table, row, scale, seed, given))
            read_run(path).check_same_run(path, table.experiment, wanted, seed)
            evaluations.append(read_json(path / EVALUATION))
    columns = {}
    for number, column in enumerate(table.columns):
        depths = [each["depths"][number] for each in evaluations]
        ours = {name: _over_seeds(depths, name) for name in SCORES}
        paper = row.paper.get(column)
        joint = ours["joint"].mean
        columns[column] = {
            "steps": depths[0]["steps"] if depths else None,
            "paper": None if paper is None else {"value": paper.value, "spread": paper.spread},
            "ours": {name: each.to_json() for name, each in ours.items()},
            "difference": None if paper is None or joint is None else joint - paper.value,
        }
    return {"row": row.label, "command": command(table, row, scale, 0, paths[0], **given), "columns": columns}


def _over_seeds(depths: Sequence[dict[str, Any]], name: str) -> OverSeeds:
    counts = [each["conditional_count"] if name == "conditional" else each["words"] for each in depths]
    return OverSeeds(tuple(each[name] for each in depths), tuple(counts))

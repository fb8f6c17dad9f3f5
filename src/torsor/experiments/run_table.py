"""Carry a table out: the runs that are not there yet, and the paper's numbers beside ours."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from torsor.experiments.catalogue import find
from torsor.experiments.over_seeds import OverSeeds, difference
from torsor.experiments.reading import Cell
from torsor.experiments.run import Updates, carry_out
from torsor.experiments.study import NonFiniteLogitsError
from torsor.experiments.table import Row, Table
from torsor.experiments.table_run import Order, TableRun, has_diverged, is_finished
from torsor.training import NonFiniteLoss
from torsor.training.run_description import OtherRunError


def complete(order: Order, follow: Callable[[Updates, Path], None]) -> None:
    """Run what is not there yet, seed by seed, and go on with what was interrupted; trials come first.

    Args:
        order: what is wanted.
        follow: draws from each run and shows it.

    Raises:
        RunFolderError: when a run that is there had other arguments than those wanted; nothing is run then.
    """
    for _, _, why in other_runs(order):
        raise OtherRunError(why)
    if order.tuned:
        # One value of every row before a second one of any, and below one seed of every row before a second:
        # an interrupted table is a whole table of fewer runs.
        for chosen in order.tuning.trials():
            for row in order.rows:
                _carry_out(TableRun(order, row, order.tuning.seed, chosen), follow)
    choices = None
    while choices != (now := [_chosen(order, row) for row in order.rows]):  # again where a value was given up
        choices = now
        for seed in range(order.seeds):
            for row in order.rows:
                chosen = _chosen(order, row)
                if chosen is not None:  # it is where every value diverged
                    _carry_out(TableRun(order, row, seed, chosen), follow)


def _carry_out(run: TableRun, follow: Callable[[Updates, Path], None]) -> None:
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
    trials = [TableRun(order, row, order.tuning.seed, chosen) for chosen in order.tuning.trials()]
    return tuple(_merit(trial) if trial.is_finished() else None for trial in trials)


def _merit(trial: TableRun) -> float:
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
        any(has_diverged(TableRun(order, row, seed, chosen).path) for seed in range(order.seeds))
        for chosen in order.tuning.trials()
    ]


def results(order: Order) -> list[dict[str, Any]]:
    """The paper's numbers and ours for every row, from the runs that are finished.

    Returns:
        For each row its label, its command, what its trials gave and chose, for each column the
        paper's number, ours by each score over seeds, and the difference of the means; and, where the row is
        set against another that is wanted too, how far its headline lies above that one's in each column. A run
        that is there and has other arguments than those wanted is left out: ``other_runs`` names it.
    """
    found = [_result(order, row) for row in order.rows]
    return [each | {"against": _against(order.table, each, found)} for each in found]


def finished_runs(order: Order) -> list[tuple[str, int, Path]]:
    """The label, the seed and the folder of every run of the table that is finished; trials are not among them."""
    finished = (run for run in _runs(order) if run.is_finished() and is_finished(run.path))
    return [(run.row.label, run.seed, run.path) for run in finished]


def other_runs(order: Order) -> list[tuple[str, int, str]]:
    """The label, the seed and one line for every folder of the table in which a run of other arguments lies."""
    trials = [
        TableRun(order, row, order.tuning.seed, chosen)
        for row in order.rows
        for chosen in (order.tuning.trials() if order.tuned else ())
    ]
    return [(run.row.label, run.seed, run.refusal) for run in (*trials, *_runs(order)) if run.refusal]


def _runs(order: Order) -> list[TableRun]:
    """Every run that is no trial, as far as it is known which they are."""
    wanted = [(row, seed, _chosen(order, row)) for row in order.rows for seed in range(order.seeds)]
    return [TableRun(order, row, seed, chosen) for row, seed, chosen in wanted if chosen is not None]


def _result(order: Order, row: Row) -> dict[str, Any]:
    table, chosen = order.table, _chosen(order, row)
    runs = [] if chosen is None else [TableRun(order, row, seed, chosen) for seed in range(order.seeds)]
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
    first = runs[0] if runs else TableRun(order, row, 0)
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

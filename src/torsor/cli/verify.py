"""Finished runs examined again, and what differs: ``torsor table --verify`` and ``torsor measure --verify``."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torsor.experiments.table_run import Order
    from torsor.experiments.verifying import Verified

_SHOWN = 3  # of the numbers that differ, in the one line that a table has for a run


def verify_table(order: "Order", threads: int | None, as_json: bool = False) -> None:
    """Print a line for each finished run of a table: that its numbers come out again, or which do not.

    Args:
        order: the table.
        threads: as typed; None for each run's own.
        as_json: print JSON for programs.

    Raises:
        ArithmeticError: when a number differs.
        ValueError: when no run is finished, or one cannot be examined.
    """
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.run_table import other_runs
    from torsor.experiments.verifying import verify

    prepare_machine(threads, order.root)
    found: list[Verified] = []
    for each in verify(order, threads):
        found.append(each)
        if not as_json:
            more = f"; and {len(each.differences) - _SHOWN} more" if len(each.differences) > _SHOWN else ""
            told = "; ".join(each.differences[:_SHOWN]) + more or _equal(each)
            print(f"{each.row}, seed {each.seed}: {told}  {each.path}", flush=True)
    if as_json:
        print(json.dumps({"table": order.table.name, "runs": [_content(each) for each in found]}))
    for row, seed, why in other_runs(order):
        print(f"torsor: {row}, seed {seed} not verified: {why}", file=sys.stderr)
    if not found:
        raise ValueError(f"{order.table.name} has no finished run in {order.root} to verify")
    _refuse_differences(found)


def verify_runs(runs: Sequence[Path], threads: int | None, as_json: bool = False) -> None:
    """Print of each run a line for every number that does not come out again, or one that says that all do.

    Args:
        runs: finished run folders.
        threads: as typed; None for each run's own.
        as_json: print JSON for programs.

    Raises:
        ArithmeticError: when a number differs.
        ValueError: when one is not finished or cannot be examined.
    """
    from torsor.cli.patience import shown_waiting
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.verifying import verify_run

    found: list[Verified] = []
    for run in runs:
        prepare_machine(threads, run)
        with shown_waiting(f"verifying {run}"):
            found.append(verify_run(run, threads))
        if not as_json:
            each = found[-1]
            for line in each.differences or (_equal(each),):
                print(f"{run}: {line}", flush=True)
    if as_json:
        print(json.dumps({"runs": [_content(each) for each in found]}))
    _refuse_differences(found)


def _equal(run: "Verified") -> str:
    return f"all {run.compared} values are equal"


def _content(run: "Verified") -> dict[str, Any]:
    return asdict(run) | {"path": str(run.path)}


def _refuse_differences(runs: "Sequence[Verified]") -> None:
    differing = sum(bool(each.differences) for each in runs)
    if differing:
        raise ArithmeticError(f"{differing} of {len(runs)} runs do not come out again from their checkpoints")

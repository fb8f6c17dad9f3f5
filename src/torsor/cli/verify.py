"""``torsor table --verify``: every finished run examined again, and what differs."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torsor.experiments.run_table import Order


def verify_runs(order: "Order", threads: int | None, as_json: bool = False) -> None:
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
    from torsor.experiments.verifying import verify

    prepare_machine(threads, order.root)
    runs = differing = 0
    found = []
    for each in verify(order, threads):
        runs += 1
        differing += bool(each.differences)
        told = "; ".join(each.differences) or f"all {each.compared} values are equal"
        if as_json:
            found.append(asdict(each) | {"path": str(each.path)})
            continue
        print(f"{each.row}, seed {each.seed}: {told}  {each.path}", flush=True)
    if as_json:
        print(json.dumps({"table": order.table.name, "runs": found}))
    if not runs:
        raise ValueError(f"{order.table.name} has no finished run in {order.root} to verify")
    if differing:
        raise ArithmeticError(f"{differing} of {runs} runs do not come out again from their checkpoints")

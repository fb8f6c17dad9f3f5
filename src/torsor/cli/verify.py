"""``torsor table --verify``: every finished run examined again, and what differs."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torsor.experiments.run_table import Order


def verify_runs(order: "Order", threads: int | None) -> None:
    """Print a line for each finished run of a table: that its numbers come out again, or which do not.

    Args:
        order: the table.
        threads: as typed; None for each run's own.

    Raises:
        ArithmeticError: when a number differs.
        ValueError: when no run is finished, or one cannot be examined.
    """
    from torsor.experiments.machine import prepare_machine
    from torsor.experiments.verifying import verify

    prepare_machine(threads, order.root)
    runs = differing = 0
    for each in verify(order, threads):
        runs += 1
        differing += bool(each.differences)
        told = "; ".join(each.differences) or f"all {each.compared} values are equal"
        print(f"{each.row}, seed {each.seed}: {told}  {each.path}", flush=True)
    if not runs:
        raise ValueError(f"{order.table.name} has no finished run in {order.root} to verify")
    if differing:
        raise ArithmeticError(f"{differing} of {runs} runs do not come out again from their checkpoints")

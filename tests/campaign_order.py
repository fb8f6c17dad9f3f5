"""Two rows of a table, small enough to be carried out again and again."""

from collections.abc import Callable
from pathlib import Path

from torsor.experiments.catalogue import find_table
from torsor.experiments.run_table import complete
from torsor.experiments.table_run import Order

TINY = {"width": 16, "heads": 2, "length": 3, "smallest_steps": 1, "largest_steps": 2, "updates": 12, "batch": 4}
TINY |= {"words": 20, "warmup": 1}


def order(folder: Path) -> tuple[Order, Callable[[], None]]:
    """The order, and what carries it out."""
    table = find_table("rotate-the-loop/a5")
    wanted = Order(table, table.rows[:2], "laptop", 1, folder, given=TINY)
    return wanted, lambda: complete(wanted, lambda updates, path: [None for _ in updates])

"""``torsor list``: what can be run."""

from rich.console import Console
from rich.table import Table

from torsor.experiments.catalogue import EXPERIMENTS, TABLES


def list_experiments() -> None:
    """List the experiments, and how to start one."""
    table = Table("experiment", "what it is", "scales", box=None, pad_edge=False)
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.summary, ", ".join(["laptop", *experiment.presets]))
    console = Console()
    console.print(table)
    tables = Table("table", "what it is", "rows", box=None, pad_edge=False)
    for each in TABLES.values():
        tables.add_row(each.name, each.summary, str(len(each.rows)))
    console.print()
    console.print(tables)
    console.print("\nStart one with: torsor train EXPERIMENT    its arguments: torsor train EXPERIMENT --help")
    console.print("Make one with:  torsor table TABLE")

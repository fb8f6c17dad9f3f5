"""``torsor list``: what can be run."""

from rich.console import Console
from rich.table import Table

from torsor.experiments.catalogue import EXPERIMENTS


def list_experiments() -> None:
    """List the experiments, and how to start one."""
    table = Table("experiment", "what it is", "scales", box=None, pad_edge=False)
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.summary, ", ".join(["laptop", *experiment.presets]))
    console = Console()
    console.print(table)
    console.print("\nStart one with: torsor train EXPERIMENT    its arguments: torsor train EXPERIMENT --help")

"""``torsor list``: what can be run, paper by paper."""

import json
from dataclasses import replace
from typing import Any

from rich.table import Table as Grid

from torsor.cli.consoles import wide_console
from torsor.cli.tables import JsonFlag
from torsor.experiments.catalogue import EXPERIMENTS, TABLES
from torsor.experiments.table import Table

GROUPS = {
    "rotate-the-loop": "Rotate the Loop: looped transformers whose residual is carried by a conformal map",
    "subgroups": "Subgroups of U(d): character models whose state is an element of a matrix group",
    "recurrent": "RotRNN and M²RNN: recurrent models over time, beside the usual ones",
    "tracking": "Learned trackers: models that follow a group for as long as anybody reads",
    "cosets": "Cosets: what a model knows of a group before it knows the group",
}


def list_experiments(*, as_json: JsonFlag = False) -> None:
    """List what can be trained and which tables can be made, paper by paper.

    Args:
        as_json: print JSON for programs.
    """
    experiments = [
        {"name": each.name, "summary": each.summary, "scales": list(dict.fromkeys(["laptop", *each.presets]))}
        for each in EXPERIMENTS.values()
    ]
    tables = [
        {"name": each.name, "summary": each.summary, "rows": len(each.rows), "also": _other_names(each)}
        for each in TABLES.values()
    ]
    if as_json:
        print(json.dumps({"groups": GROUPS, "experiments": experiments, "tables": tables}))
        return
    console = wide_console()
    for group, title in GROUPS.items():
        console.print(f"{title}\n", style="bold")
        grid = Grid("", "", "", box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        grid.columns[1].no_wrap = True
        said: set[str] = set()
        for kind, found in (("train", experiments), ("table", tables)):
            for each in found:
                if _group(each) == group and each["name"] not in said:
                    grid.add_row(kind, each["name"], f"{each['summary']}{_size(each)}")
                    kind = ""  # said once for each kind
                    said.update(each.get("also", ()))
        console.print(grid)
        console.print()
    console.print("torsor train NAME   trains one; its arguments: torsor train NAME --help; at the paper's size:")
    console.print("                    --scale paper; what that would take: torsor plan NAME")
    console.print("torsor table NAME   runs what a paper's table needs and prints its numbers beside the paper's")


def _group(described: dict[str, Any]) -> str:
    return described["name"].partition("/")[0]


def _size(described: dict[str, Any]) -> str:
    if "rows" not in described:
        return ""
    also = f"; also {', '.join(described['also'])}" if described["also"] else ""
    return f" ({described['rows']} rows{also})"


def _other_names(table: Table) -> list[str]:
    """The names of the tables that differ from this one in nothing that is run or printed."""
    alike = (replace(each, name=table.name, summary=table.summary) == table for each in TABLES.values())
    return [name for name, same in zip(TABLES, alike, strict=True) if same and name != table.name]

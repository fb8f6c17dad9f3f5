"""``torsor report``: one page about one or several runs."""

import json
import sys
from functools import partial
from pathlib import Path

from torsor.cli.patience import shown_waiting
from torsor.cli.tables import JsonFlag


def report(*runs: Path, out: Path | None = None, as_json: JsonFlag = False) -> None:
    """Write one self-contained HTML page about one or several runs.

    Args:
        runs: run folders.
        out: where to write the page; report.html in the run's folder by default, or beside the first of several.
        as_json: print JSON for programs.

    Raises:
        ValueError: when no run is named, or a file is in the page's place that is no page of torsor's.
    """
    from torsor.cli.train import typed_command
    from torsor.experiments.listening import tell
    from torsor.report import write_report
    from torsor.report.own_page import replaces_page

    if not runs:
        raise ValueError("name at least one run folder: torsor report RUN...")
    path = out or (runs[0] if len(runs) == 1 else runs[0].parent) / "report.html"
    replaced = replaces_page(path)
    warnings: list[str] = []
    with shown_waiting("drawing the page"):
        watch = partial(tell, "reading runs")
        page = write_report(runs, path, command=typed_command(), watch=watch, warn=warnings.append)
    for each in warnings:
        print(f"torsor: {each}", file=sys.stderr)
    told = {"report": str(page.resolve()), "replaced": replaced}
    print(json.dumps(told) if as_json else f"report: {page.resolve()}{' (replaced)' * replaced}")

"""``torsor report``: one page about one or several runs."""

from pathlib import Path

from torsor.cli.patience import shown_waiting


def report(*runs: Path, out: Path | None = None) -> None:
    """Write one self-contained HTML page about one or several runs.

    Args:
        runs: run folders.
        out: where to write the page; report.html in the run's folder by default, or beside the first of several.

    Raises:
        ValueError: when no run is named.
    """
    from torsor.cli.train import typed_command
    from torsor.report import write_report

    if not runs:
        raise ValueError("name at least one run folder: torsor report RUN...")
    path = out or (runs[0] if len(runs) == 1 else runs[0].parent) / "report.html"
    with shown_waiting("drawing the page"):
        page = write_report(runs, path, command=typed_command())
    print(f"report: {page.resolve()}")

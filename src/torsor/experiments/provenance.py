"""What a table's numbers rest on, and what they cost."""

import json
from math import fsum
from pathlib import Path
from typing import Any

from torsor.experiments.run_table import finished_runs
from torsor.experiments.same_data import data_of
from torsor.experiments.table_run import Order
from torsor.training import read_run
from torsor.training.commit import UNKNOWN
from torsor.training.run_folder import TIMING


def provenances(order: Order) -> list[dict[str, Any]]:
    """For every finished run of a table its row, its folder and what ``provenance`` says."""
    return [{"row": row, "path": str(path)} | provenance(path) for row, _, path in finished_runs(order)]


def provenance(path: Path) -> dict[str, Any]:
    """What a run's numbers rest on: seed, commit, versions, data, and the checkpoint that was examined.

    Beside them what the run cost: its parameters, its updates, and the seconds its updates took on so
    many threads, those that were made twice after a cut included, without evaluation and start.

    Args:
        path: a run folder.

    Raises:
        RunFolderError: when it is none, or damaged.
    """
    described = read_run(path)
    return {
        "seed": described.seed,
        "commit": described.about.get("commit", UNKNOWN),
        "versions": described.versions,
        "threads": described.threads,
        "device": described.about.get("device", "cpu"),
        "resumed_with": described.resumed_with,
        "data": data_of(path),
        "update": None if described.checkpoint is None else described.checkpoint.update,
        "weights_sha256": None if described.checkpoint is None else described.checkpoint.weights,
        "parameters": described.about.get("parameters"),
        "seconds": _seconds(path),
    }


def _seconds(path: Path) -> float | None:
    """None where the timing was left behind: a table needs it for no number."""
    timing = path / TIMING
    if not timing.is_file():
        return None
    return fsum(json.loads(line)["seconds"] for line in timing.read_text(encoding="utf-8").splitlines())

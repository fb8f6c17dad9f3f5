"""What run folders do not hold, and the commands that would put it there."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torsor.advice import train_command
from torsor.report.rows import Row
from torsor.report.run import Run

NO_METRICS = "not recorded: the folder has no metrics.jsonl"


@final
@dataclass(frozen=True)
class Missing:
    """What a run folder does not hold, and the command that would put it there (or "")."""

    row: Row
    run: Run
    message: str
    command: str


def of_words(rows: Sequence[Row]) -> dict[str, list[Missing]]:
    """For each section on word problems, the runs that have nothing for it."""
    found: dict[str, list[Missing]] = {"evaluation": [], "metrics": [], "geometry": []}
    for row in rows:
        for run in row.runs:
            measure = _measure(run)
            if run.evaluation is None:
                found["evaluation"].append(_going_on(row, run) or Missing(row, run, "not measured: run", measure))
            if run.updates is None:
                found["metrics"].append(Missing(row, run, NO_METRICS, ""))
            if run.geometry is None and row.looped:
                found["geometry"].append(Missing(row, run, "not measured: run", measure))
    return found


def of_texts(rows: Sequence[Row]) -> dict[str, list[Missing]]:
    """For each section on texts, the runs that have nothing for it; no command scores a finished run again."""
    found: dict[str, list[Missing]] = {"evaluation": [], "metrics": [], "generated": []}
    for row in rows:
        for run in row.runs:
            if run.text_scores is None:
                gone = Missing(row, run, "not scored: the folder has no evaluation.json", "")
                found["evaluation"].append(_going_on(row, run) or gone)
            if run.updates is None:
                found["metrics"].append(Missing(row, run, NO_METRICS, ""))
        first = row.runs[0]
        if row.sampled is None and first.status == "finished":
            found["generated"].append(Missing(row, first, "no text was drawn: run", _measure(first)))
    return found


def _measure(run: Run) -> str:
    return f"torsor measure {shlex.quote(str(run.folder))}"


def _going_on(row: Row, run: Run) -> Missing | None:
    if not run.command or run.status == "finished":
        return None
    command = train_command(run.command, run.experiment, run.arguments, run.folder)
    return Missing(row, run, "not scored: the run has not ended; go on with", command)

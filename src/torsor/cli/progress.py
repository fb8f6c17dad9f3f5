"""How a run shows that it goes on: a bar on a terminal, a plain line now and then elsewhere."""

import sys
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from torsor.cli.interruption import RUN_BEGINS_AGAIN, kept_in, last_checkpoint
from torsor.cli.patience import LINE_EVERY
from torsor.cli.shown_left import shown_left
from torsor.experiments.listening import listening

if TYPE_CHECKING:
    from torsor.experiments.run import Update, Updates

SMOOTHING = 0.95


def follow(records: "Updates", path: Path) -> None:
    """Draw from a run until it ends: loss, length, score, tokens per second and the time left; then how it is scored.

    Args:
        records: what ``carry_out`` yields.
        path: the run folder, for the first line.

    Raises:
        ArithmeticError: as ``carry_out``, with the last checkpoint and what to try added to its line.
    """
    meter = _Meter()
    try:
        with kept_in(path, RUN_BEGINS_AGAIN):
            if sys.stderr.isatty():
                _bar(records, path, meter)
            else:
                with shown_left(f"{path}  "):
                    _lines(records, path, meter)
    except ArithmeticError as error:
        last = last_checkpoint(path)
        kept = "there is no checkpoint yet" if last is None else f"the last checkpoint is of update {last}"
        error.args = (f"{error}; {kept}; try a smaller --learning-rate",)
        raise


@final
class _Meter:
    """Running means of what is shown; they leave no trace in the run."""

    def __init__(self) -> None:
        self.loss = 0.0
        self.speed = 0.0
        self.count = 0

    def take(self, update: "Update") -> str:
        record = update.record
        self.count += 1
        smoothing = min(SMOOTHING, 1 - 1 / self.count)
        self.loss = smoothing * self.loss + (1 - smoothing) * record.loss
        self.speed = smoothing * self.speed + (1 - smoothing) * record.tokens / record.seconds
        length = "" if record.length is None else f"  length {record.length}"
        numbers = {name: value for name, value in (update.scores or {}).items() if isinstance(value, float)}
        scores = "".join(f"  {name} {value:.3f}" for name, value in numbers.items())
        return f"loss {self.loss:.3f}{length}{scores}  {self.speed:,.0f} tokens/s"


def _bar(records: "Updates", path: Path, meter: _Meter) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(),
    )
    tasks: dict[str, TaskID] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def heard(what: str, share: float) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(f"{path}  {what}", total=100, numbers="%")
            progress.update(tasks[what], completed=round(100 * share))

        shown = progress.add_task(str(path), total=None, numbers="")
        with listening(heard):
            _drawn(records, progress, shown, meter)


def _drawn(records: "Updates", progress: Progress, shown: TaskID, meter: _Meter) -> None:
    for update in records:
        progress.update(shown, completed=update.record.update, total=update.of, numbers=meter.take(update))


def _lines(records: "Updates", path: Path, meter: _Meter) -> None:
    started = last = monotonic()
    first = None
    for update in records:
        number = update.record.update
        first = number - 1 if first is None else first
        numbers = meter.take(update)
        now = monotonic()
        if now - last < LINE_EVERY and number != update.of:
            continue
        last = now
        left = (now - started) / (number - first) * (update.of - number)
        print(f"{path}  {number}/{update.of}  {numbers}  {left:.0f} s left", file=sys.stderr, flush=True)

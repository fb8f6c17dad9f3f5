"""A checkpoint on the disk: what writing and loading take, and what share of training the writing is."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torsor.bench.clock import Timings, take_turns
from torsor.bench.limits import Limits
from torsor.bench.looped import training_update, word_model
from torsor.training import RunFolder, TrainState
from torsor.training.memory import keep_freed_memory
from torsor.training.optimizer import adamw

EVERY = 100  # updates between two checkpoints of torsor train


def measure(
    limits: Limits,
    rounds: int = 9,
    widths: Sequence[int] = (128, 512),
    batch: int = 64,
    length: int = 64,
    steps: int = 8,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Time a training step, the writing of a checkpoint through to the disk, and the opening and loading of it.

    Args:
        limits: of this machine, which a disk's are not.
        rounds: turns that each takes.
        widths: of the 1/1/1 model, multiples of 8.
        batch: sequences of a training step.
        length: tokens of each.
        steps: loops.
        folder: where a folder for the checkpoints is made and removed; the working folder by default.

    Returns:
        A row for each width and action with its bytes, and for each width the share of the time between two
        checkpoints for which writing one holds training up, taken round by round, with its interval.

    Raises:
        ValueError: when a number is out of range or the folder cannot be written.
    """
    keep_freed_memory()
    rows, stalls = [], []
    for width in widths:
        model = word_model(width)
        state = TrainState(model, adamw(model, 1e-3))
        step = training_update(model, state.optimizer, batch, length, lambda _: steps)
        step()  # moments are there from now on
        with TemporaryDirectory(dir=folder or Path.cwd(), prefix="bench-") as place:
            timings, size = _timed(state, step, Path(place), rounds)
        names = {"step": "training step", "write": "write", "load": "open, check and load"}
        for action, name in names.items():
            seconds = timings.interval(action)
            row = {"case": f"width {width}, {name}", "seconds": seconds.middle}
            row["seconds_interval"] = [seconds.low, seconds.high]
            if action != "step":
                row |= {"file_bytes": size, "per_second": size / seconds.middle, "unit": "bytes"}
            rows.append(row)
        share = timings.ratio_interval("write", "step").scaled(100 / EVERY)
        stalls.append({"width": width, "writing, % of the time between two checkpoints": share.to_json()})
    settings = {"batch": batch, "length": length, "loops": steps, "updates between checkpoints": EVERY}
    return {"settings": settings, "rows": rows, "stalls": stalls}


def _timed(state: TrainState, step: Callable[[], None], place: Path, rounds: int) -> tuple[Timings, int]:
    """A step, writing to a folder that stays open, and opening another one to load it; and the bytes of a folder."""

    def opened(name: str) -> RunFolder:
        return RunFolder(place / name, "bench/checkpoints", {}, seed=0)

    def load() -> None:
        with opened("read") as run:
            run.restore(state)

    with opened("read") as run:
        run.save(state)
    with opened("written") as run:
        timings = take_turns({"step": step, "write": lambda: run.save(state), "load": load}, rounds)
    return timings, sum(file.stat().st_size for file in (place / "read").rglob("*") if file.is_file())

"""Train, evaluate and resume in a loop, and log memory and file handles as text.

Every round trains a few hundred updates of one run in this process, breaks it off, goes on with it from its
checkpoint, and scores it at the end; then a new run begins. ``python benchmarks/long_haul.py MINUTES FOLDER [LOG]``
prints a line a round; the last line says how much memory and how many handles grew over the second half. A log is
added to as it is printed; what is killed is begun again, since memory is constant only within one process.
"""

import os
import resource
import shutil
import sys
import time
from itertools import count, islice
from pathlib import Path

import torch

from torsor.experiments.catalogue import find
from torsor.experiments.run import carry_out
from torsor.training.memory import keep_freed_memory

EXPERIMENT = "rotate-the-loop/s3"
SIZES = {"width": 16, "heads": 2, "length": 6, "smallest_steps": 1, "largest_steps": 3, "updates": 60, "batch": 8}
SIZES |= {"words": 40}
PIECES = (13, 30)  # updates after which a round is broken off
KEPT = 20  # rounds before the memory that is taken once has been taken


def memory() -> int:
    """Resident memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def handles() -> int:
    """Open files."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a listing, no paths


def one_round(number: int, folder: Path) -> None:
    """A run, broken off twice, to its end."""
    experiment = find(EXPERIMENT)
    arguments = experiment.arguments(**SIZES, seed=number)
    for piece in (*PIECES, None):
        updates = carry_out(experiment, arguments, folder, checkpoint_every=7)
        for _ in islice(updates, piece):
            pass
        updates.close()


def main(minutes: float, folder: Path, log: Path | None) -> None:
    def say(line: str) -> None:
        print(line, flush=True)
        if log is not None:
            with log.open("a", encoding="utf-8") as file:
                file.write(line + "\n")

    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    say(f"{minutes:g} minutes of {EXPERIMENT}, torch {torch.__version__}, one thread, process {os.getpid()}")
    torch.set_num_threads(1)
    keep_freed_memory()
    started = time.monotonic()
    seen = []
    for number in count():
        if time.monotonic() - started > 60 * minutes:
            break
        one_round(number, folder / "run")
        shutil.rmtree(folder / "run")
        seen.append((memory(), handles()))
        spent = time.monotonic() - started
        say(f"{spent:8.1f} s  round {number}  {seen[-1][0] / 2**20:8.1f} MiB  {seen[-1][1]} handles")
    half = seen[min(KEPT, len(seen) // 2) :]
    grown = (half[-1][0] - half[0][0]) / 2**20
    say(f"{len(seen)} rounds; over the last {len(half)}: {grown:+.1f} MiB, {half[-1][1] - half[0][1]:+d} handles")


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)

"""Run one training command undisturbed, and the same command killed with SIGKILL at ten random moments.

A program of its own: it loads torch once and forks for every attempt, so that an attempt costs no start-up.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from torsor.cli import main

COMMAND = (
    "train rotate-the-loop/s3 --width 16 --heads 2 --length 6 --smallest-steps 1 --largest-steps 3 --updates 240 "
    "--batch 8 --words 40 --checkpoint-every 7 --threads 1 --threshold 1.5 --out"
)
KILLS = 10


def attempt(path: Path) -> int:
    """Start the command in a process of its own."""
    child = os.fork()
    if child:
        return child
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - the child ends with it
    try:
        main([*COMMAND.split(), str(path)])
    except SystemExit as ending:
        os._exit(ending.code)
    os._exit(99)


def undisturbed(path: Path) -> None:
    """Run to the end."""
    _, status = os.waitpid(attempt(path), 0)
    if status:
        sys.exit(f"the command failed with {os.waitstatus_to_exitcode(status)}")


def updates_of(path: Path) -> int:
    """How many lines the metrics have."""
    metrics = path / "metrics.jsonl"
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def await_update(path: Path, update: int) -> None:
    """Wait until the metrics have this many lines."""
    deadline = time.monotonic() + 60
    while updates_of(path) < update and time.monotonic() < deadline:
        time.sleep(0.0005)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).step()  # loads what torch loads late, once for all attempts
    folder = Path(sys.argv[1])
    undisturbed(folder / "whole")
    chance = random.Random(0)
    kills = 0
    for _ in range(KILLS):
        child = attempt(folder / "killed")
        # somewhere in the next 22 updates, start-up and the writing of a checkpoint included
        await_update(folder / "killed", updates_of(folder / "killed") + chance.randrange(22))
        time.sleep(chance.uniform(0, 0.02))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        kills += os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    undisturbed(folder / "killed")
    print(kills, "kills")

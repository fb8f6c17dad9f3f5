"""Prepare a corpus undisturbed, and the same one again and again, killed with SIGKILL at many random moments.

A program of its own: it loads what it needs once and forks for every attempt, so that an attempt costs no start-up.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from torsor.text import BytePairRecipe, JsonLines, Preparation, preparing

KILLS = 20


def fill(corpus: Path, folder: Path) -> None:
    """Prepare; small files and chunks give a kill many places to fall on."""
    preparing.SYNC_BYTES, preparing.CHUNK_DOCUMENTS = 2**12, 5
    preparation = Preparation(JsonLines(corpus), BytePairRecipe(300), validation=0.1, shard_tokens=1000)
    for _ in preparation.into(folder):
        pass


def attempt(corpus: Path, folder: Path) -> int:
    """Begin in a process of its own."""
    child = os.fork()
    if not child:
        fill(corpus, folder)
        os._exit(0)
    return child


if __name__ == "__main__":
    corpus, folder = Path(sys.argv[1]), Path(sys.argv[2])
    started = time.monotonic()
    child = attempt(corpus, folder / "whole")
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit("preparing failed")
    whole = time.monotonic() - started
    chance = random.Random(0)
    kills, number = 0, 0
    while kills < KILLS:
        child = attempt(corpus, folder / f"killed {number}")
        time.sleep(chance.uniform(0, whole / 2))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        kills += killed
        number += not killed  # it had ended before, in spite of all kills: the next one
    fill(corpus, folder / f"killed {number}")
    print(kills, "kills")

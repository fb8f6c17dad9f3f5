"""How fast training batches come: words of a group with their states, and rows of packed text."""

from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.groups import named
from torsor.tasks import PackedTokens, Task, WordProblem
from torsor.text.shard_writer import ShardWriter
from torsor.text.token_shards import TokenShards

ENTRIES = 32768
NUMBER = 8  # bytes of a token in a batch


def shards(folder: Path, tokens: np.ndarray) -> TokenShards:
    """The tokens as the files that ``torsor data prepare`` writes."""
    writer = ShardWriter(folder, "training", "uint16", capacity=len(tokens))
    for document in np.array_split(tokens, max(1, len(tokens) // 1024)):
        writer.append(document, len(document))
    return writer.finish()


def measure(
    limits: Limits,
    rounds: int = 11,
    words: tuple[int, int] = (64, 64),
    rows: tuple[int, int] = (16, 1024),
    stream: int = 2**24,
    repeats: int = 10,
    folder: Path | None = None,
) -> dict[str, Any]:
    """Time batches of successive updates.

    Args:
        limits: of this machine.
        rounds: turns that each task takes.
        words: how many of a word problem, and their letters.
        rows: how many of packed text, and their context.
        stream: tokens of the packed text.
        repeats: batches of a turn.
        folder: where the files of tokens are made and removed; the working folder by default.

    Returns:
        A row for each task, its bytes those of the batch once written; files lie in the cache of the system.

    Raises:
        ValueError: when a number is out of range or the folder cannot be written.
    """
    tokens = np.random.default_rng(0).integers(ENTRIES, size=stream)
    letters = {name: WordProblem(named(name), words[1]) for name in ("S3", "A5", "S5")}
    text = torch.from_numpy(tokens)
    with TemporaryDirectory(dir=folder or Path.cwd(), prefix="bench-") as place:
        packed = {
            "packed tokens in memory": PackedTokens(text, text, rows[1], ENTRIES),
            "packed tokens in files": PackedTokens(shards(Path(place), tokens), text, rows[1], ENTRIES),
        }
        cases = {f"words of {name}": _case(task, words[0]) for name, task in letters.items()}
        cases |= {name: _case(task, rows[0]) for name, task in packed.items()}
        found = compare(cases, limits, rounds, repeats)
    settings = {"words": list(words), "rows": list(rows), "stream": stream, "batches of a turn": repeats}
    return {"settings": settings, "rows": found}


def _case(task: Task, size: int) -> Case:
    updates = count()
    batch = task.batch(0, size)
    numbers = batch.tokens.numel()
    return Case(lambda: task.batch(next(updates), size), moved=2 * NUMBER * numbers, items=numbers, unit="tokens")

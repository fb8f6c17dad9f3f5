"""A table's numbers, computed again from the checkpoints of its runs and compared to the last digit."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from torsor.experiments.machine import find_device
from torsor.experiments.reading import evaluation
from torsor.experiments.run import examine, rebuild
from torsor.experiments.run_table import Order, finished_runs
from torsor.experiments.same_data import require_data
from torsor.training import load_weights

_SHOWN = 3


@final
@dataclass(frozen=True)
class Verified:
    """One run of a row, examined again.

    Args:
        row: label of the row.
        seed: of the run.
        path: its folder.
        compared: how many values of its evaluation were compared.
        differences: in words, of those that differ, the first few of them.
    """

    row: str
    seed: int
    path: Path
    compared: int
    differences: tuple[str, ...]


def verify(order: Order, threads: int | None = None) -> Iterator[Verified]:
    """Examine the finished runs of a table again, each from its last checkpoint and with its own threads.

    Args:
        order: which runs.
        threads: of PyTorch; those of each run by default, without which the last digit may differ.

    Yields:
        What each comes to.

    Raises:
        ValueError: when a run cannot be built again, or its data are others now.
        RunFolderError: when a folder is damaged.
    """
    for row, seed, path in finished_runs(order):
        yield _verified(row, seed, path, threads)


def _verified(row: str, seed: int, path: Path, threads: int | None) -> Verified:
    study, described = rebuild(path)
    require_data(path, study.data)
    last = described.resumed_with[-1]["threads"] if described.resumed_with else described.threads
    torch.set_num_threads(threads or last)
    digest = load_weights(path, study.model)
    study.model.to(find_device(described.about.get("device", "cpu")))
    computed = json.loads(json.dumps(examine(study, path, digest.update, f"examining {row}, seed {seed}")))
    stored = evaluation(path)
    found = [line for line in compare(stored, computed) if line]
    more = (f"and {len(found) - _SHOWN} more",) if len(found) > _SHOWN else ()
    return Verified(row, seed, path, len(list(compare(stored, computed))), (*found[:_SHOWN], *more))


def compare(stored: Any, computed: Any, where: str = "") -> Iterator[str]:
    """Each value of two JSON contents: nothing where it is equal to the last digit, otherwise both.

    Args:
        stored: the one.
        computed: the other.
        where: the name of both.

    Yields:
        A line for each number, text or truth value; an empty one where they are equal.
    """
    if isinstance(stored, dict) and isinstance(computed, dict):
        for name in stored | computed:
            yield from compare(stored.get(name), computed.get(name), f"{where}.{name}" if where else name)
    elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        for place, (one, other) in enumerate(zip(stored, computed, strict=True)):
            yield from compare(one, other, f"{where}[{place}]")
    else:
        equal = type(stored) is type(computed) and stored == computed
        yield "" if equal else f"{where} is stored as {stored!r} and computed as {computed!r}"

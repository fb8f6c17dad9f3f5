"""The numbers of runs, computed again from their checkpoints and compared to the last digit."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from torsor.experiments.machine import find_device
from torsor.experiments.reading import evaluation
from torsor.experiments.run import examine, rebuild
from torsor.experiments.run_table import finished_runs
from torsor.experiments.table_run import Order
from torsor.training import load_weights, read_run
from torsor.training.run_folder import METRICS
from torsor.training.trained_weights import short_log


@final
@dataclass(frozen=True)
class Verified:
    """One run, examined again.

    Args:
        row: label of its row.
        seed: of the run.
        path: its folder.
        compared: how many values of its evaluation were compared.
        differences: in words, of each that differs.
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


def verify_run(path: Path, threads: int | None = None) -> Verified:
    """Examine one finished run again, from its last checkpoint and with its own threads.

    Args:
        path: the run folder.
        threads: of PyTorch; the run's own by default, without which the last digit may differ.

    Raises:
        ValueError: when the run has not ended or cannot be built again, or its data are others now.
        RunFolderError: when the folder is damaged.
    """
    described = read_run(path)
    if not described.finished:
        command = described.command(path) or "torsor train with the same arguments"
        raise ValueError(f"{path} must be a finished run to be verified, got one that has not ended: {command} goes on")
    return _verified(described.about.get("label", described.experiment), described.seed, path, threads)


def _verified(row: str, seed: int, path: Path, threads: int | None) -> Verified:
    stored = evaluation(path)  # before the work: where it is damaged there is nothing to compare
    study, described = rebuild(path)
    last = described.resumed_with[-1]["threads"] if described.resumed_with else described.threads
    torch.set_num_threads(threads or last)
    digest = load_weights(path, study.model)
    if lost := short_log(path, METRICS):  # what it says of the training is as much a result as the scores
        return Verified(row, seed, path, 0, (f"{lost}; {described.anew(path)}",))
    study.model.to(find_device(described.about.get("device", "cpu")))
    computed = json.loads(json.dumps(examine(study, path, digest.update, f"examining {row}, seed {seed}")))
    lines = list(compare(stored, computed))
    return Verified(row, seed, path, len(lines), tuple(line for line in lines if line))


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

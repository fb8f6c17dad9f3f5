"""How far each main job is from its floor: operations at the measured matrix peak, bytes at the measured bandwidth."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torsor.bench.harness import Case, compare
from torsor.bench.jobs import JOBS, Part
from torsor.bench.limits import Limits
from torsor.training.memory import keep_freed_memory


def measure(limits: Limits, rounds: int = 9, sizes: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, Any]:
    """Time the jobs and set them beside their floors.

    The floor is the longer of operations over the matrix peak and bytes over the bandwidth, as if the two went on at
    one time and nothing else took any.

    Args:
        limits: of this machine.
        rounds: turns that each job takes.
        sizes: for a job's name arguments in the place of its own.

    Returns:
        A row for each job with its floor, the parts of it, and the time over the floor, with the interval of the time.

    Raises:
        ValueError: when ``rounds`` is below 1.
    """
    keep_freed_memory()
    made = {name: make(**(sizes or {}).get(name, {})) for name, make in JOBS.items()}
    cases = {
        name: Case(job.call, job.operations, job.moved, items=job.tokens, unit="tokens") for name, job in made.items()
    }
    rows, parts = compare(cases, limits, rounds), []
    for row, (name, job) in zip(rows, made.items(), strict=True):
        floor = limits.seconds(job.operations, job.moved)
        low, high = row["seconds_interval"]
        row |= {"floor_seconds": floor, "over_floor": row["seconds"] / floor}
        row["over_floor_interval"] = [low / floor, high / floor]
        parts += [{"case": name} | asdict(part) | {"share_of_floor": _share(part, limits, floor)} for part in job.parts]
    return {"settings": {name: job.about for name, job in made.items()}, "rows": rows, "parts": parts}


def _share(part: Part, limits: Limits, floor: float) -> float:
    return limits.seconds(part.operations, part.moved) / floor

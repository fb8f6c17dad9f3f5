"""How far each main job is from its floor: operations at the measured matrix peak, bytes at the measured bandwidth."""

from collections.abc import Mapping, Sequence
from typing import Any

from torsor.bench.clock import take_turns
from torsor.bench.harness import Case, compare
from torsor.bench.jobs import JOBS, Job, Part
from torsor.bench.limits import Limits
from torsor.bench.products import Product
from torsor.training.memory import keep_freed_memory


def measure(limits: Limits, rounds: int = 9, sizes: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, Any]:
    """Time the jobs and set them beside their floors.

    The floor is the longer of operations over the matrix peak and bytes over the bandwidth, as if the two went on at
    one time and nothing else took any. A product of small matrices is far from the matrix peak, whoever computes it. So
    the products that a job is made of are timed by themselves too, at its sizes and after it: ``reach`` is what its
    operations take at that rate, one part after the other, and whatever else it does would come on top.

    Args:
        limits: of this machine.
        rounds: turns that each job takes.
        sizes: for a job's name arguments in the place of its own.

    Returns:
        A row for each job with its floor and its reach, the parts of both, and the time over each, with its interval.

    Raises:
        ValueError: when ``rounds`` is below 1.
    """
    keep_freed_memory()
    made = {name: make(**(sizes or {}).get(name, {})) for name, make in JOBS.items()}
    cases = {
        name: Case(job.call, job.operations, job.moved, items=job.tokens, unit="tokens") for name, job in made.items()
    }
    rows, parts = compare(cases, limits, rounds), []
    rates = _rates([product for job in made.values() for part in job.parts for product in part.products], rounds)
    for row, (name, job) in zip(rows, made.items(), strict=True):
        for bound, seconds in {"floor": limits.seconds(job.operations, job.moved), "reach": _reach(job, rates)}.items():
            over = [each / seconds for each in (row["seconds"], *row["seconds_interval"])]
            row |= {f"{bound}_seconds": seconds, f"over_{bound}": over[0], f"over_{bound}_interval": over[1:]}
        parts += [{"case": name} | _part(part, limits, rates, row["floor_seconds"]) for part in job.parts]
    return {"settings": {name: job.about for name, job in made.items()}, "rows": rows, "parts": parts}


def _rates(products: Sequence[Product], rounds: int) -> dict[Product, float]:
    """Operations per second of every product by itself, by its median."""
    timings = take_turns({repr(product): product.make() for product in products}, rounds, repeats=3)
    return {product: product.operations / timings.median(repr(product)) for product in products}


def _rate(part: Part, rates: Mapping[Product, float]) -> float:
    """Operations per second of a part's products, one after the other."""
    return sum(each.operations for each in part.products) / sum(each.operations / rates[each] for each in part.products)


def _reach(job: Job, rates: Mapping[Product, float]) -> float:
    return sum(part.operations / _rate(part, rates) for part in job.parts if part.products)


def _part(part: Part, limits: Limits, rates: Mapping[Product, float], floor: float) -> dict[str, Any]:
    content: dict[str, Any] = {"name": part.name, "operations": part.operations, "moved_bytes": part.moved}
    content["share_of_floor"] = limits.seconds(part.operations, part.moved) / floor
    if part.products:
        rate = _rate(part, rates)
        content |= {"rate_of_peak": rate / limits.gemm, "reach_seconds": part.operations / rate}
    return content

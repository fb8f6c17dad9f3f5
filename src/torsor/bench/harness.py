"""Cases timed in turns, each beside the machine's limits and beside the case that it is to be compared with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, final

from torch import Tensor

from torsor.bench.clock import Timings, take_turns
from torsor.bench.intervals import LEAST_SIZES, SPREAD, Interval, Number, growth
from torsor.bench.limits import Limits
from torsor.bench.peak_memory import peak_bytes


@final
@dataclass(frozen=True)
class Case:
    """What is timed, and what is known of it.

    Args:
        call: does the work once.
        operations: floating-point operations that no implementation can do without; 0 for not counted.
        moved: bytes that must go to or from memory; 0 for not counted.
        items: how many things one call makes, in ``unit``; 0 for none.
        unit: what they are: "tokens".
        reference: name of the case that does the same by other means; None for none.
        given: tensors that were there before, not to be counted as its memory; None leaves memory unmeasured.
    """

    call: Callable[[], object]
    operations: Number = 0
    moved: Number = 0
    items: Number = 0
    unit: str = ""
    reference: str | None = None
    given: Sequence[Tensor] | None = None


def compare(
    cases: Mapping[str, Case],
    limits: Limits,
    rounds: int,
    repeats: int = 1,
    spread: Number = SPREAD,
    clock: Callable[[], float] = perf_counter,
) -> list[dict[str, Any]]:
    """Time the cases in turns, A B A B, after a round of warm-up, and count their memory.

    A ratio whose interval is wider than the factor ``spread``, or rests on fewer than five rounds, is not given:
    ``times_as_fast`` is None there, and the interval says why.

    Args:
        cases: by name; a reference must be one of them.
        limits: of this machine, measured in this process.
        rounds: turns of each, at least 1.
        repeats: calls in a row that make one turn.
        spread: by how much the ends of a ratio's interval may differ.
        clock: seconds since some moment.

    Returns:
        A row for each case: ``seconds`` with interval; ``share_of_peak`` and ``share_of_bandwidth`` of the median
        where operations or bytes are known; ``per_second``; ``peak_bytes``; and for one with a reference how many
        times as fast as that it is, taken round by round, with interval.

    Raises:
        ValueError: when a number is below 1, or a reference is no case.
    """
    for name, number in {"rounds": rounds, "repeats": repeats}.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    for name, case in cases.items():
        if case.reference is not None and case.reference not in cases:
            raise ValueError(f"reference of {name!r} must be one of {list(cases)}, got {case.reference!r}")
    timings = take_turns({name: case.call for name, case in cases.items()}, rounds, repeats, clock)
    return [_row(name, case, timings, limits, spread) for name, case in cases.items()]


def _row(name: str, case: Case, timings: Timings, limits: Limits, spread: Number) -> dict[str, Any]:
    seconds = timings.interval(name)
    row: dict[str, Any] = {"case": name, "seconds": seconds.middle, "seconds_interval": [seconds.low, seconds.high]}
    if case.operations:
        row |= {"operations": case.operations, "share_of_peak": case.operations / limits.gemm / seconds.middle}
    if case.moved:
        row |= {"moved_bytes": case.moved, "share_of_bandwidth": case.moved / limits.bandwidth / seconds.middle}
    if case.items:
        row |= {"per_second": case.items / seconds.middle, "unit": case.unit}
    if case.reference is not None:
        row |= {"reference": case.reference} | ratio_fields(timings.ratio_interval(case.reference, name), spread)
    if case.given is not None:
        row["peak_bytes"] = peak_bytes(case.call, case.given)
    return row


def ratio_fields(ratio: Interval, spread: Number = SPREAD) -> dict[str, Any]:
    """A ratio with its interval, or its interval alone where that hides it."""
    return {
        "times_as_fast": None if ratio.hidden(spread) else ratio.middle,
        "ratio_interval": [ratio.low, ratio.high],
        "coverage": ratio.coverage,
    }


def grown(what: str, over: str, sizes: Sequence[Number], costs: Sequence[Number]) -> dict[str, Any]:
    """A row on how ``what`` grows with ``over``: see ``growth``.

    Args:
        what: "seconds of the conformal step".
        over: what the sizes are.
        sizes: at least five.
        costs: one for each.
    """
    return {"what": what, "over": over} | growth(sizes, costs).to_json()


def growths(what: str, over: str, costs: Mapping[int, Number]) -> list[dict[str, Any]]:
    """That row by itself, or none of fewer than five sizes.

    Args:
        what: "seconds of a token".
        over: what the sizes are.
        costs: of each size.
    """
    return [grown(what, over, list(costs), list(costs.values()))] if len(costs) >= LEAST_SIZES else []

"""A run of named cases: the machine's limits first, then each case after the other, in one dictionary."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torsor.bench.catalogue import named_cases
from torsor.bench.limits import measure_limits

FORMAT = 2


def run_cases(
    names: Sequence[str] = (),
    rounds: int | None = None,
    quick: bool = False,
    told: Callable[[str, dict[str, Any]], None] | None = None,
    own: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure the limits, then the cases.

    Args:
        names: of cases; all for none.
        rounds: turns that each takes; as many as each has by default, 1 where it is quick.
        quick: at sizes that end in a moment and say nothing.
        told: is called with "machine" and with each case's name and content as soon as it is there.
        own: arguments of the function of the one that is named.

    Returns:
        A plain dictionary: the format's number, whether it was quick, the machine, and the content of each case.

    Raises:
        ValueError: when there is no case of a name, or a number is below 1.
    """
    cases = named_cases(tuple(names))
    if rounds is not None and rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    hear = told or (lambda _name, _content: None)
    limits = measure_limits(1, 64, 2**12) if quick else measure_limits()
    hear("machine", limits.to_json())
    contents = {}
    for name, case in cases.items():
        contents[name] = case.measured(limits, rounds, quick, own)
        hear(name, contents[name])
    return {"format": FORMAT, "quick": quick, "machine": limits.to_json(), "cases": contents}

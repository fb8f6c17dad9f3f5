"""The looped transformer's training update by one process of all threads, or by many of few; compiled or not."""

from contextlib import ExitStack
from importlib.util import find_spec
from math import gcd
from typing import Any

import torch

from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits
from torsor.bench.looped import useful_flops, word_model
from torsor.bench.shared_updates import SharedUpdates, Sizes


def measure(
    limits: Limits,
    rounds: int = 12,
    widths: tuple[int, ...] = (128,),
    batch: int = 64,
    length: int = 64,
    steps: int = 8,
    compiled: tuple[bool, ...] = (False, True),
) -> dict[str, Any]:
    """Time an update of ``torsor train``: batch, forward, backward, gradients summed, clip, AdamW, record.

    Every form runs in processes of its own, which wait while another takes its turn. Where lightning-fabric is
    missing, or no number of processes divides PyTorch's threads and the batch, only one process is timed.

    Args:
        limits: of this machine; its threads are those that each form has altogether.
        rounds: turns that the forms take.
        widths: of the 1/1/1 model, multiples of 8.
        batch: sequences.
        length: tokens of each, at least 2.
        steps: loops.
        compiled: whether blocks are compiled: one form each.

    Returns:
        A row for each form at each width; the reference is the first form of that width.

    Raises:
        RuntimeError: when a process ends.
    """
    threads = torch.get_num_threads()
    most = gcd(threads, batch)  # each takes as many threads as the others, and as many sequences
    many = most > 1 and find_spec("lightning_fabric") is not None
    rows = []
    for width in widths:
        sizes, cases, first = Sizes(width, batch, length, steps), {}, None
        operations = useful_flops(word_model(width), batch, length, steps)
        with ExitStack() as stack:
            for processes in (1, most) if many else (1,):
                for blocks in compiled:
                    name = f"width {width}, {_form(processes, threads // processes, blocks)}"
                    form = stack.enter_context(SharedUpdates(sizes, processes, threads // processes, blocks))
                    cases[name] = Case(form, operations, items=batch * length, unit="tokens", reference=first)
                    first = first or name
            rows += compare(cases, limits, rounds)
    settings: dict[str, Any] = {"batch": batch, "length": length, "loops": steps}
    if most > 1 and not many:
        settings["not measured"] = "several processes, which need lightning-fabric: pip install 'torsor[dist]'"
    return {"settings": settings, "rows": rows}


def _form(processes: int, threads: int, compiled: bool) -> str:
    def counted(number: int, one: str, many: str) -> str:
        return f"{number} {one if number == 1 else many}"

    form = f"{counted(processes, 'process', 'processes')} of {counted(threads, 'thread', 'threads')}"
    return f"{form}, compiled" if compiled else form

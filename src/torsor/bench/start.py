"""How long the package and its command line take to start, each in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from torsor.bench.harness import Case, compare
from torsor.bench.limits import Limits

PROGRAMS = {
    "python alone": "pass",
    "import torsor": "import torsor",
    "torsor --help": "from torsor.cli import main; main(['--help'])",
    "import torch": "import torch",
    "from torsor.models import LoopedTransformer": "from torsor.models import LoopedTransformer",
}


def measure(limits: Limits, rounds: int = 9, programs: Mapping[str, str] = PROGRAMS) -> dict[str, Any]:
    """Time processes from their start to their end, file caches warm.

    Args:
        limits: of this machine, which a start does not come near.
        rounds: turns that each program takes.
        programs: what Python runs, by name.

    Returns:
        A row for each program.

    Raises:
        ValueError: when ``rounds`` is below 1, or a program fails.
    """
    rows = compare({name: Case(lambda code=code: _run(code)) for name, code in programs.items()}, limits, rounds)
    return {"settings": {"python": sys.version.split()[0]}, "rows": rows}


def _run(code: str) -> None:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": ""}  # as users have it: the second start reads bytecode
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or ["nothing was said"])[-1]
        raise ValueError(f"a program must end with 0, {code!r} ended with {ended.returncode}: {last}")

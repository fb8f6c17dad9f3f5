"""What the machine can do at best: operations of a large matrix product, and bytes to and from memory."""

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from os import cpu_count
from pathlib import Path
from typing import Any, final

import torch

from torsor.bench.clock import take_turns
from torsor.bench.intervals import Number
from torsor.training.memory import keep_freed_memory

GEMM_SIZE = 2048
TRIAD_NUMBERS = 2**25  # in each of three vectors of 128 MiB: more than a cache holds


@final
@dataclass(frozen=True)
class Limits:
    """A machine and its limits with the threads that PyTorch has.

    Args:
        cpu: its name.
        cores: that the system shows.
        threads: of PyTorch.
        torch: its version.
        gemm: operations per second of the fastest product of two float32 matrices.
        bandwidth: bytes per second of the fastest triad.
    """

    cpu: str
    cores: int
    threads: int
    torch: str
    gemm: float
    bandwidth: float

    def seconds(self, operations: Number, moved: Number) -> float:
        """What so many operations and bytes take at least, each kind at its limit, the two at one time."""
        return max(operations / self.gemm, moved / self.bandwidth)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return asdict(self)


def gemm(size: int) -> Callable[[], None]:
    """A product of square float32 matrices; one of ``GEMM_SIZE`` reaches the machine's peak."""
    left, right = (torch.randn(size, size, dtype=torch.float32) for _ in range(2))
    out = torch.empty_like(left)

    def product() -> None:
        torch.mm(left, right, out=out)

    return product


def triad(numbers: int) -> Callable[[], None]:
    """A multiple of one float32 vector added to another; three of ``TRIAD_NUMBERS`` do not fit into a cache."""
    b, c = (torch.ones(numbers, dtype=torch.float32) for _ in range(2))
    a = torch.empty_like(b)

    def add() -> None:
        torch.add(b, c, alpha=1.5, out=a)

    return add


def measure_limits(rounds: int = 7, size: int = GEMM_SIZE, numbers: int = TRIAD_NUMBERS) -> Limits:
    r"""Time a product of square matrices and a triad :math:`a \leftarrow b + s c` of long vectors.

    A product of size :math:`n` counts :math:`2 n^3` operations, a triad 12 bytes for each number: that the cache may
    fetch :math:`a` before it is written over is not counted. A limit is the best of the rounds.

    Args:
        rounds: at least 1.
        size: of the matrices, at least 1.
        numbers: in each of three vectors, at least 1.

    Raises:
        ValueError: when a number is below 1.
    """
    for name, value in {"rounds": rounds, "size": size, "numbers": numbers}.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    keep_freed_memory()
    timings = take_turns({"gemm": gemm(size), "triad": triad(numbers)}, rounds)
    fastest = {name: min(each) for name, each in timings.seconds.items()}
    return Limits(
        cpu_name(),
        cpu_count() or 1,
        torch.get_num_threads(),
        torch.__version__,
        2 * size**3 / fastest["gemm"],
        3 * 4 * numbers / fastest["triad"],
    )


def cpu_name() -> str:
    """The processor as the system calls it."""
    described = Path("/proc/cpuinfo")
    if described.is_file():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()

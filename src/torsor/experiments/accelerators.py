"""Accelerators by name, with what their makers print."""

from dataclasses import dataclass
from typing import final

from torsor.experiments.experiment import nearest


@final
@dataclass(frozen=True)
class Accelerator:
    """A device.

    Args:
        name: as it is sold.
        operations_per_second: of dense bfloat16 matrix products, by the data sheet.
        memory: in bytes, by the data sheet.
    """

    name: str
    operations_per_second: float
    memory: float


ACCELERATORS = {
    "a100": Accelerator("NVIDIA A100 80GB", 312e12, 80e9),
    "h100": Accelerator("NVIDIA H100 SXM", 989e12, 80e9),
    "h200": Accelerator("NVIDIA H200 SXM", 989e12, 141e9),
    "b200": Accelerator("NVIDIA B200", 2250e12, 180e9),
}


def find_accelerator(name: str) -> Accelerator:
    """The accelerator of this name.

    Raises:
        ValueError: when there is none; the nearest right name is told.
    """
    if name.lower() not in ACCELERATORS:
        raise ValueError(f"there is no accelerator {name!r}{nearest(name, ACCELERATORS)}")
    return ACCELERATORS[name.lower()]

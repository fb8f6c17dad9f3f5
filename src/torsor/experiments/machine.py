"""The machine that a run finds: threads, memory, and whether the installation computes what it should."""

from pathlib import Path

import torch

from torsor.training import read_run
from torsor.training.memory import keep_freed_memory
from torsor.training.run_description import RUN_FILE
from torsor.transitions import BlockConformal

MOST_THREADS = 1024


def require_threads(threads: int | None) -> None:
    """Refuse a number of threads that no machine has; None is the machine's own.

    Raises:
        ValueError: when there are less than 1 or too many.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    if threads is not None and threads > MOST_THREADS:
        raise ValueError(f"threads must be at most {MOST_THREADS}, got {threads}")


def set_threads(threads: int | None) -> None:
    """Set PyTorch's threads; None leaves them as they are.

    Raises:
        ValueError: when there are less than 1 or too many.
    """
    require_threads(threads)
    if threads is not None:
        torch.set_num_threads(threads)


def prepare_machine(threads: int | None, path: Path) -> int | None:
    """Set PyTorch's threads, to those of the run that is resumed unless told otherwise, and the allocator.

    Args:
        threads: as typed; None for the run's own or the machine's.
        path: the run folder, which may not be there yet.

    Returns:
        The number of threads that the run began with, where another was typed; otherwise None.

    Raises:
        ValueError: when ``threads`` is below 1.
    """
    require_threads(threads)
    begun = read_run(path).threads if (path / RUN_FILE).is_file() else None
    wanted = begun if threads is None else threads  # another number may change the last bit
    if wanted is not None:
        torch.set_num_threads(wanted)
    keep_freed_memory()
    return None if wanted == begun else begun


def find_device(name: str) -> torch.device:
    """The device of this name; of "auto", the first GPU if there is one, otherwise the CPU.

    Raises:
        ValueError: when the machine has no such device.
    """
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}") from error
    if device.type not in {"cpu", "cuda"}:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and not torch.cuda.device_count():
        raise ValueError(f"device must be auto or cpu, since torch finds no GPU, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device must be one of the {torch.cuda.device_count()} GPUs that torch finds, got {name!r}")
    return device


def accelerators() -> list[str]:
    """Names of the devices that PyTorch finds besides the CPU."""
    found = []
    if torch.cuda.is_available():
        found += [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return [*found, *(["mps"] if torch.backends.mps.is_available() else [])]


def check_map() -> None:
    """Carry a state by a map's fast form and by its matrix, with a gradient.

    Raises:
        ValueError: when the two differ: the installation of torch does not compute what it should.
    """
    carry = BlockConformal(8, groups=2)()
    x = torch.randn(3, 8, requires_grad=True)
    carried = carry(x)
    carried.sum().backward()
    if not torch.allclose(carried, x @ carry.dense().T, atol=1e-6):
        raise ValueError("the fast form of a map does not equal its matrix on this machine: reinstall torch")

"""Join the processes that torchrun, Slurm or this one has started, for a run that all of them train."""

import logging
import os
from typing import TYPE_CHECKING, Literal

import torch

from torsor.training.shared_run import ToldByMainError

if TYPE_CHECKING:  # they need an extra
    from torsor.training.layout import Layout
    from torsor.training.processes import Processes

__all__ = ["Strategy", "ToldByMainError", "join", "lost"]

Strategy = Literal["ddp", "fsdp"]
# how gloo and NCCL tell it; torch has no class for it that both raise
_LOST = ("Connection reset", "Connection closed", "Connection refused", "Broken pipe", "NCCL", "remote worker")
MISSING = "several devices need the package lightning-fabric: pip install 'torsor[dist]'"


def join(devices: int | None, nodes: int | None, strategy: Strategy, device: str) -> "Processes | None":
    """The processes of a run, joined to each other, or None for the one process that there is by default.

    Args:
        devices: of each machine, as typed; 1 by default.
        nodes: machines, as typed; 1 by default. More than one need torchrun or srun on each of them.
        strategy: a copy of the model on each device, or one model in shards over them.
        device: "cpu" for that many processes on the CPU, otherwise GPUs.

    Raises:
        ValueError: when a number is out of range, the machine has fewer GPUs, or another number of
            processes was started.
        ImportError: when there are several and lightning-fabric is missing.
    """
    for name, given in {"devices": devices, "nodes": nodes}.items():
        if given is not None and given < 1:
            raise ValueError(f"{name} must be at least 1, got {given}")
    count = (devices or 1) * (nodes or 1)
    started = _started()
    if started > 1 and started != count:
        raise ValueError(
            f"--devices times --nodes must be the number of processes that were started = {started}, "
            f"got {devices or 1} * {nodes or 1}"
        )
    if count == 1:
        return None
    if started == 1 and (nodes or 1) > 1:
        raise ValueError(f"nodes must be 1 unless torchrun or srun starts the processes on each, got {nodes}")
    accelerator = _accelerator(device, devices or 1)
    layout = _layout(strategy)
    from torsor.training.processes import Processes

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # who the others are is no news
    return Processes(layout, devices or 1, nodes or 1, accelerator)


def lost(error: RuntimeError) -> bool:
    """Whether it says that another process of the run has ended or cannot be reached any more."""
    return any(words in str(error) for words in _LOST)


def _started() -> int:
    """How many processes torchrun, srun or the process before this one says that there are; 1 where nobody does."""
    if "WORLD_SIZE" in os.environ and "LOCAL_RANK" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    # In an interactive job the variables are those of the allocation, and its shell is the one process.
    if "SLURM_PROCID" in os.environ and os.environ.get("SLURM_JOB_NAME") not in {"bash", "interactive"}:
        return int(os.environ.get("SLURM_NTASKS", "1"))
    return 1


def _accelerator(device: str, devices: int) -> str:
    if device == "cpu":
        return "cpu"
    if device not in {"auto", "cuda"}:
        raise ValueError(f"device must be auto, cpu or cuda where there are several, got {device!r}")
    found = torch.cuda.device_count()
    if devices > found:
        raise ValueError(
            f"devices must be at most the {found} GPUs that torch finds, got {devices}; "
            "--device cpu trains with as many processes on the CPU"
        )
    return "cuda"


def _layout(strategy: Strategy) -> "Layout":
    try:
        import lightning_fabric  # noqa: F401 # pyright: ignore[reportUnusedImport] - whether it is there
    except ImportError as error:
        raise ImportError(MISSING) from error
    match strategy:
        case "ddp":
            from torsor.training.replicated import Replicated

            return Replicated()
        case "fsdp":
            from torsor.training.sharded import Sharded

            return Sharded()

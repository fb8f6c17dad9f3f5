"""Many processes that train one model: Lightning Fabric behind the calls of an engine."""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, distributed, nn
from torch.optim import Optimizer

from torsor.training.engine import Engine, read_tensors, write_tensors
from torsor.training.layout import Layout
from torsor.training.shards import Piece

_PIECE = 1 << 26  # bytes that are sent at once


@final
class Processes:
    """The processes that torchrun, Slurm or, on one machine, this one itself has started, joined to each other.

    Args:
        layout: how the parameters of a model lie over them: ``Replicated`` or ``Sharded``.
        devices: processes of each machine; on GPUs each has its own.
        nodes: machines.
        accelerator: "cpu" or "cuda".

    Raises:
        ValueError: when another number of processes was started.
    """

    def __init__(self, layout: Layout, devices: int, nodes: int = 1, accelerator: str = "cpu") -> None:
        self.layout = layout
        # Precision is left to the engine: Fabric would cast inputs and outputs, and knows of no float32 island.
        self.fabric: Fabric = Fabric(
            accelerator=accelerator, devices=devices, num_nodes=nodes, strategy=layout.strategy(devices * nodes)
        )
        self.fabric.launch()

    @property
    def count(self) -> int:
        """How many there are."""
        return self.fabric.world_size

    @property
    def number(self) -> int:
        """Which one this is; 0 is the main one."""
        return self.fabric.global_rank

    @property
    def device(self) -> torch.device:
        """The device of this one."""
        return self.fabric.device

    def engine(self, autocast: torch.dtype | None = None) -> "ManyProcesses":
        """The engine that trains over them.

        Args:
            autocast: as for ``SingleProcess``.
        """
        return ManyProcesses(self, autocast)


@final
class ManyProcesses(Engine):
    """One of many processes: it computes its rows of every batch and shares in all sums.

    Guarantees, each a test in ``tests/test_many_machines.py``:

    * two processes give the losses and weights of one process with its batch in two parts, bit for bit
      where the model is replicated, and up to rounding where it is sharded;
    * any number of processes goes on from a checkpoint, whatever wrote it;
    * where the model is sharded each process writes its own shards to a file, and no process holds the others'.

    Args:
        processes: joined to each other.
        autocast: as for ``SingleProcess``.
    """

    def __init__(self, processes: Processes, autocast: torch.dtype | None = None) -> None:
        self._processes = processes
        self._layout = processes.layout
        self._autocast = autocast
        self._model: nn.Module = nn.Module()
        self._called: Any = self._model  # Fabric has no public name for its class
        self._last = True

    @property
    def is_main(self) -> bool:
        return self._processes.number == 0

    @property
    def processes(self) -> int:
        return self._processes.count

    @property
    def autocast(self) -> torch.dtype | None:
        return self._autocast

    def setup(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self._model = model
        self._called = self._layout.setup(self._processes.fabric, model, optimizer)
        return self._called, optimizer

    def rows(self, size: int) -> slice:
        share, rest = divmod(size, self.processes)
        if rest or not share:
            raise ValueError(f"batch must be a multiple of the number of processes = {self.processes}, got {size}")
        start = share * self._processes.number
        return slice(start, start + share)

    def place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._processes.device)

    def precision(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self._processes.device.type, dtype=self._autocast)

    def part(self, last: bool) -> AbstractContextManager[object]:
        self._last = last
        return self._processes.fabric.no_backward_sync(self._called, enabled=not last)

    def backward(self, loss: Float[Tensor, ""]) -> None:
        self._processes.fabric.backward(loss)
        if self._last:
            self._layout.after_backward(self._model)

    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        return self._layout.clip(parameters, limit)

    def total(self, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
        total = value.detach().clone()
        distributed.all_reduce(total)
        return total

    def whole(self, model: nn.Module) -> AbstractContextManager[object]:
        return self._layout.whole(model)

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        gathered = {}
        for name in sorted(tensors):  # in one order on all processes, which need not have read them in one
            whole = self._layout.whole_tensor(tensors[name].detach())
            if self.is_main:  # one after the other, so that no GPU holds more than one of them whole
                gathered[name] = whole.cpu()
        return gathered

    @property
    def shard(self) -> tuple[int, int]:
        return self._layout.shard(self._processes.number, self.processes)

    def pieces(self, tensors: Mapping[str, Tensor]) -> dict[str, Piece]:
        found = {name: self._layout.piece(tensor.detach(), self._processes.number) for name, tensor in tensors.items()}
        return {name: piece for name, piece in found.items() if piece is not None}

    def collect(self, data: bytes) -> list[bytes]:
        device = self._processes.device
        lengths = torch.zeros(self.processes, dtype=torch.int64, device=device)
        distributed.all_gather_into_tensor(lengths, torch.tensor([len(data)], device=device))
        longest = max(int(lengths.max()), 1)
        sent = torch.frombuffer(bytearray(data.ljust(longest, b"\0")), dtype=torch.uint8).to(device)
        received = torch.empty(self.processes * longest, dtype=torch.uint8, device=device)
        distributed.all_gather_into_tensor(received, sent)
        rows = zip(received.cpu().split(longest), lengths.tolist(), strict=True)
        return [row[:length].numpy().tobytes() for row, length in rows]

    def spread(self, data: bytes) -> bytes:
        device = self._processes.device
        length = torch.tensor([len(data)], device=device)
        distributed.broadcast(length, 0)
        received = bytearray(data if self.is_main else int(length))
        for start in range(0, len(received), _PIECE):
            held = torch.frombuffer(received, dtype=torch.uint8, offset=start, count=min(_PIECE, len(received) - start))
            sent = held.to(device)
            distributed.broadcast(sent, 0)
            held.copy_(sent)
        return bytes(received)

    def save(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        write_tensors(tensors, path)

    def load(self, path: Path) -> dict[str, Tensor]:
        return read_tensors(path)

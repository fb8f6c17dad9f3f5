"""What the training loop asks of the machine: one process here, many behind the same calls."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load, load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from torsor.training.shards import Piece


class Engine(ABC):
    r"""The calls through which the loop reaches parameters, gradients, other processes and files.

    With :math:`P` processes, process :math:`p` holds some rows of every batch and computes the loss
    :math:`\ell_p` over them, divided by the number of labels of the *whole* batch; so
    :math:`\ell = \sum_p \ell_p` is the mean over labels however the rows are dealt, and an engine
    adds losses and gradients and never averages them.
    """

    @property
    @abstractmethod
    def is_main(self) -> bool:
        """Whether this is the one process that writes logs and run folders."""

    @property
    @abstractmethod
    def processes(self) -> int:
        """How many there are."""

    @property
    @abstractmethod
    def autocast(self) -> torch.dtype | None:
        """The type that matrix products are computed in; None for the parameters' own."""

    @abstractmethod
    def setup(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Prepare both for training, once; the loop calls what is returned in their place."""

    @abstractmethod
    def rows(self, size: int) -> slice:
        """The rows of a batch of ``size`` that this process computes; both ends are given."""

    @abstractmethod
    def place(self, tensor: Tensor) -> Tensor:
        """The tensor on the device of this process's model."""

    @abstractmethod
    def precision(self) -> AbstractContextManager[object]:
        """What the forward pass runs in: nothing, or autocast to a narrower type."""

    @abstractmethod
    def part(self, last: bool) -> AbstractContextManager[object]:
        """What a part of a batch goes forward and backward in; before the last one, gradients may stay unsummed."""

    @abstractmethod
    def backward(self, loss: Float[Tensor, ""]) -> None:
        """Add to every gradient that of the sum over processes of ``loss``."""

    @abstractmethod
    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        """Scale all gradients so that their joint 2-norm is at most ``limit``; return it as it was before."""

    @abstractmethod
    def total(self, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """The sum of ``value`` over processes, the same on each."""

    @abstractmethod
    def whole(self, model: nn.Module) -> AbstractContextManager[object]:
        """A time in which the model's parameters are whole on every process: to look at it. All of them enter it."""

    @abstractmethod
    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors, whole, on the main process, and nothing on the others; all of them call it with equal names."""

    @property
    @abstractmethod
    def shard(self) -> tuple[int, int]:
        """Which of how many parts of a checkpoint this process writes; of one part, the main process writes it."""

    @abstractmethod
    def pieces(self, tensors: Mapping[str, Tensor]) -> dict[str, Piece]:
        """The rows of the tensors that this process writes: together all rows once, whole ones on the main process."""

    @abstractmethod
    def spread(self, data: bytes) -> bytes:
        """What the main process calls this with, on every process; the others' own is not looked at."""

    @abstractmethod
    def collect(self, data: bytes) -> list[bytes]:
        """What each process calls this with, in their order, on every process."""

    @abstractmethod
    def save(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Write tensors that this process has to a safetensors file."""

    @abstractmethod
    def load(self, path: Path) -> dict[str, Tensor]:
        """Read whole tensors from a safetensors file, on every process, in main memory."""


@final
class SingleProcess(Engine):
    """One process on one device: the device on which the model's parameters are.

    Args:
        autocast: the type that the layers' matrix products are computed in, ``torch.bfloat16``; None for
            the parameters' own. The state that is carried, rates and group arithmetic stay in float32.

    Raises:
        ValueError: when ``autocast`` is another type.

    Example:
        >>> SingleProcess().is_main
        True
    """

    def __init__(self, autocast: torch.dtype | None = None) -> None:
        if autocast not in {None, torch.bfloat16}:
            raise ValueError(f"autocast must be torch.bfloat16 or None, got {autocast}")
        self._autocast = autocast
        self._device = torch.device("cpu")

    @property
    def is_main(self) -> bool:
        return True

    @property
    def processes(self) -> int:
        return 1

    @property
    def autocast(self) -> torch.dtype | None:
        return self._autocast

    def setup(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self._device = next(model.parameters()).device
        return model, optimizer

    def rows(self, size: int) -> slice:
        return slice(0, size)

    def place(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._device)

    def precision(self) -> AbstractContextManager[object]:
        if self._autocast is None:
            return nullcontext()
        return torch.autocast(self._device.type, dtype=self._autocast)

    def part(self, last: bool) -> AbstractContextManager[object]:
        return nullcontext()

    def backward(self, loss: Float[Tensor, ""]) -> None:
        loss.backward()

    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        return nn.utils.clip_grad_norm_(parameters, limit)

    def total(self, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
        return value

    def whole(self, model: nn.Module) -> AbstractContextManager[object]:
        return nullcontext()

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return dict(tensors)

    @property
    def shard(self) -> tuple[int, int]:
        return 0, 1

    def pieces(self, tensors: Mapping[str, Tensor]) -> dict[str, Piece]:
        return {name: Piece.whole(tensor.detach()) for name, tensor in tensors.items()}

    def spread(self, data: bytes) -> bytes:
        return data

    def collect(self, data: bytes) -> list[bytes]:
        return [data]

    def save(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        write_tensors(tensors, path)

    def load(self, path: Path) -> dict[str, Tensor]:
        return read_tensors(path)


READ_WHOLE = 2**26  # bytes


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file.

    One of up to 64 MiB is read whole: what maps a file into memory keeps some 57 bytes of each of its tensors until the
    process ends, which adds up where small runs are resumed for hours. A larger one would be held twice.

    Raises:
        OSError: when the file cannot be read.
        SafetensorError: when it is no safetensors file.
    """
    return load(path.read_bytes()) if path.stat().st_size <= READ_WHOLE else load_file(path)


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors of any device to a safetensors file.

    Raises:
        OSError: when the file cannot be written.
    """
    # safetensors renames a private temporary file into place, which would leave the user's umask unheeded.
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: tensor.cpu() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(f"{path.name}: {error}") from error
    path.chmod(mode)

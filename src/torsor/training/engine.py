"""What the training loop asks of the machine: one process here, many behind the same calls."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import final

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer


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

    @abstractmethod
    def setup(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Prepare both for training, once; the loop calls what is returned in their place."""

    @abstractmethod
    def share(self, rows: Tensor) -> Tensor:
        """The rows of a whole batch that this process computes, on the device of its model."""

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
    def save(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Write whole tensors to a safetensors file, from one process."""

    @abstractmethod
    def load(self, path: Path) -> dict[str, Tensor]:
        """Read whole tensors from a safetensors file, on every process, in main memory."""


@final
class SingleProcess(Engine):
    """One process on one device: the device on which the model's parameters are.

    Example:
        >>> SingleProcess().is_main
        True
    """

    def __init__(self) -> None:
        self._device = torch.device("cpu")

    @property
    def is_main(self) -> bool:
        return True

    def setup(self, model: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self._device = next(model.parameters()).device
        return model, optimizer

    def share(self, rows: Tensor) -> Tensor:
        return rows.to(self._device)

    def backward(self, loss: Float[Tensor, ""]) -> None:
        loss.backward()

    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        return nn.utils.clip_grad_norm_(parameters, limit)

    def total(self, value: Float[Tensor, ""]) -> Float[Tensor, ""]:
        return value

    def save(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        # safetensors renames a private temporary file into place, which would leave the user's umask unheeded.
        path.touch()
        mode = path.stat().st_mode
        try:
            save_file({name: tensor.cpu() for name, tensor in tensors.items()}, path)
        except SafetensorError as error:
            raise OSError(f"{path.name}: {error}") from error
        path.chmod(mode)

    def load(self, path: Path) -> dict[str, Tensor]:
        return load_file(path)

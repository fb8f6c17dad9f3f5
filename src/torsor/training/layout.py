"""How the parameters of one model lie over many processes."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor, nn
from torch.optim import Optimizer

from torsor.training.shards import Piece

if TYPE_CHECKING:  # an extra, and seconds to import
    from lightning_fabric import Fabric
    from lightning_fabric.strategies.parallel import ParallelStrategy


class Layout(ABC):
    """What differs between a copy of the model on every process and a model in shards.

    To add one: a final class with these members, in a file of its own that may import Lightning Fabric,
    since it is read only where there are many processes.
    """

    @abstractmethod
    def strategy(self, processes: int) -> "ParallelStrategy":
        """Fabric's strategy, whose sums of gradients are sums and no means."""

    @abstractmethod
    def setup(self, fabric: "Fabric", model: nn.Module, optimizer: Optimizer) -> nn.Module:
        """Lay parameters and moments out, and return the Fabric module that is called in the model's place."""

    @abstractmethod
    def after_backward(self, model: nn.Module) -> None:
        """Sum what the strategy leaves unsummed, after the last backward pass of an update."""

    @abstractmethod
    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        """``Engine.clip``."""

    @abstractmethod
    def whole(self, model: nn.Module) -> AbstractContextManager[object]:
        """``Engine.whole``."""

    @abstractmethod
    def shard(self, number: int, processes: int) -> tuple[int, int]:
        """``Engine.shard`` of a process."""

    @abstractmethod
    def piece(self, tensor: Tensor, number: int) -> Piece | None:
        """The rows of a tensor that a process writes to a checkpoint; None where another writes all of them."""

    @abstractmethod
    def whole_tensor(self, tensor: Tensor) -> Tensor:
        """The tensor itself, or what its shards make up; every process calls it."""

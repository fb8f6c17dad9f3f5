"""A copy of the model on every process, whose gradients are summed while the backward pass goes on."""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.strategies.parallel import ParallelStrategy
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import GradBucket
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from torsor.training.layout import Layout
from torsor.training.shards import Piece


@final
class Replicated(Layout):
    r"""PyTorch's distributed data parallelism: every process holds all parameters, gradients and moments.

    Gradients are added up, not averaged, since every process already divides by the labels of the whole
    batch. Two processes give, bit for bit, what one process gives with its batch in two parts on the same
    kind of device: a sum of two numbers has no order. More than two agree up to the order of the sum.
    """

    def strategy(self, processes: int) -> ParallelStrategy:
        # A model may hold parameters that a forward pass does not reach: published layouts do.
        return _Summing(find_unused_parameters=True)

    def setup(self, fabric: Fabric, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        return fabric.setup_module(_WithIdle(model))

    def after_backward(self, model: nn.Module) -> None:
        pass

    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        return nn.utils.clip_grad_norm_(parameters, limit)

    def whole(self, model: nn.Module) -> AbstractContextManager[object]:
        return nullcontext()

    def shard(self, number: int, processes: int) -> tuple[int, int]:
        return 0, 1

    def piece(self, tensor: Tensor, number: int) -> Piece | None:
        return None if number else Piece.whole(tensor)

    def whole_tensor(self, tensor: Tensor) -> Tensor:
        return tensor


@final
class _WithIdle(nn.Module):
    """The model beside a parameter that nothing reads: PyTorch warns every user whose model has no such one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.idle = nn.Parameter(torch.zeros(1))

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return self.model(*arguments, **named)


@final
class _Summing(DDPStrategy):
    def setup_module(self, module: nn.Module) -> DistributedDataParallel:
        wrapped = super().setup_module(module)
        wrapped.register_comm_hook(None, _sum)
        return wrapped


def _sum(_: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    work = distributed.all_reduce(bucket.buffer(), async_op=True)
    if work is None:  # only a process outside of the group gets none
        raise RuntimeError("this process must belong to those that train, it does not")
    return work.get_future().then(_first)


def _first(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]

"""One model in shards over all processes: each holds a part of every parameter, gradient and moment."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from typing import final

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from lightning_fabric.strategies.model_parallel import ModelParallelStrategy
from lightning_fabric.strategies.parallel import ParallelStrategy
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from torsor.training.layout import Layout
from torsor.training.shards import Piece


@final
class Sharded(Layout):
    """PyTorch's fully sharded data parallelism (FSDP2), the model as one unit.

    Parameters are cut along their first axis, and so are gradients and moments; those without an axis
    stay whole everywhere. A forward pass gathers all parameters once, and they stay whole until its
    backward pass is through: the blocks of a loop are applied a different number of times by each
    process, so that no process can wait for another inside it. What is saved is the memory of the
    moments, and of parameters and gradients between two updates.

    The norm of the gradient is a sum over shards, in another order than a single process takes: an
    update agrees with that of ``Replicated`` up to rounding.
    """

    def strategy(self, processes: int) -> ParallelStrategy:
        return ModelParallelStrategy(_shard, data_parallel_size=processes, tensor_parallel_size=1)

    def setup(self, fabric: Fabric, model: nn.Module, optimizer: Optimizer) -> nn.Module:
        # The model's output is read and never written to, which is what the warning is about.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        model.to(fabric.device)
        before = dict(model.named_parameters())
        wrapped = fabric.setup_module(model, move_to_device=False)
        after = dict(model.named_parameters())
        _move(optimizer, {parameter: after[name] for name, parameter in before.items()})
        return wrapped

    def after_backward(self, model: nn.Module) -> None:
        for parameter in model.parameters():
            if not isinstance(parameter, DTensor) and parameter.grad is not None:
                distributed.all_reduce(parameter.grad)

    def clip(self, parameters: Iterable[nn.Parameter], limit: float) -> Float[Tensor, ""]:
        moved = [parameter for parameter in parameters if parameter.grad is not None]
        shards = [p for p in moved if isinstance(p, DTensor)]
        rest = [p for p in moved if not isinstance(p, DTensor)]
        norms = [self.whole_tensor(_norm(each)) for each in (shards, rest) if each]
        norm = torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())
        for each in (shards, rest):
            nn.utils.clip_grads_with_norm_(each, limit, norm)
        return norm

    @contextmanager
    def whole(self, model: nn.Module) -> Iterator[None]:
        units = [module for module in model.modules() if isinstance(module, FSDPModule)]
        for unit in units:
            unit.unshard()
        try:
            yield
        finally:
            for unit in units:
                unit.reshard()

    def shard(self, number: int, processes: int) -> tuple[int, int]:
        return number, processes

    def piece(self, tensor: Tensor, number: int) -> Piece | None:
        if not isinstance(tensor, DTensor):
            return None if number else Piece.whole(tensor)
        rows, processes = tensor.shape[0], tensor.device_mesh.size()
        start = min(number * ceil(rows / processes), rows)  # as torch.chunk cuts: the last shards may be short or empty
        return Piece(tensor.to_local(), start, tuple(tensor.shape))

    def whole_tensor(self, tensor: Tensor) -> Tensor:
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _shard(model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """Shard the model in place; its sums of gradients are sums on every backend."""
    points = {parameter for parameter in model.parameters() if not parameter.ndim}  # FSDP2 cannot cut them
    fully_shard(model, mesh=mesh["data_parallel"], reshard_after_forward=False, ignored_params=points)
    if isinstance(model, FSDPModule):
        model.set_gradient_divide_factor(1.0)
        model.set_force_sum_reduction_for_comms(True)  # gloo has no multiplied sum
    return model


def _move(optimizer: Optimizer, after: dict[nn.Parameter, nn.Parameter]) -> None:
    """Let the optimizer hold the new parameters, with the shards of the moments it had for the old ones."""
    for group in optimizer.param_groups:
        group["params"] = [after[parameter] for parameter in group["params"]]
    for parameter, new in after.items():
        if parameter in optimizer.state:
            slots = optimizer.state.pop(parameter)
            # in one order on all processes, which need not have read them in one
            optimizer.state[new] = {slot: _as_laid_out(slots[slot], new) for slot in sorted(slots)}


def _as_laid_out(value: Tensor, parameter: nn.Parameter) -> Tensor:
    if not isinstance(parameter, DTensor) or not value.ndim:
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements)


def _norm(parameters: Sequence[nn.Parameter]) -> Tensor:
    return nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])

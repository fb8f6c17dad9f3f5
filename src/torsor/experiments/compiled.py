"""Blocks compiled by torch.compile, one by one, and how many graphs that took."""

import warnings
from typing import Any, final

import torch._dynamo
from torch import nn
from torch._dynamo.utils import counters

from torsor.layers import Block


@final
class CompiledBlocks:
    """The blocks of a model, compiled in place where they stand: names, parameters and checkpoints stay the same.

    A loop, whose number of steps changes from batch to batch, is never compiled, so that its depth makes
    no graph: what a block is called with does, and the lengths and sizes of batches are variables of a
    graph from the second one on. PyTorch compiles one piece of code at most ``limit`` times and leaves
    what comes after uncompiled.

    Args:
        model: that holds blocks of ``torsor.layers.Block``.
        backend: of ``torch.compile``; "inductor" writes and builds kernels.

    Raises:
        ValueError: when the model has no such block.
    """

    def __init__(self, model: nn.Module, backend: str = "inductor") -> None:
        blocks = [module for module in model.modules() if isinstance(module, Block)]
        if not blocks:
            raise ValueError("--compile needs a model that is made of torsor.layers.Block, this one has none")
        # The rotation of queries and keys is complex: it is left as it is between the kernels around it.
        warnings.filterwarnings("ignore", message="Torchinductor does not support code generation for complex")
        for block in blocks:
            block.compile(backend=backend)
        self.blocks: int = len(blocks)
        self.limit: int = torch._dynamo.config.recompile_limit
        self._before = _graphs()

    @property
    def graphs(self) -> int:
        """How many were compiled so far, here and by whatever else this process compiles meanwhile."""
        return _graphs() - self._before

    def to_json(self) -> dict[str, Any]:
        """The three numbers."""
        return {"blocks": self.blocks, "graphs": self.graphs, "limit": self.limit}


def _graphs() -> int:
    return counters["stats"]["unique_graphs"]

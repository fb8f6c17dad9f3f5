"""Depth in training: each update's number of loops, for the whole batch or for every sequence of it."""

from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from torsor.experiments.study import Step
from torsor.recurrence.depth import Depth


@final
@dataclass(frozen=True)
class SampledDepth(Step):
    """A looped model called with a sampled number of loops.

    Args:
        depth: where the number comes from.
        seed: of the draws.
        per_sequence: whether every sequence of a batch has a number of its own; only those that have
            not ended are computed.
    """

    depth: Depth
    seed: int
    per_sequence: bool = False

    def forward(self, model: nn.Module, tokens: Tensor, update: int, rows: slice) -> Tensor:
        if self.per_sequence:
            # the depths of a larger batch begin with those of a smaller one
            return model(tokens, steps=self.depth.per_sequence(self.seed, update, rows.stop)[rows.start :])
        return model(tokens, steps=self.depth.at(self.seed, update))

    def notes(self, update: int) -> dict[str, Any]:
        """The number of loops of the update, or "per sequence"."""
        return {"steps": "per sequence" if self.per_sequence else self.depth.at(self.seed, update)}

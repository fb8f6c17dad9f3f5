"""Our draws inside transformers' generation, so that a seed gives the text that it gives here."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.generation import Sampling


@final
class SeededDraws:
    """A processor of logits that draws the next token itself and leaves it as the only one.

    Given to ``generate`` of an exported model in a list ``logits_processor``, with ``do_sample=False``, it draws
    the tokens that ``torsor.generation.generate`` draws of the model with this seed.

    Args:
        sampling: how a token is drawn.
        seed: of the draws.
    """

    def __init__(self, sampling: Sampling, seed: int = 0) -> None:
        self._sampling = sampling
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(
        self, input_ids: Int[Tensor, "batch length"], scores: Float[Tensor, "batch classes"]
    ) -> Float[Tensor, "batch classes"]:
        drawn = self._sampling.draw(scores, self._generator).to(scores.device)
        return torch.full_like(scores, -torch.inf).scatter(1, drawn[:, None], 0)

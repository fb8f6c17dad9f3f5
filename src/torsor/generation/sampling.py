"""How a token is drawn from logits."""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor


@final
@dataclass(frozen=True)
class Sampling:
    r"""Draw :math:`v` with probability proportional to :math:`e^{\ell_v / \tau}` among the most probable tokens.

    Guarantees, each a test in ``tests/laws/test_generation_laws.py``:

    * at a temperature of 0 the most probable token is taken, the first among equals;
    * draws follow the softmax of the logits over the temperature;
    * nothing outside the ``top`` most probable tokens is drawn;
    * nothing outside the nucleus is drawn: the fewest most probable tokens whose probabilities, at this
      temperature and among the ``top``, sum to at least ``nucleus``.

    Args:
        temperature: :math:`\tau`, not negative.
        top: how many tokens are eligible, at least 1; None for all.
        nucleus: probability that the eligible tokens have together, above 0 and at most 1; None for all.

    Raises:
        ValueError: when an argument is out of its range.
    """

    temperature: float = 1.0
    top: int | None = None
    nucleus: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ValueError(f"temperature must be finite and not negative, got {self.temperature}")
        if self.top is not None and self.top < 1:
            raise ValueError(f"top must be at least 1, got {self.top}")
        if self.nucleus is not None and not 0 < self.nucleus <= 1:
            raise ValueError(f"nucleus must be above 0 and at most 1, got {self.nucleus}")

    def draw(self, logits: Float[Tensor, "batch classes"], generator: torch.Generator) -> Int[Tensor, "batch"]:
        """One token for each sequence; in float64, on the CPU, whatever the logits' type and device.

        Args:
            logits: of the next token.
            generator: a generator of the CPU.

        Raises:
            ArithmeticError: when a logit is not finite.
        """
        logits = logits.detach().to("cpu", torch.float64)
        if not logits.isfinite().all():
            raise ArithmeticError("the logits of the next token must be finite: the model has diverged")
        if self.temperature == 0:
            return logits.argmax(-1)
        scaled = (logits - logits.amax(-1, keepdim=True)) / self.temperature
        if self.top is not None and self.top < logits.shape[-1]:
            # by place and not by value: equal logits must not make more tokens eligible
            kept = scaled.topk(self.top, dim=-1).indices
            scaled = torch.full_like(scaled, -math.inf).scatter(-1, kept, scaled.gather(-1, kept))
        probability = scaled.softmax(-1)
        if self.nucleus is not None:
            falling, places = probability.sort(dim=-1, descending=True, stable=True)
            # a token is out when those before it have enough together
            out = falling.cumsum(-1) - falling >= self.nucleus
            probability = probability.scatter(-1, places, falling.masked_fill(out, 0))
        return torch.multinomial(probability, 1, generator=generator).squeeze(-1)

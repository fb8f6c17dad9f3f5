"""The abstract transition: parameters in, a linear map out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor, nn

from torsor.kinds import shown
from torsor.maps import LinearMap


class Float32Island(nn.Module, ABC):
    """A module whose parameters stay in float32 or float64 whatever the model around it is cast to.

    A rate of 1e-3 is 1 in bfloat16 and a slow group would not contract at all, so ``model.bfloat16()``
    and ``model.half()`` move these parameters and leave their type alone.
    """

    @final
    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def keep_wide(value: Tensor) -> Tensor:
            result = fn(value)
            if result.dtype in {torch.bfloat16, torch.float16}:
                return value.to(device=result.device)
            return result

        return super()._apply(keep_wide, recurse)


class Transition(Float32Island, ABC):
    r"""Parameters of one linear map, the same at every step.

    ``transition()`` builds the map :math:`M`; a model calls it once in a forward pass and carries
    its state with the result at every step. ``transition.input_map()`` builds the map
    :math:`\bar B` through which an input is written during one step, so that a step reads
    :math:`u = M x + \bar B\, e`.

    Guarantees, each a law over every registered transition in ``tests/laws/test_transition_laws.py``:

    * the gradient reaches every parameter through the two maps;
    * ``state_dict`` and ``load_state_dict`` restore both maps bit for bit;
    * no parameter has two axes or more unless it is a chart's matrix, so that no optimizer for
      matrices can take a rate or a frequency for a weight;
    * casting the module to half precision leaves its parameters in float32.

    To add a transition: one file with a final class that implements the two methods, and one line
    in ``tests/cases.py``.
    """

    dim: int

    @final
    def __call__(self, *state: Any) -> LinearMap:
        """Build the map; it, and not the transition, takes a state.

        Raises:
            ValueError: when anything is given.
        """
        if state:
            right = "transition() is the map, transition()(x) carries x"
            raise ValueError(f"{type(self).__name__} builds a map and takes no state: {right}")
        return super().__call__()

    @abstractmethod
    def forward(self) -> LinearMap:
        """Build the map that carries the state through one step."""

    @abstractmethod
    def input_map(self) -> LinearMap:
        """Build the map that writes an input during one step."""


class InputTransition(Float32Island, ABC):
    """Parameters of one linear map for each token: the map has the batch axes of the tokens."""

    dim: int

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "*batch"]) -> LinearMap:
        """Build the map of every token."""


def require_whole(**sizes: int) -> None:
    """Refuse a size that is no integer; the message names it.

    Raises:
        ValueError: when one is of another type, 64.0 included: a width that was computed may have been rounded.
    """
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be an integer, got {shown(value)}")

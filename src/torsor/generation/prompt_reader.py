"""What continues prompts: a batch of them is read at once, then one token of every row at a time."""

from abc import ABC, abstractmethod
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from torsor.generation.prompts import Prompts


class PromptReader(ABC):
    """A way to read prompts of different lengths and to read on.

    Guarantees, each a law over all of them in ``tests/laws/test_prompt_laws.py``:

    * a batch of prompts equals its rows alone, whatever their lengths;
    * padding leaves every state untouched.

    To add one: a final class with the two members.
    """

    @abstractmethod
    def begin(self, prompts: Prompts) -> tuple[Float[Tensor, "batch classes"], Any]:
        """The logits of the token after each prompt, and the state after all of them.

        Raises:
            ValueError: when a token is outside the vocabulary, or a prompt does not fit.
        """

    @abstractmethod
    def step(self, tokens: Int[Tensor, "batch"], state: Any) -> tuple[Float[Tensor, "batch classes"], Any]:
        """Read one more token of every row.

        Raises:
            ValueError: when a token is outside the vocabulary, or a row has no room.
        """

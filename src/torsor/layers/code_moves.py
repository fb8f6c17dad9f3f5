"""A finite set of learned codes, and how every letter moves each of them: what a state that snaps is made of."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from torsor.layers.full_precision import full_dtype, full_precision
from torsor.transitions.base import Float32Island


class CodeMoves(Float32Island, ABC):
    r"""Codes :math:`c_1, \dots, c_N` of one norm, a start :math:`c_0`, and a move of any of them by each letter.

    The score of code :math:`j` after the move of code :math:`i` by the letter :math:`x` is :math:`\beta` times
    the inner product of the two, with a learned sharpness :math:`\beta > 0`. All codes have one norm, so the
    code with the largest score is the nearest one.

    Guarantees, each a law over every registered kind in ``tests/laws/test_snapped_laws.py``:

    * codes and start have norm 1;
    * the code with the largest score is the nearest to the moved one;
    * the gradient of the scores reaches every parameter.

    To add one: a final class with the members below, and one line in ``CODE_MOVES`` in ``tests/cases.py``.

    Args:
        codes: :math:`N`, at least 2.
        letters: how many letters there are, at least 1.
        sharpness: :math:`\beta` at the start, positive.

    Raises:
        ValueError: when a number is out of its range.
    """

    def __init__(self, codes: int, letters: int, sharpness: float) -> None:
        super().__init__()
        if codes < 2:
            raise ValueError(f"codes must be at least 2, got {codes}")
        if letters < 1:
            raise ValueError(f"letters must be at least 1, got {letters}")
        if not sharpness > 0:
            raise ValueError(f"sharpness must be positive, got {sharpness}")
        self.count = codes
        self.letters = letters
        self.log_sharpness: nn.Parameter = nn.Parameter(torch.tensor(sharpness, dtype=full_dtype()).log())

    @abstractmethod
    def codes(self) -> Float[Tensor, "codes_and_start numbers"]:
        """The codes in order, and the start after them, as real vectors of norm 1."""

    @abstractmethod
    def moved(
        self, codes: Float[Tensor, "codes_and_start numbers"]
    ) -> Float[Tensor, "codes_and_start letters numbers"]:
        """Every code, and the start, moved by every letter; none of it is a code yet."""

    @final
    def scores(self) -> Float[Tensor, "codes_and_start letters codes"]:
        """The score of every code after every move: logits, and where the state goes."""
        with full_precision(self.log_sharpness):
            codes = self.codes()
            return self.moved(codes) @ codes[: self.count].T * self.log_sharpness.exp()

"""The three precisions that the laws hold in, and the same numbers in float64 beside them."""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar, final

import pytest
import torch
from torch import Tensor

from closeness import assert_close
from tolerances import AUTOCAST, FLOAT32, FLOAT64, GRADIENTS

Made = TypeVar("Made")


@final
@dataclass(frozen=True)
class Precision:
    """A type of numbers, with or without autocast.

    Args:
        name: of it.
        dtype: of parameters, states and maps.
        island: the tolerance of what autocast leaves alone.
        outside: that of all else.
        island_gradient: that of a gradient of what autocast leaves alone.
        outside_gradient: that of a gradient of all else.
    """

    name: str
    dtype: torch.dtype
    island: float
    outside: float
    island_gradient: float
    outside_gradient: float

    @property
    def narrowed(self) -> bool:
        """Whether autocast is on."""
        return self.outside != self.island

    def scope(self) -> AbstractContextManager[object]:
        """What the law is to be computed in."""
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.narrowed)


def of(*places: int) -> list[float]:
    """Tolerances of gradients."""
    return [GRADIENTS[place].bound for place in places]


PRECISIONS = {
    each.name: each
    for each in (
        Precision("float64", torch.float64, FLOAT64.bound, FLOAT64.bound, *of(0, 0)),
        Precision("float32", torch.float32, FLOAT32.bound, FLOAT32.bound, *of(1, 1)),
        Precision("bfloat16 autocast", torch.float32, FLOAT32.bound, AUTOCAST.bound, *of(1, 2)),
    )
}
in_every_precision = pytest.mark.parametrize("precision", PRECISIONS.values(), ids=PRECISIONS)


def exactly(function: Callable[..., Made], *given: Any) -> Made:
    """The same in float64, which new tensors are then of, and without autocast."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.autocast("cpu", enabled=False):
            return function(*given)
    finally:
        torch.set_default_dtype(before)


def widened(module: Made) -> Made:
    """A copy of the same numbers in float64."""
    return copy.deepcopy(module).double()


def assert_near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Equal up to a tolerance relative to the largest number that is expected, whatever the types."""
    wide = torch.complex128 if expected.is_complex() else torch.float64
    assert_close(found.detach().to(wide), expected.detach().to(wide), tolerance)

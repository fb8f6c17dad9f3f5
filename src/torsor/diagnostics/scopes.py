"""Which coordinates a number is taken over: the blocks of a map, and the whole vector."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.kinds import kind_of
from torsor.maps import Dense, LinearMap


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """No gradient and no autocast: a number about a map comes from the map's own numbers."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def require_map(map: LinearMap) -> None:
    """Refuse what is no map, such as the transition that builds one.

    Raises:
        ValueError: when it is none.
    """
    if not isinstance(map, LinearMap):
        raise ValueError(f"map must be a linear map, got {kind_of(map)}: of a transition it is transition()")


def in_float64(map: LinearMap) -> tuple[LinearMap, Float[Tensor, "dim dim"]]:
    """The map and its matrix in float64; a map casts its numbers before it takes their sines.

    Raises:
        ValueError: when the map has batch axes, or holds a number that is not finite.
    """
    require_map(map)
    wide = map.to(torch.float64)
    matrix = wide.dense().to(torch.float64)
    if matrix.ndim != 2:
        raise ValueError(f"map must be one map without batch axes, got batch axes {tuple(matrix.shape[:-2])}")
    if not matrix.isfinite().all():
        raise ValueError("map must hold finite numbers, got an infinity or a NaN")
    return wide, matrix


def own_blocks(map: LinearMap, blocks: Sequence[slice] | None) -> tuple[slice, ...]:
    """The explicit partition of the coordinates, or the map's own one where there is none.

    Raises:
        ValueError: when ``map`` is no linear map, or ``blocks`` does not hold every coordinate exactly once.
    """
    require_map(map)
    chosen = map.blocks if blocks is None else tuple(blocks)
    if not all(isinstance(block, slice) and block.step != 0 for block in chosen):
        raise ValueError(f"blocks must be slices with a step of at least 1, got {list(chosen)}")
    held = [list(range(map.dim)[block]) for block in chosen]
    forward = all(block.step is None or block.step > 0 for block in chosen)
    if not (forward and all(held) and sorted(chain.from_iterable(held)) == list(range(map.dim))):
        raise ValueError(f"blocks must be slices that hold each of 0 .. {map.dim - 1} exactly once, got {list(chosen)}")
    return chosen


def whole_vector(map: LinearMap) -> tuple[slice, ...]:
    """The partition into one block."""
    return (slice(0, map.dim),)


def restricted(map: LinearMap, matrix: Float[Tensor, "dim dim"], blocks: Sequence[slice]) -> LinearMap:
    r"""The map without what it carries from one block to another: :math:`\sum_b P_b M P_b`.

    A probe that lives in one block and is read in that block sees no other part of the map. A map
    that does not mix the blocks is returned as it is.
    """
    inside = torch.zeros_like(matrix)
    for block in blocks:
        inside[block, block] = matrix[block, block]
    return map if torch.equal(inside, matrix) else Dense(inside)


def block_name(block: slice, dim: int) -> str:
    """How a message calls a block of coordinates."""
    places = range(dim)[block]
    stride = "" if places.step == 1 else f":{places.step}"
    return f"{places.start}:{places.stop}{stride}"

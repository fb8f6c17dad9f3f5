"""The 60 rotations of an icosahedron as the alternating group of five points: a state on SO(3) that holds A5."""

import math
from itertools import permutations

import numpy as np
from jaxtyping import Float

from torsor.groups.families import alternating

_GOLDEN = (1 + math.sqrt(5)) / 2


def icosahedral_rotations() -> Float[np.ndarray, "60 3 3"]:
    r"""A rotation :math:`\rho(g)` for each element of ``alternating(5)``, in its order, in float64.

    The axes of the 15 half-turns of an icosahedron fall into five frames of three perpendicular ones, which its
    rotations permute as A5. :math:`\rho` is a homomorphism in the convention of words,
    :math:`\rho(g h) = \rho(g) \rho(h)`, so that a state :math:`H \leftarrow H \rho(x)` holds the product of the
    letters :math:`x`. Different rotations are 72 degrees apart at least:
    :math:`\operatorname{tr}(\rho(g)^\top \rho(h)) \le \varphi` for :math:`g \ne h`, and 3 for :math:`g = h`.

    Guarantees, each a test in ``tests/claims/test_icosahedron.py``:

    * a homomorphism of ``alternating(5)`` into SO(3), one to one;
    * the traces are those of the character table: 3, -1, 0, :math:`\varphi` and :math:`1 - \varphi`.

    Example:
        >>> icosahedral_rotations().shape
        (60, 3, 3)
    """
    group, frames = alternating(5), _frames()
    half_turns = [2 * np.outer(axis, axis) - np.eye(3) for frame in frames for axis in frame]
    found = {0: np.eye(3)}
    waiting = [0]
    for known in waiting:  # grows while it is walked; the half-turns generate all
        for turn in half_turns:
            matrix = found[known] @ turn
            element = group.index(_moved_frames(frames, matrix))
            if element not in found:
                found[element] = matrix
                waiting.append(element)
    return np.stack([found[element] for element in range(group.order)])


def _frames() -> list[Float[np.ndarray, "3 3"]]:
    """The five frames, each three axes as rows: the coordinate axes, and four of the axes (±1, ±φ, ±1/φ) / 2."""
    axes = [np.eye(3)[place] for place in range(3)]
    for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        numbers = (0.5, signs[0] * _GOLDEN / 2, signs[1] / _GOLDEN / 2)
        axes += [np.roll(numbers, shift) for shift in range(3)]
    frames: list[np.ndarray] = []
    for trio in permutations(range(15), 3):
        if list(trio) == sorted(trio):
            frame = np.stack([axes[place] for place in trio])
            if np.allclose(frame @ frame.T, np.eye(3)):
                frames.append(frame)
    return frames


def _moved_frames(frames: list[np.ndarray], matrix: np.ndarray) -> list[int]:
    """Which frame the inverse of a rotation takes to each place: the permutation that multiplies as words do."""
    images = []
    for frame in frames:
        moved = frame @ matrix  # rows are axes: the inverse rotation of each
        overlap = [np.sort(np.abs(moved @ other.T), axis=1)[:, -1].min() for other in frames]
        images.append(int(np.argmax(overlap)))
    return images

"""How far words are tracked: the longest beginning at whose every position enough answers are right."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np
from scipy.special import betaincinv

from torsor.tasks import Scores
from torsor.tracking.requirements import require_share


@final
@dataclass(frozen=True)
class Frontier:
    """A number of positions from the first, with an interval over words.

    Args:
        value: the longest beginning at whose every position the accuracy is at least ``threshold``.
        low: the lower end of the interval.
        high: the upper end.
        threshold: of the accuracy.
        level: of the interval.
    """

    value: int
    low: int
    high: int
    threshold: float
    level: float

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        return asdict(self)


def frontier(scores: Scores, threshold: float, level: float = 0.95) -> Frontier:
    r"""The largest :math:`F` such that the accuracy :math:`p_t` is at least ``threshold`` for all :math:`t \le F`.

    With :math:`\alpha = 1 - \mathtt{level}` and :math:`n` positions, the lower end is the frontier of
    the positions' lower Clopper-Pearson limits at :math:`\alpha / 2`, and the upper end that of the
    upper limits at :math:`\alpha / 2n`. The first exceeds the true frontier only if one limit, at one
    position, is wrong; the second falls short of it only if one of :math:`n` is. So the interval
    covers the frontier of other words for the same model with probability ``level`` or more,
    however the answers within a word depend on each other.

    Args:
        scores: of words of one length.
        threshold: 0.75 for elements and 0.90 for cosets are usual.
        level: of the interval.

    Raises:
        ValueError: when a share is not between 0 and 1.
    """
    require_share("threshold", threshold)
    require_share("level", level)
    tail, counts = (1 - level) / 2, np.arange(scores.words + 1)
    misses = scores.words - counts
    with np.errstate(invalid="ignore"):  # a parameter of 0 stands where the limit is 0 or 1, and is filled in
        lower = np.where(counts == 0, 0.0, betaincinv(np.maximum(counts, 1), misses + 1, tail))
        upper = betaincinv(counts + 1, np.maximum(misses, 1), 1 - tail / scores.length)
    upper = np.where(misses == 0, 1.0, upper)
    right = np.array(scores.right)
    return Frontier(
        _beginning(right / scores.words >= threshold),
        _beginning(lower[right] >= threshold),
        _beginning(upper[right] >= threshold),
        threshold,
        level,
    )


def _beginning(holds: Sequence[bool] | np.ndarray) -> int:
    """How many of the first are all true."""
    return len(holds) if np.all(holds) else int(np.argmin(holds))

"""The learning rate over a run: up, level, down."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Schedule:
    r"""Linear warm-up, a constant stretch, linear decay over the last part of the run.

    With :math:`n` updates, :math:`w` of warm-up and :math:`d = \mathrm{round}(n \cdot \mathtt{decay})`
    of decay to the fraction :math:`f`, update :math:`u = 0, \dots, n - 1` has the factor

    .. math:: \min\Bigl(1,\ \frac{u + 1}{w},\ f + (1 - f) \frac{n - u}{d + 1}\Bigr) ,

    so that no update is without effect: the first has :math:`1 / w`, and the last stands one equal
    step above the final fraction. It depends on ``update`` and on ``updates`` alone: nothing is stored.

    Args:
        warmup: number of updates of warm-up, 0 for none.
        decay: fraction of all updates over which the rate falls, in [0, 1]; 0 for none.
        final: fraction of the peak rate that the decay leads to, in [0, 1].

    Raises:
        ValueError: when an argument is out of its range.

    Example:
        >>> [Schedule(warmup=2, decay=0.5).factor(u, updates=6) for u in range(6)]
        [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """

    warmup: int = 0
    decay: float = 0.0
    final: float = 0.0

    def __post_init__(self) -> None:
        if self.warmup < 0:
            raise ValueError(f"warmup must not be negative, got {self.warmup}")
        if not 0 <= self.decay <= 1:
            raise ValueError(f"decay must be in [0, 1], got {self.decay}")
        if not 0 <= self.final <= 1:
            raise ValueError(f"final must be in [0, 1], got {self.final}")

    def factor(self, update: int, updates: int) -> float:
        """The fraction of the peak rate that update number ``update`` uses.

        Args:
            update: number of the update, from 0 to ``updates - 1``.
            updates: number of updates of the whole run.

        Raises:
            ValueError: when ``update`` is not one of the run's.
        """
        if not 0 <= update < updates:
            raise ValueError(f"update must be in 0..{updates - 1}, got {update}")
        factor = 1.0
        if update < self.warmup:
            factor = (update + 1) / self.warmup
        falling = round(self.decay * updates)
        if falling:
            remaining = (updates - update) / (falling + 1)
            factor = min(factor, self.final + (1 - self.final) * remaining)
        return factor

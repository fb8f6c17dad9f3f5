"""The stages that a model passes through in training, each held long enough to be one."""

from dataclasses import asdict, dataclass
from typing import Any, final

from jaxtyping import Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tracking.requirements import require_at_least
from torsor.tracking.stage_fit import CosetFit, Side, SubgroupFit, coset_fit


@final
@dataclass(frozen=True)
class Stage:
    """A subgroup whose cosets a model knew for some time and told apart no further.

    Args:
        subgroup: its elements.
        side: of its cosets.
        normal: whether both sides are the same.
        first: the first update at which it was seen.
        last: the last update at which it was seen without a break.
    """

    subgroup: tuple[int, ...]
    side: Side
    normal: bool
    first: int
    last: int

    def to_json(self) -> dict[str, Any]:
        """The stage as a plain dictionary."""
        return {**asdict(self), "subgroup": list(self.subgroup), "order": len(self.subgroup)}


@final
class StageTracker:
    """Watches the errors of a model in training and keeps the stages that last.

    A stage lasts when the same subgroup, on the same side, is the stage of ``coset_fit`` at every
    observation over at least ``updates`` updates.

    Args:
        group: the group of the word problem.
        updates: how long a stage must last; 300 by default.

    Raises:
        ValueError: when ``updates`` is below 1.

    Example:
        >>> from torsor.groups import symmetric
        >>> StageTracker(symmetric(3)).stages
        ()
    """

    def __init__(self, group: FiniteGroup, updates: int = 300) -> None:
        require_at_least(1, updates=updates)
        self.group = group
        self.updates = updates
        self._runs: list[Stage] = []
        self._latest: int | None = None
        self._unbroken = False

    def observe(
        self,
        update: int,
        answers: Int[Tensor, "batch length"],
        targets: Int[Tensor, "batch length"],
        *,
        window: slice | None = None,
    ) -> CosetFit:
        """Look at the answers after an update.

        Args:
            update: its number, larger than that of the observation before.
            answers: as in ``coset_fit``.
            targets: as in ``coset_fit``.
            window: as in ``coset_fit``.

        Returns:
            The fit of these answers, whether its stage lasts or not.

        Raises:
            ValueError: when ``update`` is not larger than the one before, or as ``coset_fit``.
        """
        fit = coset_fit(answers, targets, self.group, window=window)
        self.note(update, fit.stage)
        return fit

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages that have lasted, in the order in which they were first seen."""
        return tuple(run for run in self._runs if run.last - run.first >= self.updates)

    def to_json(self) -> dict[str, Any]:
        """The stages that have lasted, and how long one must, as a plain dictionary."""
        return {"updates": self.updates, "stages": [stage.to_json() for stage in self.stages]}

    def note(self, update: int, seen: SubgroupFit | None) -> None:
        """Take down what was seen after an update: the stage of a ``CosetFit``, or None for none.

        Raises:
            ValueError: when ``update`` is not larger than the one before.
        """
        if self._latest is not None and update <= self._latest:
            raise ValueError(f"update must be larger than that of the last observation, {self._latest}, got {update}")
        self._latest = update
        current = self._runs[-1] if self._runs and self._unbroken else None
        self._unbroken = seen is not None
        if seen is None:
            return
        goes_on = current is not None and (current.subgroup, current.side) == (seen.subgroup, seen.side)
        first = self._runs.pop().first if goes_on else update
        self._runs.append(Stage(seen.subgroup, seen.side, seen.normal, first, update))

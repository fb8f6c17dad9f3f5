"""Which cosets a model knows, read off its errors: the pooled-error stage test over every subgroup."""

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tasks import IGNORED
from torsor.tracking.requirements import require_one_shape, require_targets

Side = Literal["left", "right"]
FEWEST_ERRORS = 100


@final
@dataclass(frozen=True)
class SubgroupFit:
    r"""How well the errors agree with "the coset of :math:`H` is known and nothing inside it".

    Args:
        subgroup: :math:`H`.
        side: "right" for the cosets :math:`H q`, "left" for :math:`q H`; "right" where they are the same.
        normal: whether they are.
        distance: :math:`d_H`, total variation between the errors and the uniform law on :math:`H \setminus e`.
        right_share: share of the errors :math:`p` with :math:`p q^{-1} \in H`.
        left_share: share of the errors with :math:`q^{-1} p \in H`.
        predicted_other_share: what the share on the other side is if the errors are uniform in the
            cosets of this side; 1 for a normal subgroup.
        accuracy_ratio: accuracy times :math:`|H|`, 1 under the same law.
    """

    subgroup: tuple[int, ...]
    side: Side
    normal: bool
    distance: float
    right_share: float
    left_share: float
    predicted_other_share: float
    accuracy_ratio: float

    @property
    def order(self) -> int:
        """The number of elements of the subgroup."""
        return len(self.subgroup)

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        return {"order": self.order, **asdict(self), "subgroup": list(self.subgroup)}


@final
@dataclass(frozen=True)
class CosetFit:
    """What the errors say of every subgroup, and the stage that they agree on, if there is one.

    Args:
        scored: number of answers.
        errors: how many are wrong.
        outside: how many of these are no element of the group.
        fits: of every subgroup but the trivial one, nearest first; of one that is not normal, for
            both sides. The group itself, for answers at chance, is among them.
        stage: the proper subgroup whose cosets the model knows, or None.
        reason: why there is no stage; None where there is one.
    """

    scored: int
    errors: int
    outside: int
    fits: tuple[SubgroupFit, ...]
    stage: SubgroupFit | None
    reason: str | None

    formula: ClassVar[str] = "d_H = 1/2 sum_g |D(g) - [g in H - e] / (|H| - 1)|, D = law of p q^-1 over the errors"

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return 1 - self.errors / self.scored

    @property
    def gap(self) -> float | None:
        """How much farther the next subgroup of the same side is than the nearest; None where there is none.

        A normal subgroup's cosets are of both sides.
        """
        best = self.stage or (self.fits[0] if self.fits else None)
        if best is None:
            return None
        beside = [fit for fit in self.fits if fit.side == best.side or fit.normal]
        rivals = [fit.distance for fit in beside if fit.subgroup != best.subgroup]
        return min(rivals) - best.distance if rivals else None

    @property
    def finding(self) -> str:
        """What was found, in words."""
        if self.stage is None:
            return f"no stage: {self.reason}"
        side = "normal" if self.stage.normal else f"{self.stage.side} cosets"
        return (
            f"stage: the cosets of a subgroup of order {self.stage.order} ({side}), distance "
            f"{self.stage.distance:.3f}, runner-up {self.gap or 0:.3f} farther, {self.errors} errors"
        )

    def __str__(self) -> str:
        return f"{self.finding} [{self.formula}]"

    def to_json(self) -> dict[str, Any]:
        """The numbers, the stage and its nearest rivals, and the formula, as a plain dictionary."""
        return {
            "formula": self.formula,
            "scored": self.scored,
            "errors": self.errors,
            "outside": self.outside,
            "accuracy": self.accuracy,
            "stage": self.stage.to_json() if self.stage else None,
            "reason": self.reason,
            "gap": self.gap,
            "nearest": [fit.to_json() for fit in self.fits[:5]],
        }


def coset_fit(
    answers: Int[Tensor, "batch length"],
    targets: Int[Tensor, "batch length"],
    group: FiniteGroup,
    *,
    window: slice | None = None,
    fewest_errors: int = FEWEST_ERRORS,
    tolerance: float = 0.15,
) -> CosetFit:
    r"""Find the subgroup whose cosets a model tells apart while it guesses inside them.

    Over the wrong answers :math:`p` to states :math:`q`, let :math:`D` be the law of :math:`p q^{-1}` (right
    cosets :math:`H q`) or of :math:`q^{-1} p` (left cosets). For every subgroup

    .. math:: d_H = \tfrac12 \sum_g \left| D(g) - \frac{[g \in H \setminus e]}{|H| - 1} \right| .

    The *stage* is the nearest proper subgroup, on either side, with :math:`d_H <` ``tolerance``
    and :math:`|\mathrm{accuracy} \cdot |H| - 1| \le` ``tolerance``. A normal subgroup is judged by the
    law of :math:`p q^{-1}`.

    Guarantees, each a test in ``tests/claims/test_cosets.py``:

    * answers uniform in the cosets of :math:`H` have the stage :math:`H`, on the right side where :math:`H` is not
      normal, for every proper non-trivial subgroup of S4 and of A5;
    * so have answers of which 5% are uniform in the whole group instead;
    * at most one subgroup of a side is nearer than 1/4, so a stage leaves its rivals of that side behind by 0.2; a
      normal one that is as near as left cosets inside it is told from them by the accuracy;
    * the share on the other side is what the conjugacy classes predict;
    * answers at chance, right answers, and answers uniform in sets that are no cosets have no stage;
    * with too few errors there is no stage, and the reason says so.

    Errors are too few below ``fewest_errors``, and for :math:`H` below :math:`400 (|H| - 1)`: then scatter alone
    moves :math:`\mathrm{accuracy} \cdot |H|` by 0.05 (one standard deviation), and the distance by 0.02.

    Args:
        answers: the class that the model finds likeliest; one beyond the elements is an error
            outside every coset.
        targets: the true state, or -100 where nothing is scored.
        group: the group.
        window: which positions; all by default. A stage is a statement on positions beyond those
            that are right and the transition after them.
        fewest_errors: at least 1.
        tolerance: above 0 and at most 1/4, beyond which two subgroups might fit.

    Raises:
        ValueError: when shapes differ, a target is no element, an answer is negative, nothing is
            scored, or an argument is out of range.
    """
    require_one_shape(answers=answers, targets=targets)
    require_targets(targets, group)
    if answers.numel() and int(answers.min()) < 0:
        raise ValueError(f"answers must be classes from 0, got {int(answers.min())}")
    if group.order < 2:
        raise ValueError(f"group must have at least two elements, got {group.name}")
    if fewest_errors < 1:
        raise ValueError(f"fewest_errors must be at least 1, got {fewest_errors}")
    if not 0 < tolerance <= 0.25:
        raise ValueError(f"tolerance must be above 0 and at most 0.25, got {tolerance}")
    if window is not None:
        answers, targets = answers[:, window], targets[:, window]
    scored = targets != IGNORED
    given, truth = answers[scored].numpy(force=True), targets[scored].numpy(force=True)
    if not len(truth):
        raise ValueError("targets must hold at least one scored position in the window, got none")
    wrong = given != truth
    outside = given[wrong] >= group.order
    fits = _fits(group, given[wrong][~outside], truth[wrong][~outside], int(wrong.sum()), len(truth))
    fit = CosetFit(len(truth), int(wrong.sum()), int(outside.sum()), fits, None, None)
    return _with_stage(fit, group, fewest_errors, tolerance)


def errors_needed(order: int) -> int:
    """How many errors leave the accuracy times the order of a subgroup uncertain by one part in twenty."""
    return 400 * (order - 1)


def _with_stage(fit: CosetFit, group: FiniteGroup, fewest: int, tolerance: float) -> CosetFit:
    proper = [each for each in fit.fits if each.order < group.order]
    if fit.errors < fewest:
        return replace(fit, reason=f"too few errors, {fit.errors} of at least {fewest}")
    near = [each for each in proper if each.distance < tolerance]
    agreed = [each for each in near if abs(each.accuracy_ratio - 1) <= tolerance]
    if agreed and fit.errors >= errors_needed(agreed[0].order):
        return replace(fit, stage=agreed[0])
    if near:
        nearest = (agreed or near)[0]
        needed = errors_needed(nearest.order)
        if fit.errors < needed:
            return replace(
                fit, reason=f"too few errors, {fit.errors} of the {needed} that order {nearest.order} asks for"
            )
        return replace(fit, reason=f"the accuracy is {nearest.accuracy_ratio:.2f} times that of the nearest subgroup")
    whole = next(each for each in fit.fits if each.order == group.order)
    if whole.distance < tolerance and abs(whole.accuracy_ratio - 1) <= tolerance:
        return replace(fit, reason="the answers are at chance")
    needed = errors_needed(max((each.order for each in proper), default=1))
    if fit.errors < needed:
        return replace(fit, reason=f"no subgroup is near, and {fit.errors} errors of {needed} are too few for all")
    return replace(fit, reason=f"no proper subgroup is nearer than {tolerance}")


def _fits(
    group: FiniteGroup, answers: np.ndarray, truth: np.ndarray, errors: int, scored: int
) -> tuple[SubgroupFit, ...]:
    """The fit of every subgroup but the trivial one; none where there is no error."""
    if not errors:
        return ()
    inverse = np.asarray(group.inverse(np.arange(group.order)))
    # beyond the group there is no quotient: such errors are mass that no subgroup has
    laws: dict[Side, np.ndarray] = {
        "right": np.bincount(group.table[answers, inverse[truth]], minlength=group.order) / errors,
        "left": np.bincount(group.table[inverse[truth], answers], minlength=group.order) / errors,
    }
    lost = 1 - float(laws["right"].sum())
    normal = set(group.normal_subgroups())
    classes = np.empty(group.order, dtype=np.int64)
    for number, members in enumerate(group.conjugacy_classes()):
        classes[list(members)] = number
    found = []
    for subgroup in group.subgroups()[1:]:
        inside = np.zeros(group.order, dtype=bool)
        inside[list(subgroup)] = True
        shares = {side: float(law[inside].sum()) for side, law in laws.items()}
        sides: tuple[Side, ...] = ("right",) if subgroup in normal else ("right", "left")
        for side in sides:
            found.append(
                SubgroupFit(
                    subgroup,
                    side,
                    subgroup in normal,
                    _distance(laws[side], inside, lost),
                    shares["right"],
                    shares["left"],
                    _other_share(inside, classes),
                    (1 - errors / scored) * len(subgroup),
                )
            )
    return tuple(sorted(found, key=lambda fit: (fit.distance, fit.order, fit.subgroup, fit.side != "right")))


def _distance(law: Float[np.ndarray, "order"], inside: Bool[np.ndarray, "order"], lost: float) -> float:
    expected = inside / (inside.sum() - 1)
    expected[0] = 0.0
    return float(np.abs(law - expected).sum() + lost) / 2


def _other_share(inside: Bool[np.ndarray, "order"], classes: Int[np.ndarray, "order"]) -> float:
    r"""Over the classes, :math:`\frac{|H \setminus e \cap C|}{|H| - 1} \cdot \frac{|H \cap C|}{|C|}`."""
    held, size = np.bincount(classes, weights=inside), np.bincount(classes)
    apart = held.copy()
    apart[classes[0]] = 0
    return float((apart / (inside.sum() - 1) * held / size).sum())

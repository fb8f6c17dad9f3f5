"""Whether a model's states stay with their classes: spread, distance and their ratio against the horizon."""

from dataclasses import asdict, dataclass, fields
from math import exp, inf, isfinite, log
from typing import Any, ClassVar, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.tracking.lumping import nearest_means
from torsor.tracking.requirements import require_at_least, require_classes, require_finite
from torsor.tracking.subspace import class_means
from torsor.tracking.trajectories import Trajectory

_ZERO = 1e-10  # of the largest singular value: directions in which the means do not differ


@final
@dataclass(frozen=True)
class ErrorControl:
    r"""States of known class at several horizons, measured in the span :math:`U` of the class means' differences.

    Args:
        horizons: letters read, or loops made.
        spread: :math:`R(t)`, the root mean square distance of states to the mean of their class at
            that horizon, over all classes.
        distance: :math:`M(t)`, the smallest distance between two class means at that horizon.
        displacement: the root mean square distance of states to the mean of their class at the
            *reference* horizon: spread and drift together, as a fixed decoder sees them.
        accuracy: how often the nearest mean of the reference horizon is that of the state's class.
        reference: the reference horizon.
        threshold: :math:`\tau`, the displacement over the reference distance at which a decoder fails.
        predicted: the horizon at which the displacement is expected to reach :math:`\tau M`;
            infinite where it does not grow.
        measured: the first horizon at which ``accuracy`` is below 0.75, or None where none is.
        growth: the exponent of the displacement's growth: 1 for a drift, 1/2 for a random walk.
    """

    horizons: tuple[int, ...]
    spread: tuple[float, ...]
    distance: tuple[float, ...]
    displacement: tuple[float, ...]
    accuracy: tuple[float, ...]
    reference: int
    threshold: float
    predicted: float
    measured: int | None
    growth: float

    formula: ClassVar[str] = (
        "q(t) = R(t) / M(t), R = root mean |P_U(h - mean of its class)|^2, M = min |mean_a - mean_b|; "
        "crossing where displacement = tau M"
    )

    @property
    def ratio(self) -> tuple[float, ...]:
        """Spread over distance at every horizon; infinite where two means are one."""
        pairs = zip(self.spread, self.distance, strict=True)
        return tuple(spread / distance if distance else inf for spread, distance in pairs)

    def __str__(self) -> str:
        failed = "no failure seen" if self.measured is None else f"failure seen at {self.measured}"
        return (
            f"ratio of spread to distance {self.ratio[0]:.3g} at {self.horizons[0]}, {self.ratio[-1]:.3g} at "
            f"{self.horizons[-1]}; crossing predicted at {self.predicted:.4g}, {failed} [{self.formula}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary; what is infinite is None."""
        plain = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in ((field.name, asdict(self)[field.name]) for field in fields(self))
        }
        ratio = [each if isfinite(each) else None for each in self.ratio]
        predicted = self.predicted if isfinite(self.predicted) else None
        return {"formula": self.formula, **plain, "ratio": ratio, "predicted": predicted}


@torch.no_grad()
def error_control(
    trajectory: Trajectory,
    classes: int,
    *,
    reference: int | None = None,
    fit_until: int | None = None,
    threshold: float = 0.5,
) -> ErrorControl:
    r"""Measure how states spread around their classes and predict where a fixed decoder loses them.

    At every horizon the states are projected on the span :math:`U` of the differences of the class means of
    the reference horizon. The displacement is fitted by :math:`a\, t^b` over the horizons up to
    ``fit_until``, and the crossing predicted where it is :math:`\tau M` at the reference distance :math:`M`: for a
    constant drift :math:`\eta` per step that is :math:`\tau M / |\eta|`.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py``:

    * states at their class means have the spread 0 and are all read rightly;
    * a constant drift :math:`\eta` grows with exponent 1 and crosses at :math:`\tau M / |\eta|`, and a random walk with
      exponent 1/2;
    * what happens outside :math:`U` changes nothing;
    * a rotation, a shift and a common scale of all states change neither ratio nor crossing.

    Args:
        trajectory: the states, as ``over_time`` and ``over_depth`` collect them.
        classes: how many classes there are; each must occur at every horizon.
        reference: the horizon whose means a decoder would know; the first by default.
        fit_until: the last horizon of the fit; all by default. Prediction and measurement are
            independent only where this lies before the failure.
        threshold: :math:`\tau`, positive; at 1/2 a displacement reaches half of the way to another mean.

    Raises:
        ValueError: when a class never occurs at a horizon, an argument is out of range, or the class
            means of the reference horizon coincide.
    """
    require_at_least(2, classes=classes)
    require_classes("labels", trajectory.labels, classes)
    require_finite("states", trajectory.states)
    horizons = trajectory.horizons
    reference = horizons[0] if reference is None else reference
    fit_until = horizons[-1] if fit_until is None else fit_until
    if reference not in horizons:
        raise ValueError(f"reference must be one of the horizons {list(horizons)}, got {reference}")
    if not threshold > 0:
        raise ValueError(f"threshold must be positive, got {threshold}")
    if not all(len(labels.unique()) == classes for labels in trajectory.labels):
        seen = [len(labels.unique()) for labels in trajectory.labels]
        raise ValueError(
            f"every one of {classes} classes must occur at every horizon, got {seen}: take more words or a wider window"
        )
    place = horizons.index(reference)
    known = class_means(trajectory.states[place], trajectory.labels[place], classes)
    directions = _differences(known)
    known = known @ directions
    nearest = _smallest_distance(known)
    if not nearest:
        raise ValueError("class means of the reference horizon must differ, got one mean for two classes")
    rows = [
        _measures(states.double() @ directions, labels, known)
        for states, labels in zip(trajectory.states, trajectory.labels, strict=True)
    ]
    spread, distance, displacement, accuracy = (tuple(column) for column in zip(*rows, strict=True))
    growth, predicted = _crossing(horizons, displacement, fit_until, threshold * nearest)
    measured = next((horizon for horizon, share in zip(horizons, accuracy, strict=True) if share < 0.75), None)
    return ErrorControl(
        horizons, spread, distance, displacement, accuracy, reference, threshold, predicted, measured, growth
    )


def _differences(means: Float[Tensor, "classes width"]) -> Float[Tensor, "width dimensions"]:
    """An orthonormal basis of the span of the differences of the means."""
    _, singular, directions = torch.linalg.svd(means - means.mean(0), full_matrices=False)
    kept = singular > _ZERO * means.abs().max()
    if not kept.any():
        raise ValueError("class means of the reference horizon must differ, got one mean for all classes")
    return directions[kept].T


def _measures(
    states: Float[Tensor, "count dimensions"], labels: Int[Tensor, "count"], known: Float[Tensor, "classes dimensions"]
) -> tuple[float, float, float, float]:
    """Spread, smallest distance of means, displacement and accuracy at one horizon."""
    classes = len(known)
    means = class_means(states, labels, classes)
    # the mean of few states is near them: divide by the degrees of freedom that are left
    free = max(1, len(states) - classes)
    spread = ((states - means[labels]).square().sum() / free).sqrt()
    displacement = (states - known[labels]).square().sum(-1).mean().sqrt()
    right = nearest_means(states, known) == labels
    return float(spread), _smallest_distance(means), float(displacement), float(right.double().mean())


def _smallest_distance(means: Float[Tensor, "classes dimensions"]) -> float:
    return float(torch.nn.functional.pdist(means).min())


def _crossing(
    horizons: tuple[int, ...], displacement: tuple[float, ...], fit_until: int, height: float
) -> tuple[float, float]:
    """The exponent of the growth, and the horizon at which the displacement reaches ``height``."""
    used = [(log(h), log(d)) for h, d in zip(horizons, displacement, strict=True) if h <= fit_until and d > 0]
    if len(used) < 2:
        return 0.0, inf
    growth, intercept = np.polyfit(*np.array(used).T, deg=1).tolist()
    if growth <= 0:
        return growth, inf
    exponent = (log(height) - intercept) / growth
    return growth, exp(exponent) if exponent < 700 else inf

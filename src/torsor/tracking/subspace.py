"""The directions in which the states of different classes differ: the span of the class means."""

from dataclasses import dataclass
from math import sqrt
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.tracking.requirements import require_at_least, require_classes, require_finite

_LOOKED_AT = 12  # singular values among which the largest ratio of neighbours is sought
_ZERO = 1e-10  # of the largest singular value


@final
@dataclass(frozen=True, eq=False)
class Subspace:
    """An orthonormal basis of the directions between class means, and how long the means are along it.

    Args:
        basis: columns are directions, the longest first.
        singular: the singular values of all directions of the centred means.
        means: the mean of every class.
    """

    basis: Float[Tensor, "width dimensions"]
    singular: Float[Tensor, "values"]
    means: Float[Tensor, "classes width"]

    @property
    def dimensions(self) -> int:
        """How many directions the basis has."""
        return self.basis.shape[1]

    def projected(self, states: Float[Tensor, "... width"]) -> Float[Tensor, "... width"]:
        """The part of the states that lies in the subspace."""
        return (states.to(self.basis.dtype) @ self.basis) @ self.basis.T


def class_means(
    states: Float[Tensor, "count width"], labels: Int[Tensor, "count"], classes: int
) -> Float[Tensor, "classes width"]:
    """The mean state of each class, in float64.

    Args:
        states: of the model.
        labels: the class of each.
        classes: number of classes; each must occur.

    Raises:
        ValueError: when lengths differ, a state is not finite, a label is no class, or a class never
            occurs.
    """
    if states.ndim != 2 or labels.shape != states.shape[:1]:
        raise ValueError(
            f"states must have one label each, got {tuple(states.shape)} with labels {tuple(labels.shape)}"
        )
    require_finite("states", states)
    require_classes("labels", labels, classes)
    counts = labels.bincount(minlength=classes)
    if not counts.all():
        raise ValueError(f"every class must occur, got {int((counts == 0).sum())} of {classes} that never do")
    means = torch.zeros(classes, states.shape[1], dtype=torch.float64, device=states.device)
    return means.index_add_(0, labels, states.double()) / counts[:, None]


def class_mean_subspace(
    states: Float[Tensor, "count width"],
    labels: Int[Tensor, "count"],
    classes: int,
    dimensions: int | None = None,
) -> Subspace:
    r"""The leading singular directions of the centred class means.

    Without ``dimensions`` their number :math:`k` is where :math:`\sigma_k / \sigma_{k+1}` is largest among the first
    twelve: the means of cosets stand out where the rest is scatter. Differences of ``classes`` means have
    one direction less than there are means, so :math:`\sigma_{k+1}` counts as at least what the scatter within
    the classes makes of means that are all one: about :math:`s (\sqrt{c} + \sqrt{w}) / \sqrt{n}` for :math:`c` classes
    of :math:`n` states of width :math:`w` and of standard deviation :math:`s` along each coordinate.

    Args:
        states: one row for each.
        labels: the class of each.
        classes: number of classes, at least 2; each must occur.
        dimensions: how many directions, at most the width.

    Raises:
        ValueError: as ``class_means``, or when all means are one, or ``dimensions`` is out of range.
    """
    require_at_least(2, classes=classes)
    means = class_means(states, labels, classes)
    _, singular, directions = torch.linalg.svd(means - means.mean(0), full_matrices=False)
    if not singular[0] > 0:
        raise ValueError("class means must differ, got one mean for all classes")
    if dimensions is None:
        leading = singular[: min(_LOOKED_AT, classes - 1)]
        floor = max(_scatter(states, labels, means), float(_ZERO * singular[0]))
        following = torch.cat([singular[1:], singular.new_zeros(1)])[: len(leading)].clamp(min=floor)
        dimensions = int((leading / following).argmax()) + 1
    if not 1 <= dimensions <= len(directions):
        raise ValueError(f"dimensions must be in 1 .. {len(directions)}, got {dimensions}")
    return Subspace(directions[:dimensions].T.contiguous(), singular, means)


def _scatter(
    states: Float[Tensor, "count width"], labels: Int[Tensor, "count"], means: Float[Tensor, "classes width"]
) -> float:
    """The largest singular value, about, of means that differ by the scatter of their states alone."""
    classes, width = means.shape
    variance = (states.double() - means[labels]).square().mean()
    share = (1 / labels.bincount(minlength=classes)).mean()
    return float((variance * share).sqrt()) * (sqrt(classes) + sqrt(width))

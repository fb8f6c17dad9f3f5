"""The class means of a model's vectors, seen in the three directions along which they differ most."""

from dataclasses import asdict, dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tracking.requirements import require_classes, require_finite
from torsor.tracking.subspace import class_mean_subspace

DIMENSIONS = 3
_SHOWN = 12  # singular values


@final
@dataclass(frozen=True)
class MeansInSpace:
    """Where the mean vector of each element lies.

    Args:
        coordinates: of each element, along the three directions, from the mean of all; None where it never came up.
        singular: the largest singular values of the centred means, twelve at most.
        share: of the squared length of the centred means, how much lies in the three directions.
        scatter: root mean square distance of a vector from the mean of its class, in the three directions.
        count: how many vectors there were.
    """

    coordinates: tuple[tuple[float, ...] | None, ...]
    singular: tuple[float, ...]
    share: float
    scatter: float
    count: int

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        coordinates = [list(each) if each else None for each in self.coordinates]
        return {**asdict(self), "coordinates": coordinates, "singular": list(self.singular)}


def means_in_space(
    vectors: Float[Tensor, "count width"], targets: Int[Tensor, "count"], group: FiniteGroup
) -> MeansInSpace | None:
    """The means of the vectors of each element, along the first three singular directions of the centred means.

    Args:
        vectors: one for each word or position.
        targets: the true state of each, an element.
        group: the group.

    Returns:
        The means; None where fewer than two elements came up or all means are one.

    Raises:
        ValueError: when a vector is not finite or a target is no element.
    """
    require_finite("vectors", vectors)
    require_classes("targets", targets, group.order)
    seen, labels = targets.unique(return_inverse=True)
    if len(seen) < 2:
        return None
    vectors = vectors.detach().double()
    means = torch.zeros(len(seen), vectors.shape[1], dtype=vectors.dtype, device=vectors.device)
    means.index_add_(0, labels, vectors)
    if not bool((means / labels.bincount()[:, None]).std(0).any()):
        return None
    width = min(DIMENSIONS, vectors.shape[1], len(seen))
    found = class_mean_subspace(vectors, labels, len(seen), dimensions=width)
    centre = found.means.mean(0)
    placed = torch.zeros(len(seen), DIMENSIONS, dtype=torch.float64)
    placed[:, :width] = (found.means - centre) @ found.basis
    scatter = ((vectors - found.means[labels]) @ found.basis).square().sum(-1).mean().sqrt()
    squared = found.singular.square()
    places: list[tuple[float, ...] | None] = [None] * group.order
    for element, coordinates in zip(seen.tolist(), placed.tolist(), strict=True):
        places[element] = tuple(coordinates)
    return MeansInSpace(
        tuple(places),
        tuple(found.singular[:_SHOWN].tolist()),
        float(squared[:width].sum() / squared.sum()),
        float(scatter),
        len(vectors),
    )

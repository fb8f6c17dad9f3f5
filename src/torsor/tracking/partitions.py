"""Which states a model tells apart, found without naming a subgroup: the blind partition of its output rows."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Num
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import pdist, squareform
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tasks import IGNORED
from torsor.tracking.requirements import require_finite, require_one_shape, require_share, require_targets


@final
@dataclass(frozen=True)
class BlindPartition:
    """A partition of the elements of a group, and what the group says of it.

    Args:
        blocks: sorted, by their smallest elements.
        subgroup: the block of the identity where it is a subgroup, else None.
        side: "right" where the blocks are its right cosets, "left" where they are its left ones, "both"
            where it is normal and they are its cosets, None where they are no cosets.
    """

    blocks: tuple[tuple[int, ...], ...]
    subgroup: tuple[int, ...] | None
    side: Literal["right", "left", "both"] | None

    def to_json(self) -> dict[str, Any]:
        """The partition as a plain dictionary."""
        plain = {"blocks": [list(block) for block in self.blocks]}
        return {**asdict(self), **plain, "subgroup": None if self.subgroup is None else list(self.subgroup)}


def mean_rows(
    logits: Float[Tensor, "batch length outputs"], targets: Int[Tensor, "batch length"], group: FiniteGroup
) -> Float[Tensor, "order outputs"]:
    """The mean of the model's softmax over the positions of each true state, in float64.

    Args:
        logits: at every position.
        targets: the true state, or -100 where nothing is scored.
        group: the group.

    Raises:
        ValueError: when shapes differ, a logit is not finite, a target is no element, or a state
            never occurs.
    """
    require_one_shape(**{"logits without their last axis": logits[..., 0], "targets": targets})
    require_targets(targets, group)
    require_finite("logits", logits)
    scored = targets != IGNORED
    states = targets[scored]
    counts = states.bincount(minlength=group.order)
    if not counts.all():
        missing = int((counts == 0).sum())
        raise ValueError(f"every state of {group.name} must occur, got {missing} of {group.order} that never do")
    rows = torch.zeros(group.order, logits.shape[-1], dtype=torch.float64, device=logits.device)
    rows.index_add_(0, states, logits[scored].double().softmax(-1))
    return rows / counts[:, None]


def blind_partition(
    rows: Float[Tensor, "order outputs"], group: FiniteGroup, threshold: float = 0.15
) -> BlindPartition:
    r"""Join the states whose mean outputs are alike: single linkage by total variation.

    Two states are linked when :math:`\tfrac12 \sum_p |P(p | q) - P(p | q')| <` ``threshold``, and a
    block is what links connect.

    Guarantees, each a test in ``tests/claims/test_cosets.py``:

    * rows that depend on the right coset alone, and differ between cosets, are parted into these
      cosets; so for the left ones;
    * rows that are all different are parted into single states, whose subgroup is trivial;
    * blocks that are no cosets have no side.

    Args:
        rows: the mean output of each true state, as ``mean_rows`` gives it.
        group: the group.
        threshold: between 0 and 1.

    Raises:
        ValueError: when there is not one row for each element, a row is not finite, or the
            threshold is out of range.
    """
    _require_rows(rows, group)
    require_share("threshold", threshold)
    apart = squareform(pdist(rows.double().numpy(force=True), "cityblock")) / 2
    return _partition(apart < threshold, group)


def support_partition(rows: Float[Tensor, "order outputs"], group: FiniteGroup) -> BlindPartition:
    r"""Join the states with one support :math:`S(q) = \{p : P(p | q) \ge \tfrac12 \max_p P(p | q)\}`.

    It has no threshold to choose, and sees which answers are possible rather than how likely.

    Args:
        rows: as in ``blind_partition``.
        group: the group.

    Raises:
        ValueError: as ``blind_partition``.
    """
    _require_rows(rows, group)
    supports = (rows >= rows.amax(-1, keepdim=True) / 2).numpy(force=True)
    return _partition((supports[:, None] == supports[None]).all(-1), group)


def _require_rows(rows: Num[Tensor, "order outputs"], group: FiniteGroup) -> None:
    if rows.ndim != 2 or len(rows) != group.order:
        raise ValueError(f"rows must be one for each of {group.order} elements, got shape {tuple(rows.shape)}")
    require_finite("rows", rows)


def _partition(linked: Bool[np.ndarray, "order order"], group: FiniteGroup) -> BlindPartition:
    _, labels = connected_components(linked, directed=False)
    found: dict[int, list[int]] = {}
    for element, label in enumerate(labels.tolist()):
        found.setdefault(label, []).append(element)
    blocks = tuple(tuple(block) for block in found.values())
    subgroup = blocks[0]  # of the identity, element 0
    if not group.is_subgroup(subgroup):
        return BlindPartition(blocks, None, None)
    right, left = (blocks == group.cosets(subgroup, side) for side in ("right", "left"))
    return BlindPartition(
        blocks, subgroup, "both" if right and left else "right" if right else "left" if left else None
    )

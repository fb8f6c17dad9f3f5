"""Whether what a state is labelled with has a life of its own: its next label follows from it and the letter."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float, Int, Integer
from torch import Tensor

from torsor.tracking.requirements import require_classes, require_finite, require_one_shape


@final
@dataclass(frozen=True)
class Lumpability:
    """How often the next label is not the usual one after a label and a letter.

    Args:
        defect: the share of transitions that are not; 0 for a lumpable labelling.
        chance: the same where the label is ignored and the letter alone is looked at.
        transitions: how many transitions were counted.
        pairs: how many different pairs of label and letter occurred.
    """

    defect: float
    chance: float
    transitions: int
    pairs: int

    formula: ClassVar[str] = "1 - sum over (label, letter) of max over next label of n(label, letter, next) / n"

    def __str__(self) -> str:
        return (
            f"lumpability defect {self.defect:.4f}, without the label {self.chance:.4f}, over "
            f"{self.transitions} transitions from {self.pairs} pairs [{self.formula}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {"formula": self.formula, **asdict(self)}


def lumpability(labels: Integer[Tensor, "batch length"], tokens: Integer[Tensor, "batch length"]) -> Lumpability:
    r"""Measure whether a labelling of a learned state is lumpable.

    A labelling :math:`s` is lumpable when :math:`s(q x)` is a function of :math:`s(q)` and the letter
    :math:`x`: the labels can then be tracked without the state behind them. A model that reads one
    letter at a time can resolve exactly such labellings, and those of the elements of a group are
    its right cosets.

    Guarantees, each a test in ``tests/claims/test_cosets.py``:

    * the right cosets of every subgroup have the defect 0;
    * the left cosets of a subgroup have it only where the subgroup is normal;
    * a defect is between 0 and the chance beside it, and more labels than the data can tell apart
      make it small for no reason: read ``transitions`` beside ``pairs``.

    Args:
        labels: of the learned state after each token: a clustering such as ``nearest_means``, a coset
            that a probe reads, or the model's own answers. Not negative.
        tokens: the token read at each position; the label there is that after it. Not negative.

    Raises:
        ValueError: when shapes differ, there are fewer than two positions, or a number is negative.
    """
    require_one_shape(labels=labels, tokens=tokens)
    if labels.shape[-1] < 2 or not len(labels):
        raise ValueError(f"labels must be of at least one word of two positions, got shape {tuple(labels.shape)}")
    for name, values in (("labels", labels), ("tokens", tokens)):
        require_classes(name, values, int(values.max()) + 1)
    labels, tokens = labels.long(), tokens.long()  # a narrow type cannot count the pairs
    before, letter, after = labels[:, :-1].flatten(), tokens[:, 1:].flatten(), labels[:, 1:].flatten()
    total = before.numel()
    explained, pairs = _explained(before * (int(letter.max()) + 1) + letter, after)
    by_letter, _ = _explained(letter, after)
    return Lumpability(1 - explained / total, 1 - by_letter / total, total, pairs)


def nearest_means(
    states: Float[Tensor, "*batch width"], means: Float[Tensor, "classes width"]
) -> Int[Tensor, "*batch"]:
    """Label every state with the class whose mean is nearest.

    Args:
        states: of the model.
        means: one for each class, such as ``class_means`` of other words.

    Raises:
        ValueError: when widths differ or a number is not finite.
    """
    if states.shape[-1] != means.shape[-1]:
        raise ValueError(f"states and means must have one width, got {states.shape[-1]} and {means.shape[-1]}")
    require_finite("states", states)
    require_finite("means", means)
    # by differences: the usual way, by products, loses them far from the origin
    return torch.cdist(states.double(), means.double(), compute_mode="donot_use_mm_for_euclid_dist").argmin(-1)


def _explained(given: Int[Tensor, "count"], after: Int[Tensor, "count"]) -> tuple[int, int]:
    """How many of ``after`` are the usual one for what is given, and how many different things are given."""
    keys, key = given.unique(return_inverse=True)
    several = int(after.max()) + 1
    outcomes, counts = (key * several + after).unique(return_counts=True)
    usual = torch.zeros(len(keys), dtype=counts.dtype, device=counts.device)
    usual.scatter_reduce_(0, outcomes // several, counts, "amax")
    return int(usual.sum()), len(keys)

"""What a straight line can read off a learned state: linear probes of every quotient, with shuffled controls."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import logsumexp
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tasks import Proportion
from torsor.tracking.requirements import require_classes, require_finite

_PENALTY = 1e-3  # on the squared weights, beside a mean cross entropy: keeps separable data finite
_ITERATIONS = 300


@final
@dataclass(frozen=True)
class Probe:
    """Accuracies of a linear probe on states that it was not fitted to.

    Args:
        accuracy: of the probe.
        shuffled: of a probe fitted to and scored on labels that were shuffled among the states.
        chance: of always naming the most frequent label.
    """

    accuracy: Proportion
    shuffled: Proportion
    chance: Proportion

    def to_json(self) -> dict[str, Any]:
        """The accuracies with their Clopper-Pearson intervals as a plain dictionary."""
        return {
            name: {"value": each.value, "interval": list(each.interval()), "count": each.trials}
            for name, each in (("accuracy", self.accuracy), ("shuffled", self.shuffled), ("chance", self.chance))
        }


@final
@dataclass(frozen=True)
class QuotientProbe:
    """Probes of the two parts of an element: its coset, and its place inside the coset.

    Args:
        subgroup: the normal subgroup.
        coset: the probe of the element of the quotient.
        inside: the probe of the place inside the coset.
    """

    subgroup: tuple[int, ...]
    coset: Probe
    inside: Probe

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        return {"subgroup": list(self.subgroup), "coset": self.coset.to_json(), "inside": self.inside.to_json()}


def linear_probe(
    states: Float[Tensor, "count width"], labels: Int[Tensor, "count"], classes: int, seed: int = 0
) -> Probe:
    """Fit a multinomial logistic regression to half of the states and score it on the other half.

    A probe that reads nothing is no proof that nothing is there: a product of two characters may
    stand in the state and be out of reach of every hyperplane. The test by this name shows one.

    Args:
        states: one for each word, say at its last position: states of one word depend on each other,
            and the intervals would not hold.
        labels: the class of each.
        classes: number of classes, at least 2.
        seed: of the halves and of the shuffled labels.

    Raises:
        ValueError: when there are fewer than four states, lengths differ, a state is not finite, or a
            label is no class.
    """
    if states.ndim != 2 or labels.shape != states.shape[:1] or len(states) < 4:
        raise ValueError(
            "states must be four or more with one label each, "
            f"got {tuple(states.shape)} with labels {tuple(labels.shape)}"
        )
    if classes < 2:
        raise ValueError(f"classes must be at least 2, got {classes}")
    require_finite("states", states)
    require_classes("labels", labels, classes)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(states))
    inputs, truth = states.double().numpy(force=True)[order], labels.numpy(force=True)[order]
    half = len(states) // 2
    spread = inputs[:half].std(0)
    inputs = (inputs - inputs[:half].mean(0)) / np.where(spread > 0, spread, 1.0)
    usual = np.bincount(truth[:half], minlength=classes).argmax()
    shuffled = rng.permutation(truth)
    return Probe(
        _score(inputs, truth, half, classes),
        _score(inputs, shuffled, half, classes),
        Proportion(int((truth[half:] == usual).sum()), len(truth) - half),
    )


def quotient_probes(
    states: Float[Tensor, "count width"], targets: Int[Tensor, "count"], group: FiniteGroup, seed: int = 0
) -> tuple[QuotientProbe, ...]:
    r"""Probe the states for the coset, and for the place inside the coset, of every normal subgroup.

    The place of :math:`q` inside :math:`N q` is that of :math:`q r^{-1}` in :math:`N`, with :math:`r` the smallest
    element of the coset. The subgroups are the proper, non-trivial ones; in a simple group there is none.

    Args:
        states: one for each word.
        targets: the true state of each word, an element.
        group: the group.
        seed: as in ``linear_probe``.

    Raises:
        ValueError: as ``linear_probe``.
    """
    require_classes("targets", targets, group.order)
    found = []
    for subgroup in group.normal_subgroups():
        if not 1 < len(subgroup) < group.order:
            continue
        coset, inside = coset_and_place(group, subgroup)
        cosets = group.order // len(subgroup)
        found.append(
            QuotientProbe(
                subgroup,
                linear_probe(states, coset[targets], cosets, seed),
                linear_probe(states, inside[targets], len(subgroup), seed),
            )
        )
    return tuple(found)


def coset_and_place(group: FiniteGroup, subgroup: tuple[int, ...]) -> tuple[Int[Tensor, "order"], Int[Tensor, "order"]]:
    """For each element the number of its right coset and its place there, which together name it.

    Raises:
        ValueError: when ``subgroup`` is not one.
    """
    coset = group.coset_index(subgroup, "right")
    smallest = np.array([members[0] for members in group.cosets(subgroup, "right")])
    within = group.table[np.arange(group.order), np.asarray(group.inverse(smallest))[coset]]
    return torch.from_numpy(coset.astype(np.int64)), torch.from_numpy(np.searchsorted(sorted(subgroup), within))


def _score(
    inputs: Float[np.ndarray, "count width"], labels: Int[np.ndarray, "count"], half: int, classes: int
) -> Proportion:
    weights = _fitted(inputs[:half], labels[:half], classes)
    answers = (inputs[half:] @ weights[:-1] + weights[-1]).argmax(-1)
    return Proportion(int((answers == labels[half:]).sum()), len(answers))


def _fitted(
    inputs: Float[np.ndarray, "half width"], labels: Int[np.ndarray, "half"], classes: int
) -> Float[np.ndarray, "width_and_one classes"]:
    count, width = inputs.shape

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = flat.reshape(width + 1, classes)
        logits = inputs @ weights[:-1] + weights[-1]
        likely = logits - logsumexp(logits, axis=1, keepdims=True)
        error = np.exp(likely)
        error[np.arange(count), labels] -= 1
        slope = np.concatenate([inputs.T @ error / count + _PENALTY * weights[:-1], error.mean(0, keepdims=True)])
        value = -likely[np.arange(count), labels].mean() + _PENALTY * (weights[:-1] ** 2).sum() / 2
        return float(value), slope.ravel()

    start = np.zeros((width + 1) * classes)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS})
    return found.x.reshape(width + 1, classes)

"""Muon for the matrices of hidden layers, AdamW for all else, as one optimizer."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal, final

import torch
from torch import nn
from torch.optim import Optimizer

from torsor.training.optimizer import adamw_groups_of, trainable

Scale = Literal["adamw", "published"]


@final
class MuonAdamW(Optimizer):
    r"""``torch.optim.Muon`` over matrices and ``torch.optim.AdamW`` over the rest, behind one ``step``.

    A matrix :math:`W` with rate :math:`\eta` and decay :math:`\lambda` moves by
    :math:`W \leftarrow (1 - \eta\lambda) W - \eta\, s\, \mathrm{NS}(\cdot)`, where NS replaces the
    running mean of the gradients by a nearby semi-orthogonal matrix. The factor :math:`s` is
    :math:`0.2 \sqrt{\max(\mathrm{rows}, \mathrm{columns})}` for "adamw", which gives its entries the size of
    an AdamW update, so that one rate serves both, and
    :math:`\sqrt{\max(1, \mathrm{rows} / \mathrm{columns})}` for "published".

    Args:
        matrices: two-dimensional real parameters, at least one.
        groups: parameter groups of AdamW, with their ``weight_decay``.
        learning_rate: peak rate of the matrices.
        adamw_learning_rate: peak rate of the others.
        momentum: of the running mean of a matrix's gradients.
        betas: of AdamW.
        weight_decay: of the matrices.
        scale: the factor :math:`s`.
    """

    def __init__(
        self,
        matrices: list[nn.Parameter],
        groups: list[dict[str, Any]],
        learning_rate: float,
        adamw_learning_rate: float,
        momentum: float,
        betas: tuple[float, float],
        weight_decay: float,
        scale: Scale,
    ) -> None:
        self._inner = (
            torch.optim.Muon(
                matrices,
                lr=learning_rate,
                momentum=momentum,
                weight_decay=weight_decay,
                adjust_lr_fn={"adamw": "match_rms_adamw", "published": "original"}[scale],
            ),
            torch.optim.AdamW(groups, lr=adamw_learning_rate, betas=betas, weight_decay=0.0),
        )
        super().__init__([group for inner in self._inner for group in inner.param_groups], {})
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for inner in self._inner:
            inner.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict()`` gave."""
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """One state and one list of groups: the schedule and the checkpoint see a single optimizer."""
        first = 0
        for inner in self._inner:
            last = first + len(inner.param_groups)
            inner.param_groups = self.param_groups[first:last]
            inner.state = self.state
            first = last


def muon(
    model: nn.Module,
    learning_rate: float,
    *,
    adamw_learning_rate: float | None = None,
    by_adamw: Iterable[nn.Module] = (),
    momentum: float = 0.95,
    betas: tuple[float, float] = (0.8, 0.95),
    weight_decay: float = 0.0,
    scale: Scale = "adamw",
) -> MuonAdamW:
    """Muon for the matrices of hidden layers, AdamW for all other parameters.

    The one rule: the ``weight`` of an ``nn.Linear`` goes to Muon, unless it is tied to a parameter of
    another kind or lies in one of the modules ``by_adamw``. So embeddings, a readout tied to one, gains,
    biases, rates, frequencies, the coordinates of charts and matrices that are bare parameters never
    do; a readout of its own is named in ``by_adamw``.

    Args:
        model: the module whose parameters move; those with ``requires_grad=False`` stay.
        learning_rate: peak rate of the matrices, positive.
        adamw_learning_rate: peak rate of the others, positive; the same by default.
        by_adamw: modules all of whose parameters AdamW moves: readouts, and what enters or leaves a loop.
        momentum: of the running mean of a matrix's gradients, in [0, 1).
        betas: of AdamW.
        weight_decay: of the matrices of either optimizer.
        scale: what an update of a matrix is multiplied by: see ``MuonAdamW``.

    Raises:
        ValueError: when ``model`` has no matrix for Muon or a number is out of range.

    Example:
        >>> model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 4), nn.Linear(4, 5))
        >>> optimizer = muon(model, 1e-2, by_adamw=[model[2]])
        >>> [len(group["params"]) for group in optimizer.param_groups]
        [1, 1, 3]
    """
    adamw_learning_rate = learning_rate if adamw_learning_rate is None else adamw_learning_rate
    for name, rate in {"learning_rate": learning_rate, "adamw_learning_rate": adamw_learning_rate}.items():
        if not 0 < rate < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {rate}")
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got {momentum}")
    apart = {parameter for module in by_adamw for parameter in module.parameters()}
    matrices = [p for p, is_matrix in trainable(model).items() if is_matrix and p not in apart]
    if not matrices:
        raise ValueError("model must have a matrix of a hidden layer, it has none: use adamw")
    taken = set(matrices)
    groups = adamw_groups_of(
        {p: is_matrix for p, is_matrix in trainable(model).items() if p not in taken}, weight_decay
    )
    return MuonAdamW(matrices, groups, learning_rate, adamw_learning_rate, momentum, betas, weight_decay, scale)

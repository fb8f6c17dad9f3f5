"""The loss of each label in float64, at one depth or at several."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor
from torch.nn import functional

from torsor.tasks.base import IGNORED

Logits = Callable[[Tensor], Tensor]
"""``model(tokens) -> logits``, causal. tokens: "batch length", int64; logits: "batch length classes"."""

LogitsAtSteps = Callable[..., Tensor]
"""``model(tokens, steps=(1, 8)) -> logits`` of one pass: "depths batch length classes"."""

_POSITIONS = 512  # that are held in float64 at once


def call_at_steps(model: LogitsAtSteps, steps: Sequence[int]) -> Logits:
    """The model at these depths as a function of tokens alone; its logits have the depths as first axis.

    Raises:
        ValueError: when no depth is named or one is named twice; when called, if the logits have not one
            entry for each depth.
    """
    depths = tuple(steps)
    if not depths or len(set(depths)) < len(depths) or min(depths) < 1:
        raise ValueError(f"steps must be different depths of at least 1, got {depths}")

    def logits(tokens: Tensor) -> Tensor:
        found = model(tokens, steps=depths)
        if found.ndim != 4 or len(found) != len(depths):
            raise ValueError(f"logits at {len(depths)} depths must have them as first axis, got {tuple(found.shape)}")
        return found

    return logits


def at_one_depth(model: Logits) -> Logits:
    """The same model with a first axis of one depth."""
    return lambda tokens: model(tokens)[None]


def score_labels(
    logits: Float[Tensor, "depths batch length classes"], targets: Int[Tensor, "batch length"]
) -> tuple[Float64[Tensor, "depths labels"], Bool[Tensor, "depths labels"]]:
    r"""For each label :math:`-\ln p`, and whether it is the likeliest class; both on the CPU, row after row.

    Of equal logits the smallest class counts as the likeliest. A device without float64 is left for
    the CPU.

    Args:
        logits: of any floating type.
        targets: on the CPU; -100 (``IGNORED``) where there is no label.

    Raises:
        ValueError: when the shapes differ or a label is not a class.
        FloatingPointError: when a loss is infinite or not a number.
    """
    if logits.ndim != 4 or logits.shape[1:-1] != targets.shape:
        raise ValueError(
            f"logits must have the shape of tokens and classes, got {tuple(logits.shape[1:])} "
            f"for {tuple(targets.shape)}"
        )
    places = (targets.flatten() != IGNORED).nonzero().flatten()
    labels = targets.flatten()[places]
    wrong = labels[(labels < 0) | (labels >= logits.shape[-1])]
    if wrong.numel():
        raise ValueError(f"labels must be below the {logits.shape[-1]} classes of the logits, got {int(wrong[0])}")
    nats = torch.empty(len(logits), len(labels), dtype=torch.float64)
    right = torch.empty(len(logits), len(labels), dtype=torch.bool)
    there_places, there_labels = places.to(logits.device), labels.to(logits.device)
    for depth, flat in enumerate(logits.flatten(1, 2)):
        losses, hits = [], []
        for some, theirs in zip(there_places.split(_POSITIONS), there_labels.split(_POSITIONS), strict=True):
            chosen = flat[some].cpu() if flat.device.type == "mps" else flat[some]
            theirs = theirs.to(chosen.device)
            losses.append(functional.cross_entropy(chosen.double(), theirs, reduction="none"))
            hits.append(chosen.argmax(dim=-1) == theirs)
        if losses:
            nats[depth], right[depth] = torch.cat(losses).cpu(), torch.cat(hits).cpu()
    if not torch.isfinite(nats).all():
        raise FloatingPointError("the loss of every label must be finite")
    return nats, right

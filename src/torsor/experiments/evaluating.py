"""A model in evaluation mode for a while, and logits that must be finite."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from torsor.experiments.study import NonFiniteLogitsError


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model is in evaluation mode inside, and afterwards in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def device_of(model: nn.Module) -> torch.device:
    """Where a model's parameters are, and what it reads has to be."""
    return next(model.parameters()).device


def finite(logits: Tensor, update: int) -> Tensor:
    """These logits, on the CPU.

    Args:
        logits: of the model.
        update: how many updates it has had.

    Raises:
        NonFiniteLogitsError: when one is infinite or not a number.
    """
    if not logits.isfinite().all():
        raise NonFiniteLogitsError(update)
    return logits.cpu()

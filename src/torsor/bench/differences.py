"""Results with their gradients, and how far they are from those of a reference."""

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor


def with_gradients(function: Callable[..., tuple[Tensor, ...]], given: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What a function finds, and the gradients of the sum of all of it, one for each tensor given."""
    found = function(*given)
    return *found, *torch.autograd.grad(found, given, [torch.ones_like(each) for each in found])


def relative_differences(names: Iterable[str], ours: Iterable[Tensor], theirs: Iterable[Tensor]) -> dict[str, float]:
    """The largest difference of each pair of tensors, over the largest number of the second.

    Args:
        names: of the pairs.
        ours: what is looked at, of the type of the reference or narrower.
        theirs: the reference.
    """
    found = {}
    for name, one, other in zip(names, ours, theirs, strict=True):
        found[name] = float(((one.to(other.dtype) - other).abs().max() / other.abs().max()).detach())
    return found

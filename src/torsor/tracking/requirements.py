"""What the room accepts: numbers in their range, elements of a group, tensors of one shape, finite numbers."""

from typing import Any

import torch
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.kinds import kind_of
from torsor.tasks import IGNORED


def require_at_least(least: int, **values: int) -> None:
    """Refuse what is not an integer of at least ``least``.

    Raises:
        ValueError: with the name, the rule and the value.
    """
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")


def require_share(name: str, value: float) -> None:
    """Refuse what is not strictly between 0 and 1.

    Raises:
        ValueError: with the name, the rule and the value.
    """
    if not 0 < value < 1:
        raise ValueError(f"{name} must be between 0 and 1, got {value}")


def require_one_shape(**tensors: Tensor) -> None:
    """Refuse tensors of different shapes.

    Raises:
        ValueError: with the names and the shapes.
    """
    shapes = [tuple(tensor.shape) for tensor in tensors.values()]
    if len(set(shapes)) != 1:
        raise ValueError(f"{' and '.join(tensors)} must have one shape, got {' and '.join(map(str, shapes))}")


def require_finite(name: str, values: Tensor) -> None:
    """Refuse what holds a NaN or an infinity.

    Raises:
        ValueError: with the name and how many there are.
    """
    if torch.isfinite(values.sum()):  # a hundred times faster than to look at each; a sum may overflow, so look then
        return
    finite = torch.isfinite(values)
    if not finite.all():
        raise ValueError(
            f"{name} must be finite, got {int((~finite).sum())} of {values.numel()} that are NaN or infinite"
        )


def require_classes(name: str, values: Tensor, classes: int) -> None:
    """Refuse what is not an integer in ``0 .. classes - 1``.

    Raises:
        ValueError: with the name, the rule and the first wrong value.
    """
    if values.is_floating_point() or values.dtype == torch.bool:
        raise ValueError(f"{name} must be integers, got {values.dtype}")
    wrong = values[(values < 0) | (values >= classes)]
    if wrong.numel():
        raise ValueError(f"{name} must be in 0 .. {classes - 1}, got {int(wrong[0])}")


def require_targets(targets: Tensor, group: FiniteGroup) -> None:
    """Refuse what is neither an element of the group nor the mark of a position that is not scored.

    Raises:
        ValueError: with the rule and the first wrong value.
    """
    wrong = targets[((targets < 0) & (targets != IGNORED)) | (targets >= group.order)]
    if wrong.numel():
        raise ValueError(f"targets must be elements of {group.name}, or {IGNORED}, got {int(wrong[0])}")


def require_outputs(outputs: Any, shape: tuple[int, ...], classes: int) -> None:
    """Refuse logits of another shape than the tokens and the classes ask for, or with a NaN or an infinity.

    Raises:
        ValueError: when a shape, the number of classes or a number is wrong.
    """
    if not isinstance(outputs, Tensor):
        raise ValueError(f"the model must return logits, got {kind_of(outputs)}")
    if outputs.ndim != len(shape) + 1 or outputs.shape[:-1] != shape:
        raise ValueError(
            f"the model must return logits for each of the tokens, {(*shape, classes)}, got {tuple(outputs.shape)}"
        )
    if outputs.shape[-1] < classes:
        raise ValueError(
            f"the model must tell the {classes} elements of the group apart, got {outputs.shape[-1]} outputs"
        )
    require_finite("logits", outputs)

"""What a model accepts as sizes, as tokens and as a state."""

from collections.abc import Sequence

import torch
from torch import Tensor

from torsor.kinds import kind_of
from torsor.tensors import require_tensor
from torsor.transitions import Transition


def require_tokens(tokens: Tensor, vocabulary: int, axes: tuple[str, ...] = ("batch", "length")) -> None:
    """Refuse what are not tokens of a vocabulary.

    Args:
        tokens: what was given.
        vocabulary: tokens lie in ``0 .. vocabulary - 1``.
        axes: the names of the axes that the tokens must have.

    Raises:
        ValueError: when they are no tensor, the type is no integer, the axes differ, there is no token, or one lies
            outside the vocabulary.
    """
    require_tensor("tokens", tokens)
    if tokens.dtype not in {torch.int64, torch.int32}:
        raise ValueError(f"tokens must be int64 or int32, got {str(tokens.dtype).removeprefix('torch.')}")
    if tokens.ndim != len(axes) or tokens.numel() == 0:
        shape = f"({', '.join(axes)}{',' * (len(axes) == 1)})"
        raise ValueError(f"tokens must have shape {shape} with at least one token, got {tuple(tokens.shape)}")
    if type(tokens) is not Tensor:
        return  # a stand-in without values, as where operations are only counted
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= vocabulary:
        raise ValueError(f"tokens must lie in 0 .. {vocabulary - 1}, got {low if low < 0 else high}")


def require_transition(transition: Transition) -> None:
    """Refuse what is no transition, such as the map that one builds.

    Raises:
        ValueError: when it is none.
    """
    if not isinstance(transition, Transition):
        rule = "transition must be a transition, which learns, such as BlockConformal(64, 2)"
        raise ValueError(f"{rule}, got {kind_of(transition)}")


def require_sizes(**sizes: int) -> None:
    """Refuse a size below 1.

    Raises:
        ValueError: when one of the sizes is below 1; the message names it.
    """
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def require_state(state: Sequence[Tensor], shapes: Sequence[tuple[int | str, ...]], dtype: torch.dtype) -> None:
    """Refuse a state of other tensors than a model carries.

    Args:
        state: what was given.
        shapes: of its tensors; a word stands for any length, which must be one for all of them.
        dtype: of its tensors.

    Raises:
        ValueError: when the number, a shape or a type differs; the message says what was expected.
    """
    if len(state) != len(shapes):
        raise ValueError(f"state must hold {len(shapes)} tensors, got {len(state)}")
    free = {}
    for each, shape in zip(state, shapes, strict=True):
        fits = each.ndim == len(shape) and all(
            length == (free.setdefault(axis, length) if isinstance(axis, str) else axis)
            for axis, length in zip(shape, each.shape, strict=True)
        )
        if not fits or each.dtype != dtype:
            wanted = ", ".join(str(free.get(axis, axis)) if isinstance(axis, str) else str(axis) for axis in shape)
            names = [str(kind).removeprefix("torch.") for kind in (dtype, each.dtype)]
            raise ValueError(f"state must be {names[0]} of shape ({wanted}), got {names[1]} of {tuple(each.shape)}")

"""The numbers of a matrix group: single and double precision, real or complex, and never less."""

import torch
from torch import Tensor

from torsor.tensors import require_tensor

REAL = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)


def default_real_dtype() -> torch.dtype:
    """PyTorch's default type, but float32 where that is a half precision."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def full_precision(x: Tensor) -> torch.autocast:
    """A context in which autocast narrows nothing on the device of ``x``."""
    return torch.autocast(x.device.type, enabled=False)


def require_dtype(name: str, dtype: torch.dtype, allowed: tuple[torch.dtype, ...]) -> None:
    """Refuse a type that is not among the allowed ones.

    Raises:
        ValueError: when it is not.
    """
    if dtype not in allowed:
        *others, last = (str(each).removeprefix("torch.") for each in allowed)
        raise ValueError(f"{name} must be {', '.join(others)} or {last}, got {str(dtype).removeprefix('torch.')}")


def require_numbers(name: str, x: Tensor, axes: tuple[int, ...], *, is_complex: bool = False) -> None:
    """Refuse what is not a tensor of real, or of complex, numbers with these last axes.

    Raises:
        ValueError: when it is no tensor, or the type or the axes differ.
    """
    require_tensor(name, x)
    require_dtype(name, x.dtype, COMPLEX if is_complex else REAL)
    if x.shape[-len(axes) :] != axes:
        raise ValueError(f"the last axes of {name} must be {axes}, got shape {tuple(x.shape)}")

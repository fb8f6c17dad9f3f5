"""Group arithmetic in float32 or float64, whatever the model around it is cast to; the same for LSTMs on a CPU."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def full_precision(x: Tensor) -> torch.autocast:
    """A context in which autocast is off on the device of ``x``: half precision would leave the group."""
    return torch.autocast(x.device.type, enabled=False)


def lstm_precision(x: Tensor) -> AbstractContextManager[Any]:
    """A context in which autocast is off on a CPU: without AVX-512, torch has no LSTM in half precision there."""
    return full_precision(x) if x.device.type == "cpu" else nullcontext()


def full_dtype() -> torch.dtype:
    """PyTorch's default type, but float32 where that is a half precision."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def normal(std: float, *shape: int, generator: torch.Generator | None) -> Tensor:
    """Independent normal numbers of type ``full_dtype()``.

    Args:
        std: standard deviation.
        shape: of the draw.
        generator: of the draw; None takes torch's global one.
    """
    return torch.empty(shape, dtype=full_dtype()).normal_(std=std, generator=generator)


def normal_weight(std: float, *shape: int, generator: torch.Generator | None) -> Tensor:
    """The same numbers in PyTorch's default type, for a weight that lies in no island and may be narrow.

    Args:
        std: standard deviation.
        shape: of the draw.
        generator: of the draw; None takes torch's global one.
    """
    return normal(std, *shape, generator=generator).to(torch.get_default_dtype())

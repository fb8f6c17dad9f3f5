"""Where a recurrence is computed by kernels of Triton: the one place that decides it."""

from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

# A program holds a matrix of this width squared in its registers; a wider one would spill.
LARGEST_VALUE_DIM = 64


def kernels_serve(x: Tensor, value_dim: int = 1) -> bool:
    """Whether what is computed from ``x`` is computed by a kernel.

    It is on a CUDA device, in float32 or float64, where Triton is installed, with values of at most
    ``LARGEST_VALUE_DIM`` numbers. Everything else takes the operations of torch, on every device.

    Args:
        x: an argument of the recurrence, real or complex.
        value_dim: the width of the matrix that a state is multiplied by; 1 where there is none.
    """
    wide = x.dtype.to_real() in {torch.float32, torch.float64}
    return x.device.type == "cuda" and wide and value_dim <= LARGEST_VALUE_DIM and triton_is_installed()


@cache
def triton_is_installed() -> bool:
    """Whether the extra ``kernels`` is at hand; Triton itself is not imported."""
    return find_spec("triton") is not None

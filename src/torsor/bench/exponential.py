"""The exponential of skew matrices beside PyTorch's matrix exponential: time of value and gradient, and error."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torsor.bench.clock import take_turns
from torsor.groups.skew_exponential import skew_exponential, skew_exponential_reference
from torsor.training.memory import keep_freed_memory

CASES = (
    (8, 8192, torch.float32),
    (16, 8192, torch.float32),
    (26, 4096, torch.float32),
    (16, 2048, torch.complex64),
)
JUDGED = 256  # matrices of each case whose error is taken

Exponential = Callable[[Tensor], Tensor]


def random_skew(dim: int, batch: int, dtype: torch.dtype, norm: float) -> Tensor:
    """Gaussian skew matrices, each scaled to a norm drawn uniformly up to ``norm``."""
    matrices = torch.randn(batch, dim, dim, dtype=dtype)
    skew = (matrices - matrices.mH) / 2
    norms = torch.linalg.matrix_norm(skew, 2)
    return skew * (norm * torch.linspace(0, 1, batch) / norms)[:, None, None]


def measure(
    rounds: int = 5, norm: float = 4.0, cases: Sequence[tuple[int, int, torch.dtype]] | None = None
) -> dict[str, Any]:
    """Time value and gradient of both exponentials turn by turn, and take their errors in double precision.

    Args:
        rounds: of the turns that the two take.
        norm: largest singular value of the largest matrix of each batch, positive.
        cases: width, matrices and numbers of each; ``CASES`` by default.

    Returns:
        A plain dictionary: for each case the median seconds of both, the median and quartiles of the
        reference's time over ours in the same round, and for both the largest error of the value, as a
        singular value in units of epsilon times max(1, norm), and of the gradient, relative to the largest
        entry of the exact one.

    Raises:
        ValueError: when ``rounds`` is below 1 or ``norm`` is not positive and at most 1000.
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, got {rounds}")
    if not 0 < norm <= 1000:
        raise ValueError(f"norm must be positive and at most 1000, got {norm}")
    keep_freed_memory()
    rows = [_row(*case, rounds, norm) for case in (CASES if cases is None else cases)]
    return {"threads": torch.get_num_threads(), "torch": torch.__version__, "norm": norm, "rows": rows}


def _row(dim: int, batch: int, dtype: torch.dtype, rounds: int, norm: float) -> dict[str, Any]:
    skew, cotangent = random_skew(dim, batch, dtype, norm), torch.randn(batch, dim, dim, dtype=dtype)
    timings = take_turns(
        {
            "reference": lambda: value_and_gradient(skew_exponential_reference, skew, cotangent),
            "ours": lambda: value_and_gradient(skew_exponential, skew, cotangent),
        },
        rounds,
    )
    ratio, low, high = timings.ratio("reference", "ours")
    some = slice(None, None, max(1, batch // JUDGED))
    error, gradient_error = errors(skew_exponential, skew[some], cotangent[some])
    reference_error, reference_gradient_error = errors(skew_exponential_reference, skew[some], cotangent[some])
    return {
        "dim": dim,
        "batch": batch,
        "numbers": str(dtype).removeprefix("torch."),
        "reference_seconds": timings.median("reference"),
        "seconds": timings.median("ours"),
        "ratio": ratio,
        "quartiles": [low, high],
        **timings.spread("reference", "ours"),
        "error": error,
        "gradient_error": gradient_error,
        "reference_error": reference_error,
        "reference_gradient_error": reference_gradient_error,
    }


def value_and_gradient(exponential: Exponential, skew: Tensor, cotangent: Tensor) -> tuple[Tensor, Tensor]:
    """The exponential, and the gradient of its inner product with a cotangent."""
    leaf = skew.detach().requires_grad_()
    value = exponential(leaf)
    (gradient,) = torch.autograd.grad(value, leaf, cotangent)
    return value.detach(), gradient


def errors(exponential: Exponential, skew: Tensor, cotangent: Tensor) -> tuple[float, float]:
    """The largest error of the value and of the gradient against the reference in double precision."""
    double = torch.promote_types(skew.dtype, torch.float64)
    value, gradient = value_and_gradient(exponential, skew, cotangent)
    exact, slope = value_and_gradient(skew_exponential_reference, skew.to(double), cotangent.to(double))
    unit = torch.finfo(skew.dtype).eps * torch.linalg.matrix_norm(skew.to(double), 2).clamp(min=1)
    missed = torch.linalg.matrix_norm(value - exact, 2) / unit
    return float(missed.max()), float((gradient - slope).abs().max() / slope.abs().max())

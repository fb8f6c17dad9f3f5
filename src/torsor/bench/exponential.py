"""The exponential of skew matrices beside PyTorch's matrix exponential: time of value and gradient, and error."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torsor.bench.harness import Case, compare
from torsor.bench.jobs import PRODUCTS_OF_AN_EXPONENTIAL
from torsor.bench.limits import Limits
from torsor.groups.skew_exponential import skew_exponential, skew_exponential_reference
from torsor.training.memory import keep_freed_memory

CASES = (
    (8, 8192, "float32"),
    (16, 8192, "float32"),
    (26, 4096, "float32"),
    (16, 2048, "complex64"),
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
    limits: Limits, rounds: int = 5, norm: float = 4.0, cases: Sequence[tuple[int, int, str]] = CASES
) -> dict[str, Any]:
    """Time value and gradient of both exponentials turn by turn, and take their errors in double precision.

    Args:
        limits: of this machine.
        rounds: of the turns that the two take.
        norm: largest singular value of the largest matrix of each batch, positive.
        cases: width, matrices and numbers of each.

    Returns:
        A row for both at each size, with the largest error of the value, as a singular value in units of epsilon
        times max(1, norm), and of the gradient, relative to the largest entry of the exact one.

    Raises:
        ValueError: when ``rounds`` is below 1 or ``norm`` is not positive and at most 1000.
    """
    if not 0 < norm <= 1000:
        raise ValueError(f"norm must be positive and at most 1000, got {norm}")
    keep_freed_memory()
    rows = [row for dim, batch, numbers in cases for row in _rows(dim, batch, numbers, norm, limits, rounds)]
    settings = {"norms up to": norm, "error": "in epsilon max(1, norm)", "that of gradients": "over its largest"}
    return {"settings": settings, "rows": rows}


def _rows(dim: int, batch: int, numbers: str, norm: float, limits: Limits, rounds: int) -> list[dict[str, Any]]:
    dtype = getattr(torch, numbers)
    skew, cotangent = random_skew(dim, batch, dtype, norm), torch.randn(batch, dim, dim, dtype=dtype)
    forms: dict[str, Exponential] = {"PyTorch": skew_exponential_reference, "ours": skew_exponential}
    # the products of a polynomial, and of its gradient twice as many; of complex numbers four times as much. Two
    # batches of matrices are read and two written
    operations = 3 * PRODUCTS_OF_AN_EXPONENTIAL * 2 * dim**3 * batch * (4 if skew.is_complex() else 1)
    sizes = f"{batch} of {dim} x {dim}, {numbers}"
    timed = {
        f"{sizes}: {name}": Case(
            lambda form=form: value_and_gradient(form, skew, cotangent),
            operations,
            4 * skew.nbytes,
            reference=None if name == "PyTorch" else f"{sizes}: PyTorch",
            given=[skew, cotangent],
        )
        for name, form in forms.items()
    }
    rows = compare(timed, limits, rounds)
    some = slice(None, None, max(1, batch // JUDGED))
    for row, form in zip(rows, forms.values(), strict=True):
        row["error"], row["error_of_gradient"] = errors(form, skew[some], cotangent[some])
    return rows


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

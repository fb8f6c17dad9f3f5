"""The exponential of skew-symmetric and skew-Hermitian matrices, and its gradient, in few batched products."""

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Inexact
from torch import Tensor
from torch.autograd import Function

from torsor.groups.precision import COMPLEX, REAL, full_precision, require_dtype
from torsor.groups.skew_scaling import POLYNOMIALS, diagonal, halvings_of, norms_of, polynomial_of
from torsor.groups.small_skew_exponential import is_small, small_gradient

PART = 2**18  # real numbers in a part of the batch: what a product touches stays in the cache of a CPU


def skew_exponential_reference(tangent: Inexact[Tensor, "*batch d d"]) -> Inexact[Tensor, "*batch d d"]:
    """``skew_exponential`` by PyTorch's matrix exponential."""
    return torch.linalg.matrix_exp(tangent)


def skew_exponential(tangent: Inexact[Tensor, "*batch d d"]) -> Inexact[Tensor, "*batch d d"]:
    r"""The exponential :math:`e^S` of skew matrices, :math:`S^* = -S`.

    With :math:`\lVert S \rVert` bounded by :math:`\lVert S^2 \rVert_F^{1/2}` and :math:`X = S / 2^k`
    small, :math:`E = e^X - I` is a polynomial of degree 8 in three products, and
    :math:`E \mapsto 2 E + E^2` doubles the angle :math:`k` times. The identity is added last, so that
    little is lost where :math:`k`, which is chosen once for every part of the batch, is larger than a
    matrix needs. The gradient of real matrices of a width up to 8 goes another way
    (``small_skew_exponential.py``).

    Guarantees, each a test in ``tests/fast/test_skew_exponential.py``:

    * the error, as the largest singular value, is at most :math:`8 \epsilon \max(1, \lVert S \rVert)` for
      every matrix of a batch, for norms up to 1000 and widths up to 32, in float32 (where it holds at
      width 512 as well) and in float64 (where it is up to 13 at width 64);
    * the gradient is that of the matrix exponential, for a change of :math:`S` in any direction, skew or
      not; with a projection in front only its skew part remains;
    * the exponential of 0 is the identity exactly.

    Nothing checks that a matrix is skew, and the exponential of any other one may be wrong. There is no
    second derivative: use ``skew_exponential_reference``.

    Args:
        tangent: :math:`S`, in float32, float64, complex64 or complex128. On a GPU the call waits for the bound.

    Raises:
        ValueError: when the numbers are in half precision, not finite, or so large (from a norm of
            :math:`2^{23}` in float32, :math:`2^{52}` in float64) that they hold no digit of an angle.
    """
    require_dtype("tangent", tangent.dtype, REAL + COMPLEX)
    matrices = tangent.flatten(0, -3) if tangent.ndim > 2 else tangent[None]
    return _SkewExponential.apply(matrices.contiguous(), _Workspace(torch.is_grad_enabled())).view(tangent.shape)


def _exponential(s: Tensor, into: Tensor) -> tuple[int, tuple[Tensor, ...]]:
    """Write the exponential of one part of the batch; hand back its halvings and what its gradient needs."""
    a = torch.bmm(s, s)
    halvings = halvings_of(norms_of(a), a)
    if halvings:
        a.mul_(4.0**-halvings)
    e, u, v = polynomial_of(s * 2.0**-halvings, a, POLYNOMIALS[s.dtype])
    needed, spare = ([], a) if is_small(s) else ([a, u, v], None)
    for remaining in reversed(range(halvings)):
        doubled = torch.baddbmm(e, e, e, beta=2, out=spare if remaining else into)
        if needed:
            diagonal(e).add_(1)  # the gradient wants the whole exponential
            needed.append(e)
        else:
            spare = e
        e = doubled
    if not halvings:
        into.copy_(e)
    diagonal(into).add_(1)
    return halvings, tuple(needed)


def _transposed_gradient(s: Tensor, t: Tensor, kept: Sequence[Tensor], into: Tensor) -> None:
    """Write the transposed gradient of one part, from its matrices and the transposed cotangent.

    Transposed, every product is one of matrices as they lie in memory. There are no conjugates, as of a
    holomorphic function. A turn is halved where it is undone, which divides the whole by ``2**halvings``.
    """
    a, u, v, *turns = kept
    x = s * 2.0 ** -len(turns) if turns else s
    p = POLYNOMIALS[s.dtype]
    for q in reversed(turns):
        t = torch.bmm(q, t).baddbmm_(t, q, beta=0.5, alpha=0.5)
    gu, gv = torch.bmm(v, t), torch.bmm(t, u)  # these two, gy and gz without their factor l
    gx = torch.add(t, gv, alpha=p.l * p.f1, out=into)
    # from gu, which lies in order: a product into a transposed tensor would be done matrix by matrix
    ga = torch.mul(gu, p.l * p.e).add_(t, alpha=p.g).add_(gv, alpha=p.l * p.f2)
    gy = gu.add_(gv)
    gz = torch.bmm(gy, a)
    ga.baddbmm_(torch.add(a, x, alpha=p.b), gy, alpha=p.l).add_(gz, alpha=p.l)
    gx.add_(gz, alpha=p.l * p.b).baddbmm_(x, ga).baddbmm_(ga, x)


def _part_size(matrices: Tensor) -> int:
    """How many matrices are worked on at a time: parts of equal size that stay in the cache; on other devices all."""
    batch, numbers = len(matrices), matrices.numel() * (2 if matrices.is_complex() else 1)
    # Threads wait for each other after every operation, longest where cores are shared: give each of them more.
    limit = PART * torch.get_num_threads() ** 2
    parts = math.ceil(numbers / limit) if matrices.device.type == "cpu" else 1
    return max(1, math.ceil(batch / max(1, parts)))


def _parts(matrices: Tensor, size: int) -> Sequence[Tensor]:
    if not matrices.numel():
        return ()
    return (matrices,) if size >= len(matrices) else matrices.split(size)


@final
class _Workspace:
    """What the gradient of each part needs; an object of its own, since function transforms copy lists."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.size = 1
        self.parts: list[tuple[int, tuple[Tensor, ...]]] = []


@final
class _SkewExponential(Function):
    @staticmethod
    def forward(matrices: Tensor, workspace: _Workspace) -> Tensor:
        result = torch.empty_like(matrices)
        size = workspace.size = _part_size(matrices)
        with full_precision(matrices):
            for part, into in zip(_parts(matrices, size), _parts(result, size), strict=True):
                done = _exponential(part, into)
                if workspace.wanted:
                    workspace.parts.append(done)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Workspace], output: Tensor) -> None:
        matrices, workspace = inputs
        ctx.cut = workspace.size, tuple((halvings, len(needed)) for halvings, needed in workspace.parts)
        ctx.save_for_backward(matrices, *(tensor for _, needed in workspace.parts for tensor in needed))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        gradient: Callable[..., Tensor] = _Gradient.apply if torch.is_grad_enabled() else _gradient
        return gradient(*grad_outputs, ctx.cut, *ctx.saved_tensors), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
        matrices, workspace = args
        every = matrices.movedim(in_dims[0], 0)
        flat = every.flatten(0, 1).contiguous()
        return _SkewExponential.apply(flat, workspace).unflatten(0, every.shape[:2]), 0


Cut = tuple[
    int, tuple[tuple[int, int], ...]
]  # the size of a part, and of each its halvings and how many tensors it kept


def _gradient(gradient: Tensor, cut: Cut, matrices: Tensor, *kept: Tensor) -> Tensor:
    """The gradient with respect to the whole batch, which was cut into parts of one size."""
    size, described = cut
    result = torch.empty_like(matrices)
    small = is_small(matrices)
    cotangent = gradient.conj().resolve_conj() if gradient.is_complex() else gradient
    tensors = iter(kept)
    parts = zip(
        *(_parts(x, size) for x in (matrices, cotangent if small else cotangent.mT, result)), described, strict=True
    )
    with full_precision(gradient):  # a gradient may be taken under autocast, too
        for part, own, into, (halvings, count) in parts:
            if small:
                small_gradient(part, own, halvings, into)
            else:
                _transposed_gradient(part, own, [next(tensors) for _ in range(count)], into)
    if small:
        return result
    return result.mH if gradient.is_complex() else result.mT


@final
class _Gradient(Function):
    """The gradient as an operation of its own, so that a second derivative is refused instead of missing a part."""

    @staticmethod
    def forward(*args: Any) -> Tensor:
        return _gradient(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> None:
        raise NotImplementedError("skew_exponential has no second derivative: use skew_exponential_reference")

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
        gradients, *rest = args
        return torch.stack([_Gradient.apply(one, *rest) for one in gradients.movedim(in_dims[0], 0)]), 0

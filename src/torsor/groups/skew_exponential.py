"""The exponential of skew-symmetric and skew-Hermitian matrices, and its gradient, in few batched products."""

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from jaxtyping import Inexact
from torch import Tensor
from torch.autograd import Function

from torsor.groups.exponential_polynomial import exponential_polynomial
from torsor.groups.precision import COMPLEX, REAL, full_precision, require_dtype

SINGLE, DOUBLE = exponential_polynomial(0.8), exponential_polynomial(1 / 16)
POLYNOMIALS = {
    torch.float32: SINGLE,
    torch.complex64: SINGLE,
    torch.float64: DOUBLE,
    torch.complex128: DOUBLE,
}
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
    matrix needs.

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


def _exponential(s: Tensor, into: Tensor) -> tuple[Tensor, ...]:
    """Write the exponential of one part of the batch, and hand back what its gradient needs."""
    p = POLYNOMIALS[s.dtype]
    a = torch.bmm(s, s)
    halvings = _halvings(a, p.reach)
    x = s * 2.0**-halvings if halvings else s
    if halvings:
        a.mul_(4.0**-halvings)
    y = torch.bmm(a, torch.add(a, x, alpha=p.b))
    u = torch.add(y, a, alpha=p.e)
    v = y.add_(a, alpha=p.f2).add_(x, alpha=p.f1)
    _diagonal(v).add_(p.f0)
    e = torch.add(x, a, alpha=p.g).baddbmm_(u, v, alpha=p.l)
    turns = []
    for remaining in reversed(range(halvings)):
        turns.append(e)
        doubled = torch.baddbmm(e, e, e, beta=2, out=None if remaining else into)
        _diagonal(e).add_(1)  # the gradient wants the whole exponential
        e = doubled
    if not halvings:
        into.copy_(e)
    _diagonal(into).add_(1)
    return a, u, v, *turns


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
    ga = torch.mul(t, p.g).add_(gu, alpha=p.l * p.e).add_(gv, alpha=p.l * p.f2)
    gy = gu.add_(gv)
    gz = torch.bmm(gy, a)
    ga.baddbmm_(torch.add(a, x, alpha=p.b), gy, alpha=p.l).add_(gz, alpha=p.l)
    gx.add_(gz, alpha=p.l * p.b).baddbmm_(x, ga).baddbmm_(ga, x)


def _halvings(square: Tensor, reach: float) -> int:
    """How often the largest matrix of a part is halved until the polynomial reaches it, by its square."""
    # The singular values of a real skew matrix come in pairs, which count once in the norm that is wanted.
    pairs = 1 if square.is_complex() else math.sqrt(2)
    bound = math.sqrt(torch.linalg.vector_norm(square, dim=(-2, -1)).amax().item() / pairs)
    limit = 1 / torch.finfo(square.dtype).eps
    if not bound < limit:
        raise ValueError(f"tangent must be finite and of a norm below {limit:.0f}, got a bound of {bound}")
    return max(0, math.ceil(math.log2(bound / reach))) if bound else 0


def _diagonal(matrices: Tensor) -> Tensor:
    return matrices.diagonal(dim1=-2, dim2=-1)


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
        self.parts: list[tuple[Tensor, ...]] = []


@final
class _SkewExponential(Function):
    @staticmethod
    def forward(matrices: Tensor, workspace: _Workspace) -> Tensor:
        result = torch.empty_like(matrices)
        size = workspace.size = _part_size(matrices)
        with full_precision(matrices):
            for part, into in zip(_parts(matrices, size), _parts(result, size), strict=True):
                needed = _exponential(part, into)
                if workspace.wanted:
                    workspace.parts.append(needed)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Workspace], output: Tensor) -> None:
        matrices, workspace = inputs
        ctx.cut = workspace.size, tuple(len(part) for part in workspace.parts)
        ctx.save_for_backward(matrices, *(tensor for part in workspace.parts for tensor in part))

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


def _gradient(gradient: Tensor, cut: tuple[int, tuple[int, ...]], matrices: Tensor, *kept: Tensor) -> Tensor:
    """The gradient with respect to the whole batch, which was cut into parts of one size, so many tensors each."""
    size, lengths = cut
    cotangent = gradient.conj().resolve_conj() if gradient.is_complex() else gradient
    result = torch.empty_like(matrices)
    tensors = iter(kept)
    parts = zip(*(_parts(each, size) for each in (matrices, cotangent.mT, result)), lengths, strict=True)
    with full_precision(gradient):  # a gradient may be taken under autocast, too
        for part, transposed, into, length in parts:
            _transposed_gradient(part, transposed, [next(tensors) for _ in range(length)], into)
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

"""The exponential of skew matrices against longer arithmetic, and its gradient against the one of PyTorch."""

import math
import weakref

import mpmath
import pytest
import torch
from mpmath import mp

from refusal import refused
from torsor.groups import SpecialOrthogonal, skew_exponential
from torsor.groups.exponential_polynomial import exponential_polynomial
from torsor.groups.skew_exponential import skew_exponential as exponential
from torsor.groups.skew_exponential import skew_exponential_reference as reference
from torsor.groups.skew_scaling import DOUBLE, SINGLE

TYPES = [torch.float32, torch.complex64, torch.float64, torch.complex128]
every_type = pytest.mark.parametrize("dtype", TYPES, ids=str)
single = {torch.float32: torch.float64, torch.complex64: torch.complex128}


def wide(dtype):
    return torch.complex128 if dtype.is_complex else torch.float64


def skew(*shape, dtype=torch.float64, norm=None):
    """Random skew matrices, of this largest singular value where one is given."""
    s = torch.randn(*shape, shape[-1], dtype=wide(dtype))
    s = (s - s.mH) / 2
    if norm is not None:
        s = s * (norm / torch.linalg.matrix_norm(s, 2)[..., None, None])
    return s.to(dtype)


def one_frequency(count, width, dtype, norm):
    """Skew matrices that turn every plane by the same angle, whose norm is furthest below its bound."""
    turn = torch.zeros(width, width, dtype=wide(dtype))
    for i in range(0, width - 1, 2):
        turn[i, i + 1], turn[i + 1, i] = norm, -norm
    q = torch.linalg.qr(torch.randn(count, width, width, dtype=wide(dtype))).Q
    s = (q @ turn @ q.mH).to(dtype)
    return (s - s.mH) / 2


def error(result, s):
    """The largest singular value of what ``result`` misses, in units of epsilon times max(1, norm)."""
    if s.dtype in single:
        missed = result.to(single[s.dtype]) - torch.linalg.matrix_exp(s.to(single[s.dtype]))
    else:
        missed = torch.stack([_missed(*pair) for pair in zip(result, s, strict=True)])
    norm = torch.linalg.matrix_norm(s.to(wide(s.dtype)), 2).clamp(min=1)
    return (torch.linalg.matrix_norm(missed, 2) / norm).max().item() / torch.finfo(s.dtype).eps


def _missed(result, s):
    """In forty digits."""
    with mp.workdps(40):
        exact = mpmath.expm(mp.matrix(s.tolist()))
        entries = [
            [complex(mp.mpmathify(complex(value)) - exact[i, j]) for j, value in enumerate(row)]
            for i, row in enumerate(result.tolist())
        ]
    return torch.tensor(entries)


def both(f, g, s, cotangent):
    """Value and gradient of two functions."""
    results = []
    for function in (f, g):
        leaf = s.clone().requires_grad_()
        value = function(leaf)
        results.append((value.detach(), *torch.autograd.grad(value, leaf, cotangent)))
    return results


# The polynomial


def missed_by(p, reach):
    """The largest errors of the polynomial and of its derivative up to a reach, in forty digits."""
    with mp.workdps(40):
        b, e, f0, f1, f2, g, l = (mp.mpf(each) for each in (p.b, p.e, p.f0, p.f1, p.f2, p.g, p.l))  # noqa: E741
        rows = []
        for i in range(101):
            x = 1j * mp.mpf(reach) * i / 100
            y, dy = x**4 + b * x**3, 4 * x**3 + 3 * b * x**2
            u, du = y + e * x**2, dy + 2 * e * x
            v, dv = y + f2 * x**2 + f1 * x + f0, dy + 2 * f2 * x + f1
            value, slope = 1 + x + g * x**2 + l * u * v, 1 + 2 * g * x + l * (du * v + u * dv)
            rows.append((abs(value - mp.exp(x)), abs(slope - mp.exp(x))))
    return [float(max(column)) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize(("polynomial", "dtype"), [(SINGLE, torch.float32), (DOUBLE, torch.float64)])
def test_the_polynomial_and_its_derivative_are_the_exponential_to_half_the_last_digit_within_reach(polynomial, dtype):
    eps = torch.finfo(dtype).eps
    value, slope = missed_by(polynomial, polynomial.reach)
    assert value < eps / 20 < slope < 0.6 * eps  # so that doublings carry the group off by roundings alone
    assert slope == pytest.approx(4 * (polynomial.reach / 2) ** 8 / math.factorial(8), rel=0.03)
    assert missed_by(polynomial, 2 * polynomial.reach)[1] > 50 * eps  # and not beyond it


def test_values_and_slope_at_zero_are_those_of_the_exponential():
    for reach in (1 / 16, 0.3, 0.8, 1.5):
        p = exponential_polynomial(reach)
        summands = p.g, p.l * p.e * p.f0
        assert sum(summands) == pytest.approx(1 / 2, abs=2 * reach**7 / 2**7)
        assert min(summands) > 0  # they do not cancel


# The error


@every_type
@pytest.mark.parametrize("norm", [1e-6, 0.3, 0.81, 1.6, 3.9, 30, 1000])
def test_the_error_is_at_most_8_epsilon_times_the_norm(dtype, norm):
    for width in (2, 5, 16, 26) if dtype in single else (2, 5, 8):
        count = 20 if dtype in single else 1
        for s in (skew(count, width, dtype=dtype, norm=norm), one_frequency(count, width, dtype, norm)):
            assert error(exponential(s), s) < 8
            q = exponential(s)
            away = torch.linalg.matrix_norm(q.mH.to(wide(dtype)) @ q.to(wide(dtype)) - torch.eye(width), 2)
            assert away.max() < 16 * torch.finfo(dtype).eps * max(1, norm)


@every_type
def test_a_large_matrix_in_the_batch_costs_the_small_ones_nothing(dtype):
    width = 16 if dtype in single else 5
    s = torch.cat([one_frequency(2, width, dtype, norm) for norm in (1e-3, 0.5, 1.2, 4, 1000)])
    assert error(exponential(s), s) < 8
    plain = exponential(s / 2**10)
    for _ in range(10):  # without keeping the identity apart
        plain = plain @ plain
    assert error(plain[:6], s[:6]) > 30


def test_in_float32_the_error_holds_at_width_512():
    s = one_frequency(1, 512, torch.float32, 3.0)
    assert error(exponential(s), s) < 8 < 20 < error(reference(s), s)


@every_type
def test_the_exponential_of_zero_is_the_identity_exactly(dtype):
    zero = torch.zeros(3, 4, 4, dtype=dtype)
    assert torch.equal(exponential(zero), torch.eye(4, dtype=dtype).expand(3, 4, 4))


# The gradient


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("norm", [0.01, 1.0, 20.0])
def test_the_gradient_passes_finite_differences_in_every_direction(dtype, norm):
    s = skew(2, 4, dtype=dtype, norm=norm).requires_grad_()
    assert torch.autograd.gradcheck(exponential, s, atol=1e-6, rtol=1e-6)


@every_type
@pytest.mark.parametrize("norm", [0.0, 0.5, 4.0, 100.0])
@pytest.mark.parametrize("shape", [(5, 5), (7, 2), (2, 3, 8), (4, 9), (0, 3)])
def test_value_and_gradient_equal_those_of_the_matrix_exponential(dtype, norm, shape):
    s = skew(*shape, dtype=dtype) if 0 in shape or norm == 0 else skew(*shape, dtype=dtype, norm=norm)
    s = s * 0 if norm == 0 else s
    cotangent = torch.randn(s.shape, dtype=wide(dtype)).to(dtype)
    # in float32 against the reference in float64, which is the less exact one there
    fast, _ = both(exponential, exponential, s, cotangent)
    _, slow = both(exponential, reference, s.to(wide(dtype)), cotangent.to(wide(dtype)))
    for left, right in zip(fast, slow, strict=True):
        assert left.shape == s.shape
        assert left.dtype == dtype
        tolerance = 40 * torch.finfo(dtype).eps * max(1, norm)
        size = right.abs().max().item() if right.numel() else 1.0
        torch.testing.assert_close(left.to(wide(dtype)), right, rtol=0, atol=tolerance * max(1, size))


def test_with_a_projection_in_front_only_the_skew_part_of_the_gradient_remains():
    group = SpecialOrthogonal(5)
    a, cotangent = torch.randn(3, 5, 5, requires_grad=True), torch.randn(3, 5, 5)
    (through,) = torch.autograd.grad(exponential(group.project(a)), a, cotangent)
    s = group.project(a).detach().requires_grad_()
    (any_direction,) = torch.autograd.grad(exponential(s), s, cotangent)
    torch.testing.assert_close(through, group.project(any_direction), rtol=0, atol=1e-13)
    assert (any_direction - through).abs().max() > 0.1


@every_type
@pytest.mark.parametrize("width", [4, 9])
def test_a_batch_in_parts_is_the_batch_in_one(dtype, width, monkeypatch):
    s = skew(23, width, dtype=dtype, norm=2.0) * torch.linspace(0, 3, 23, dtype=dtype)[:, None, None]
    cotangent = torch.randn(s.shape, dtype=dtype)
    whole, _ = both(exponential, exponential, s, cotangent)
    monkeypatch.setattr(skew_exponential, "PART", 6 * width**2)
    seen, kept = [], skew_exponential._exponential
    monkeypatch.setattr(skew_exponential, "_exponential", lambda *given: seen.append(kept(*given)[0]) or kept(*given))
    parts, _ = both(exponential, exponential, s, cotangent)
    assert len(seen) > 3
    assert len(set(seen)) > 1  # each part turns as often as it must
    for left, right in zip(parts, whole, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=60 * torch.finfo(dtype).eps)


def test_strides_and_expanded_gradients_change_nothing():
    s, cotangent = skew(4, 3, 5), torch.randn(1, 1, 5, 5)
    (plain, _) = both(exponential, exponential, s, cotangent.expand(4, 3, 5, 5).contiguous())
    (strided, _) = both(lambda s: exponential(s.mT).mT, exponential, s, cotangent.expand(4, 3, 5, 5))
    for left, right in zip(strided, plain, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-14)
    before = s.clone()
    exponential(s.requires_grad_()).sum().backward()
    assert torch.equal(s.detach(), before)


def test_the_gradient_can_be_taken_twice_from_one_graph():
    s, cotangent = skew(2, 5, norm=5.0).requires_grad_(), torch.randn(2, 5, 5)
    result = exponential(s)
    first = torch.autograd.grad(result, s, cotangent, retain_graph=True)
    assert torch.equal(*first, *torch.autograd.grad(result, s, cotangent))


def test_the_tensors_of_a_part_are_kept_for_a_gradient_alone(monkeypatch):
    packed, alive, work = [], [], skew_exponential._exponential
    references = []

    def watched(*given):
        alive.append(sum(each() is not None for each in references))
        halvings, kept = work(*given)
        references.extend(weakref.ref(tensor) for tensor in kept)
        return halvings, kept

    monkeypatch.setattr(skew_exponential, "_exponential", watched)
    monkeypatch.setattr(skew_exponential, "PART", 4 * 9**2)
    s = skew(12, 9, norm=5.0).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
        with torch.no_grad():
            exponential(s)
        assert alive == [0, 10, 10]  # those of the part before
        references.clear()
        exponential(s)
    assert alive[3:] == [0, 10, 20]
    assert len(packed) == 1 + 3 * (3 + 7)  # the matrices, and of each part three of the polynomial and seven doublings


def test_of_small_real_matrices_nothing_but_the_matrices_is_kept():
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(x) or x, lambda x: x):
        exponential(skew(12, 8, norm=5.0).requires_grad_())
    assert len(packed) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_gradient_of_small_matrices_is_as_exact_for_tiny_and_huge_cotangents(dtype):
    s, cotangent = skew(5, 6, dtype=dtype, norm=3.0), torch.randn(5, 6, 6, dtype=dtype)
    sizes = torch.tensor([0.0, 1e-33, 1e-12, 1.0, 1e33], dtype=dtype)[:, None, None]
    (_, fast), _ = both(exponential, exponential, s, cotangent * sizes)
    _, (_, slow) = both(exponential, reference, s.double(), cotangent.double())
    missed = (fast.double() / sizes.double() - slow).abs().amax((-2, -1)) / slow.abs().amax((-2, -1))
    assert not fast[0].any()
    assert missed[1:].max() < 40 * torch.finfo(dtype).eps


def test_a_cotangent_that_is_not_finite_spoils_its_own_matrix_alone():
    s, cotangent = skew(3, 4, norm=3.0), torch.randn(3, 4, 4)
    (_, whole), _ = both(exponential, exponential, s, cotangent)
    cotangent[1, 2, 0] = math.nan
    (_, spoilt), _ = both(exponential, exponential, s, cotangent)
    assert not spoilt[1].isfinite().any()
    assert torch.equal(spoilt[::2], whole[::2])


def test_autocast_changes_neither_value_nor_gradient():
    s, cotangent = skew(2, 5, norm=3.0, dtype=torch.float32), torch.randn(2, 5, 5, dtype=torch.float32)
    plain, _ = both(exponential, exponential, s, cotangent)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        under, _ = both(exponential, exponential, s, cotangent)
    for left, right in zip(plain, under, strict=True):
        assert torch.equal(left, right)


def test_function_transforms_give_the_same_jacobian():
    a = torch.randn(3, 4, 4)
    fast, slow = (lambda a, f=f: f(a - a.mT) for f in (exponential, reference))
    torch.testing.assert_close(torch.func.jacrev(fast)(a), torch.func.jacrev(slow)(a), rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.func.vmap(fast)(a), slow(a), rtol=0, atol=1e-13)


def test_a_second_derivative_is_refused():
    for loss in (lambda q: q.sum(), lambda q: q[..., 0, 0].square().sum()):
        s = skew(2, 4).requires_grad_()
        (gradient,) = torch.autograd.grad(loss(exponential(s)), s, create_graph=True)
        with pytest.raises(NotImplementedError, match="no second derivative: use skew_exponential_reference"):
            gradient.square().sum().backward()


# What is refused


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128], ids=str)
def test_a_number_that_is_not_finite_is_refused_in_one_line(value, dtype):
    s = skew(4, 3, dtype=dtype)
    s[2, 1, 0] = value
    with refused("^tangent must be finite and of a norm below [0-9]+, got a bound of (nan|inf)$"):
        exponential(s)


def test_a_matrix_too_large_to_hold_an_angle_is_refused_in_one_line():
    s = skew(4, 3, dtype=torch.float32, norm=1.0)
    for size in (2.0**24, 1e30):
        with refused("^tangent must be finite and of a norm below 8388608, got a bound of "):
            exponential(size * s)
    assert exponential(2.0**20 * s).isfinite().all()
    assert exponential(1e15 * s.double()).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
def test_other_types_are_refused_in_one_line(dtype):
    kind = str(dtype).removeprefix("torch.")
    with refused(f"^tangent must be float32, float64, complex64 or complex128, got {kind}$"):
        exponential(torch.zeros(3, 3, dtype=dtype))

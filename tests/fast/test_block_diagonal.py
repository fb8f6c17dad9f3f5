"""A block-diagonal matrix applied block by block equals the whole matrix, in outputs and in gradients."""

import pytest
import torch

from conftest import TOLERANCE
from torsor.maps import Dense, dense
from torsor.maps.dense import carry_blockwise, carry_blockwise_reference


def results(function, x, matrix, groups):
    leaves = [each.clone().requires_grad_() for each in (x, matrix)]
    carried = function(*leaves, groups)
    weights = torch.linspace(-1, 1, carried.numel(), dtype=carried.dtype).view(carried.shape)
    return carried, *torch.autograd.grad((carried * weights).sum(), leaves)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("groups", [2, 3, 6])
@pytest.mark.parametrize(
    ("states", "batch"), [((), ()), ((5,), ()), ((4, 0), ()), ((2, 5), ()), ((2, 3), (3,)), ((3,), (2, 1))]
)
def test_block_by_block_equals_the_whole_matrix(dtype, groups, states, batch):
    x, matrix = torch.randn(*states, 12, dtype=dtype), torch.randn(*batch, 12, 12, dtype=dtype)
    fast, reference = (results(f, x, matrix, groups) for f in (carry_blockwise, carry_blockwise_reference))
    for left, right in zip(fast, reference, strict=True):
        assert left.dtype == right.dtype
        torch.testing.assert_close(left, right, rtol=0, atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize(
    ("dim", "groups", "expected"), [(128, 2, True), (132, 3, True), (126, 2, False), (128, 1, False)]
)
def test_blocks_of_a_map_wide_enough_to_gain_are_carried_one_by_one(dim, groups, expected, monkeypatch):
    used = []
    monkeypatch.setattr(dense, "carry_blockwise", lambda *given: used.append(given) or carry_blockwise(*given))
    m = Dense(torch.randn(dim, dim), groups=groups)
    x = torch.randn(3, dim)
    torch.testing.assert_close(m(x), x @ m.dense().T, rtol=0, atol=1e-11)
    assert bool(used) == expected


@pytest.mark.parametrize("dim", [16, 128])  # as one product, and block by block
def test_what_stands_outside_the_blocks_is_not_read(dim):
    blocks = torch.randn(4, dim // 4, dim // 4) / 4
    clean = Dense(torch.block_diag(*blocks))
    outside = torch.block_diag(*torch.ones_like(blocks)) == 0
    grouped = Dense(clean.matrix.masked_fill(outside, torch.nan), groups=4)
    x = torch.randn(3, dim)
    torch.testing.assert_close(grouped(x), clean(x), rtol=0, atol=1e-11)
    pairs = [(grouped, clean), (grouped @ grouped, clean @ clean), (grouped.power(3), clean.power(3))]
    for left, right in [*pairs, (grouped.adjoint(), clean.adjoint())]:
        torch.testing.assert_close(left.dense(), right.dense(), rtol=0, atol=1e-11)
    assert grouped.spectrum().isfinite().all()

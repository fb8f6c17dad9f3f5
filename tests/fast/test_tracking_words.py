"""The products of many positions at once against one position after the other."""

import numpy as np
import pytest

from cases import GROUPS
from torsor.tracking.words import prefix_products, prefix_products_reference


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 100])
def test_products_of_many_positions_at_once_are_those_of_one_after_the_other(name, length):
    group = GROUPS[name]()
    rng = np.random.default_rng(0)
    elements = rng.integers(group.order, size=(length, 7)).astype(np.int32)
    start = rng.integers(group.order, size=7).astype(np.int32)
    fast, slow = prefix_products(group, elements, start), prefix_products_reference(group, elements, start)
    assert np.array_equal(fast, slow)
    assert fast.dtype == slow.dtype == np.int32

"""The products of matrices that a job is made of, to be timed by themselves at its own sizes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch


@final
@dataclass(frozen=True)
class Product:
    """A batch of products of float32 matrices, ``(batch, rows, inner)`` times ``(batch, inner, columns)``.

    Args:
        rows: of the left matrices.
        inner: of the sums.
        columns: of the right matrices.
        batch: how many at a time; one is a plain product.
    """

    rows: int
    inner: int
    columns: int
    batch: int = 1

    @property
    def operations(self) -> int:
        """Two for every multiply-add."""
        return 2 * self.batch * self.rows * self.inner * self.columns

    def backwards(self) -> "tuple[Product, Product, Product]":
        """This product and the two of its gradient: with respect to the left matrices and to the right."""
        rows, inner, columns, batch = self.rows, self.inner, self.columns, self.batch
        return self, Product(rows, columns, inner, batch), Product(inner, rows, columns, batch)

    def make(self) -> Callable[[], object]:
        """A call that computes it once, into memory that is there."""
        shapes = (self.rows, self.inner), (self.inner, self.columns), (self.rows, self.columns)
        if self.batch == 1:
            left, right, out = (torch.ones(shape, dtype=torch.float32) for shape in shapes)
            return lambda: torch.mm(left, right, out=out)
        left, right, out = (torch.ones((self.batch, *shape), dtype=torch.float32) for shape in shapes)
        return lambda: torch.bmm(left, right, out=out)

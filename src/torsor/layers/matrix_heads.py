"""How many heads each part of an M²RNN layer has, and how large they are."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class MatrixHeads:
    """The heads of queries, keys, values, forget gates and state weights, and the two sides of a matrix state.

    There are as many states as the part with the most heads has; every other part's heads are repeated.

    Args:
        query: heads of the queries.
        key: heads of the keys.
        value: heads of the values.
        forget: forget gates.
        weight: state weights.
        key_dim: rows of a state; 64 as published.
        value_dim: columns of a state, and the side of its weight; 16 as published.

    Raises:
        ValueError: when a number is below 1 or does not divide the largest number of heads.
    """

    query: int
    key: int
    value: int
    forget: int
    weight: int
    key_dim: int = 64
    value_dim: int = 16

    def __post_init__(self) -> None:
        counts = {
            "query": self.query,
            "key": self.key,
            "value": self.value,
            "forget": self.forget,
            "weight": self.weight,
        }
        for name, number in (counts | {"key_dim": self.key_dim, "value_dim": self.value_dim}).items():
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        for name, number in counts.items():
            if self.states % number:
                raise ValueError(f"{name} must divide the largest number of heads = {self.states}, got {number}")

    @staticmethod
    def multi_value(heads: int, key_dim: int = 64, value_dim: int = 16) -> "MatrixHeads":
        """The published grouping: one query and one key for all heads, everything else for each."""
        return MatrixHeads(1, 1, heads, heads, heads, key_dim, value_dim)

    @property
    def states(self) -> int:
        """How many matrix states there are."""
        return max(self.query, self.key, self.value, self.forget, self.weight)

    @property
    def parts(self) -> tuple[int, int, int]:
        """Widths of the queries, the keys and the values of one element."""
        return self.query * self.key_dim, self.key * self.key_dim, self.value * self.value_dim

    @property
    def read(self) -> int:
        """Width of what is read from all states together."""
        return self.states * self.value_dim

"""Random expressions over lists as trees, a level at a time and many at once: grown, measured, valued, written."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Int, UInt64

MIN, MAX, MEDIAN, SUM_MOD, CLOSE, PAD = range(10, 16)  # tokens; the digits come before them
OPERATORS = (MIN, MAX, MEDIAN, SUM_MOD)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_REST = np.uint64(2**60 - 1)  # the bits of a node's number that neither make it an operator nor choose which


@final
@dataclass(frozen=True, eq=False)
class Level:
    """The nodes of one depth, of all trees: those of a parent side by side, in its order.

    Args:
        tree: which tree a node belongs to.
        parent: its parent's place in the level above; not read in the first.
        token: a digit, or one of the four operators.
        arity: arguments of an operator, 0 of a digit.
    """

    tree: Int[np.ndarray, "nodes"]
    parent: Int[np.ndarray, "nodes"]
    token: Int[np.ndarray, "nodes"]
    arity: Int[np.ndarray, "nodes"]


def grown(roots: UInt64[np.ndarray, "trees"], depth: int, arguments: int, longest: int) -> list[Level]:
    """Trees whose root is an operator; below it a node is one with probability 1/4, and a digit at the last depth.

    A node is what its own 64-bit number says: two bits whether it is an operator, two which, the rest its arity or its
    digit, both uniform. Its children have the numbers of the generator SplitMix64 (Steele, Lea and Flood, 2014)
    seeded with its own, so that a tree is a function of its root's number.

    Args:
        roots: the numbers of the roots.
        depth: levels, at least 2.
        arguments: the largest arity, at least 2.
        longest: a tree of more nodes than this is too long whatever follows, and grows no further.
    """
    levels, numbers, nodes = [], roots, np.zeros(len(roots), dtype=np.int64)
    tree = parent = np.arange(len(roots))
    for level in range(1, depth + 1):
        operator = (numbers >> np.uint64(62)) == 0 if level > 1 else np.full(len(numbers), True)
        nodes += np.bincount(tree, minlength=len(roots))
        operator &= (nodes <= longest)[tree] & (level < depth)
        rest = numbers & _REST
        which = ((numbers >> np.uint64(60)) & np.uint64(3)).astype(np.int64)
        token = np.where(operator, MIN + which, (rest % np.uint64(10)).astype(np.int64))
        arity = np.where(operator, 2 + (rest % np.uint64(arguments - 1)).astype(np.int64), 0)
        levels.append(Level(tree, parent, token, arity))
        if not operator.any():
            break
        parent = np.repeat(np.arange(len(numbers)), arity)
        place = np.arange(len(parent)) - np.repeat(np.cumsum(arity) - arity, arity)
        numbers = _mixed(numbers[parent] + (place + 1).astype(np.uint64) * _GOLDEN)
        tree = tree[parent]
    return levels


def lengths(levels: list[Level]) -> list[Int[np.ndarray, "nodes"]]:
    """Tokens of the expression under every node: one of a digit, those of its arguments and two of an operator."""
    found = [np.ones(len(level.token), dtype=np.int64) for level in levels]
    for above, level, own in zip(reversed(range(len(levels) - 1)), reversed(levels), reversed(found), strict=False):
        inside = np.bincount(level.parent, weights=own, minlength=len(found[above])).astype(np.int64)
        found[above] += np.where(levels[above].arity > 0, 1 + inside, 0)
    return found


def values(levels: list[Level]) -> Int[np.ndarray, "trees"]:
    """What every tree evaluates to; the median of an even number is the mean of the middle two, rounded down."""
    below = np.zeros(0, dtype=np.int64)
    for level in reversed(levels):
        own = level.token.copy()
        nodes = level.arity.nonzero()[0]
        if len(nodes):
            arity = level.arity[nodes][:, None]
            places = np.arange(int(arity.max()))
            there = places < arity
            given = np.concatenate([below, [0]])[np.where(there, np.cumsum(arity)[:, None] - arity + places, -1)]
            ordered = np.sort(np.where(there, given, 10), axis=1)  # 10 is beyond every digit
            middle = [np.take_along_axis(ordered, (arity - odd) // 2, axis=1)[:, 0] for odd in (0, 1)]
            results = {
                MIN: ordered[:, 0],
                MAX: np.take_along_axis(ordered, arity - 1, axis=1)[:, 0],
                MEDIAN: sum(middle) // 2,
                SUM_MOD: np.where(there, given, 0).sum(axis=1) % 10,
            }
            kinds = level.token[nodes]
            own[nodes] = np.select([kinds == kind for kind in results], list(results.values()))
        below = own
    return below


def written(levels: list[Level], longest: int) -> Int[np.ndarray, "trees longest"]:
    """The tokens of every tree, and padding behind them.

    Args:
        levels: trees of at most ``longest`` tokens.
        longest: positions of a row.
    """
    tokens = np.full((len(levels[0].token), longest), PAD)
    above = np.zeros(len(levels[0].token), dtype=np.int64)  # where the first argument of every node above stands
    for level, length in zip(levels, lengths(levels), strict=True):
        if level is levels[0]:
            start = above
        else:
            before = np.cumsum(length) - length
            first = np.concatenate([[True], level.parent[1:] != level.parent[:-1]])
            start = above[level.parent] + before - before[first][np.cumsum(first) - 1]
        tokens[level.tree, start] = level.token
        nodes = level.arity > 0
        tokens[level.tree[nodes], (start + length - 1)[nodes]] = CLOSE
        above = start + 1
    return tokens


def length_shares(depth: int, arguments: int, longest: int) -> np.ndarray:
    r"""The exact probability of every length from 0 to ``longest`` of a tree whose root is an operator.

    By generating functions: with :math:`g` those of the level below, an operator has
    :math:`z^2` times the mean of :math:`g^2, \dots, g^a`.
    """
    size = longest + 1
    node = np.zeros(size)
    node[1:2] = 1.0
    operator = node
    for _ in range(depth - 1):
        power, total = node, np.zeros(size)
        for _ in range(arguments - 1):
            power = _product(power, node)
            total += power
        operator = np.concatenate([[0.0, 0.0], total / (arguments - 1)])[:size]
        node = operator / 4
        node[1:2] += 3 / 4
    return operator


def _product(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product of two polynomials, cut to the degree of the first."""
    size = 2 * len(one)
    product = np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size)
    return product[: len(one)].clip(min=0)


def _mixed(numbers: UInt64[np.ndarray, "nodes"]) -> UInt64[np.ndarray, "nodes"]:
    """The finaliser of SplitMix64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))

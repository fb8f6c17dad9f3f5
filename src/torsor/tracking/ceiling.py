"""How often the best predictor that sees the letters but not their order is right."""

from collections.abc import Iterator, Sequence
from math import comb, sqrt
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import binom, multinomial

from torsor.groups import FiniteGroup
from torsor.tracking.requirements import require_at_least

Alphabet = Literal["generators", "all"]
_MOST_WORK = 2**23  # look-ups of the recursion over all lengths: half a second
_ROUNDING = 1e-13
_MOST_HELD = 2**23  # probabilities of one length: 64 MiB


def order_blind_ceiling(
    group: FiniteGroup, length: int, alphabet: Alphabet = "all"
) -> tuple[float, Literal["exact", "bound"]]:
    r"""The accuracy :math:`C_t` at the last of :math:`t` letters of the best predictor that is blind to order.

    Letters are independent and uniform over the alphabet, and the predictor sees how often each
    occurs. With :math:`D_M(g)` the probability that a random order of the multiset :math:`M` has
    the product :math:`g`,

    .. math:: C_t = \mathbb{E}_M \max_g D_M(g), \qquad
              D_M(g) = \sum_x \frac{m_x}{|M|} D_{M - x}(g x^{-1}).

    Letters that differ by an element of the centre move the product alike in every order, so they
    count as one letter, and letters of the centre as none.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py``:

    * "exact" is the mean over all words of the alphabet, up to rounding;
    * :math:`C_{t+1} \le C_t`: a letter more that is seen out of order is no help;
    * :math:`C_t \ge 1/f` with :math:`f = |[G, G]|`, and over all elements, for :math:`t \ge 3`,
      :math:`C_t \le 1/f + (1 - 1/f) \sqrt{(t + 3) / 2^{t + 1}}`;
    * "bound" is not below the exact number: the smaller of this expression (over all elements) and
      of what the longest feasible recursion leaves open;
    * in a commutative group the ceiling is 1, exactly.

    Args:
        group: the finite group.
        length: :math:`t`, at least 1.
        alphabet: "all" elements, or the "generators".

    Returns:
        The probability, and "exact" where the recursion is feasible: within some
        millions of look-ups it reaches this length, or one at which nothing above :math:`1/f` is left. Else
        "bound".

    Raises:
        ValueError: when ``length`` is below 1 or ``alphabet`` is neither.

    Example:
        >>> from torsor.groups import symmetric
        >>> order_blind_ceiling(symmetric(3), 1), order_blind_ceiling(symmetric(5), 64)[1]
        ((1.0, 'exact'), 'bound')
    """
    return order_blind_ceilings(group, (length,), alphabet)[0]


def order_blind_ceilings(
    group: FiniteGroup, lengths: Sequence[int], alphabet: Alphabet = "all"
) -> list[tuple[float, Literal["exact", "bound"]]]:
    """The ceilings of several lengths from one run of the recursion.

    Raises:
        ValueError: as ``order_blind_ceiling``.
    """
    for length in lengths:
        require_at_least(1, length=length)
    if alphabet not in {"generators", "all"}:
        raise ValueError(f"alphabet must be 'generators' or 'all', got {alphabet!r}")
    letters = list(group.generators if alphabet == "generators" else range(group.order))
    centre = np.flatnonzero((group.table == group.table.T).all(axis=1))
    cosets = group.coset_index(centre.tolist(), "right")[letters]
    kinds, first, counts = np.unique(cosets, return_index=True, return_counts=True)
    moving = kinds != 0  # the coset of the identity is the centre
    shares = counts[moving] / len(letters)
    known = list(_maxima(group, np.array(letters)[first[moving]], shares, max(lengths)))
    return [_ceiling(group, alphabet, length, float(shares.sum()), known) for length in lengths]


def order_blind_ceiling_reference(group: FiniteGroup, length: int, alphabet: Alphabet = "all") -> float:
    """The same from its definition, over every word of the alphabet."""
    letters = np.array(group.generators if alphabet == "generators" else range(group.order))
    words = np.stack(np.meshgrid(*[np.arange(len(letters))] * length, indexing="ij"), -1).reshape(-1, length)
    states = np.zeros(len(words), dtype=np.int64)
    for column in letters[words].T:
        states = group.table[states, column]
    _, multiset = np.unique(np.sort(words, axis=1), axis=0, return_inverse=True)
    products = np.zeros((multiset.max() + 1, group.order))
    np.add.at(products, (multiset.ravel(), states), 1)
    return float(products.max(axis=1).sum() / len(words))


def _ceiling(
    group: FiniteGroup, alphabet: Alphabet, length: int, moving: float, known: list[float]
) -> tuple[float, Literal["exact", "bound"]]:
    """Mix the numbers of moving letters among ``length``; where one is not known, a smaller one is a bound."""
    used = min(length, len(known) - 1)
    weights = binom.pmf(np.arange(used + 1), length, moving)
    rest = max(0.0, 1 - float(weights.sum())) if length > used else 0.0
    value = min(1.0, float(weights @ np.array(known[: used + 1])) + rest * known[used])
    if length <= used or moving == 0:
        return value, "exact"
    if alphabet == "all" and length >= 3:
        commutators = len(group.commutator_subgroup())
        limit = 1 / commutators + (1 - 1 / commutators) * sqrt((length + 3) / 2 ** (length + 1))
        value = min(value, limit)
    return value, "bound"


def _maxima(
    group: FiniteGroup, letters: Int[np.ndarray, "letters"], shares: Float[np.ndarray, "letters"], longest: int
) -> Iterator[float]:
    """The mean of the largest probability for words of 0, 1, 2, ... of these letters, as far as is feasible."""
    yield 1.0
    if not len(letters):
        return
    inverse = group.inverse(letters)
    sources = group.table[:, inverse].T  # sources[x, g] = g x^-1
    weights = shares / shares.sum()
    multisets = np.zeros((1, len(letters)), dtype=np.int64)
    products = np.zeros((1, group.order))
    products[0, group.identity] = 1.0
    least = 1 / len(group.commutator_subgroup())
    largest, work = 1.0, 0
    for length in range(1, longest + 1):
        size = comb(length + len(letters) - 1, length)
        work += len(multisets) * len(letters) * group.order  # each grows by each letter
        if largest - least < _ROUNDING:
            yield largest
            continue
        if work > _MOST_WORK or size * (group.order + len(letters)) > _MOST_HELD:
            return
        multisets = _one_more(multisets)
        smaller, products = products, np.zeros((size, group.order))
        for x, source in enumerate(sources):
            held = np.flatnonzero(multisets[:, x])
            without = multisets[held]
            without[:, x] -= 1
            products[held] += (multisets[held, x, None] / length) * smaller[_places(without)][:, source]
        largest = float(multinomial.pmf(multisets, length, weights) @ products.max(axis=1))
        yield largest


def _one_more(multisets: Int[np.ndarray, "count letters"]) -> Int[np.ndarray, "more letters"]:
    """Every multiset of one letter more, each at its place."""
    letters = multisets.shape[1]
    # each multiset comes once, from itself without its last letter
    last = np.where(multisets.any(axis=1), letters - 1 - (multisets[:, ::-1] > 0).argmax(axis=1), 0)
    grown = []
    for x in range(letters):
        some = multisets[last <= x].copy()
        some[:, x] += 1
        grown.append(some)
    found = np.concatenate(grown)
    ordered = np.empty_like(found)
    ordered[_places(found)] = found
    return ordered


def _places(multisets: Int[np.ndarray, "count letters"]) -> Int[np.ndarray, "count"]:
    r"""The place of each multiset among those of its size: the combinatorial number system.

    The sums :math:`s_i = m_1 + \dots + m_i` of all but the last letter give the subset
    :math:`\{s_i + i - 1\}`, whose place is :math:`\sum_i \binom{s_i + i - 1}{i}`.
    """
    sums = multisets.cumsum(axis=1)[:, :-1]
    place = np.zeros(len(multisets), dtype=np.int64)
    term = np.arange(sums.max(initial=0) + 1)  # of the first letter: binom(s, 1)
    for column in sums.T:
        place += term[column]
        term = term.cumsum()  # binom(s + i, i + 1) is the sum over r <= s of binom(r + i - 1, i)
    return place

"""A shuffled order of rows that is computed where it is needed and stored nowhere."""

import numpy as np
from jaxtyping import Int64

_ORDER = 1  # the random stream of a seed; Characters' windows are stream 0
_ROUNDS = 12


def shuffled(positions: Int64[np.ndarray, "positions"], rows: int, seed: int, epoch: int) -> Int64[np.ndarray, "rows"]:
    r"""Which row stands at each position of an epoch: a permutation of ``0 .. rows - 1``.

    A Feistel network permutes :math:`0, \dots, 4^h - 1`, with the smallest :math:`h` for which these
    hold every row: its two halves of :math:`h` bits change places, and one of them is added, bit by
    bit, to a hash of the other,

    .. math:: (l, r) \mapsto (r,\ l \oplus \lfloor (a r + b)\, 2^{h - 64} \rfloor), \qquad a \text{ odd},

    twelve times, with :math:`a, b` of each round from the counter-based generator Philox, keyed by
    the seed and counting epochs. Where a position is taken beyond the rows it is permuted again until
    it is not: a permutation still, of the rows alone.

    Guarantees, each a test in ``tests/laws/test_packing_laws.py``:

    * in an epoch every row stands at exactly one position;
    * every seed and every epoch has an order of its own, in which each row stands anywhere equally
      often and neighbours are as independent as those of a shuffled deck, as far as a chi-square test sees.

    Args:
        positions: in ``0 .. rows - 1``.
        rows: at least 1 and at most 2⁶².
        seed: 0 to 2⁶⁴ - 1.
        epoch: 0 to 2¹²⁸ - 1.

    Returns:
        A row for each position.

    Example:
        >>> sorted(shuffled(np.arange(5), 5, seed=0, epoch=0).tolist())
        [0, 1, 2, 3, 4]
    """
    half = np.uint64(max(1, ((rows - 1).bit_length() + 1) // 2))
    counter = np.array([0, epoch % 2**64, epoch >> 64, _ORDER], dtype=np.uint64)
    keys = np.random.Philox(key=seed, counter=counter).random_raw(2 * _ROUNDS).reshape(_ROUNDS, 2)
    found = positions.astype(np.uint64)
    walking = np.arange(len(found))
    while walking.size:
        found[walking] = _permuted(found[walking], half, keys)
        walking = walking[found[walking] >= np.uint64(rows)]
    return found.astype(np.int64)


def _permuted(numbers: np.ndarray, half: np.uint64, keys: np.ndarray) -> np.ndarray:
    left, right = numbers >> half, numbers & ((np.uint64(1) << half) - np.uint64(1))
    for factor, shift in keys:
        hashed = ((factor | np.uint64(1)) * right + shift) >> (np.uint64(64) - half)  # modulo 2**64
        left, right = right, left ^ hashed
    return (left << half) | right

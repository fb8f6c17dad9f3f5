"""Which ordered pairs of letters to hold out, and whether the words without them still lead everywhere."""

from collections.abc import Collection, Iterator
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Bool
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from torsor.tasks import WordProblem
from torsor.tracking.requirements import require_share

Pair = tuple[int, int]
_FEW = 4096  # sets of pairs that are all tried
_DRAWS = 64  # sets that are tried where there are more


def choose_pairs(task: WordProblem, share: float = 0.05, seed: int = 0, commuting: bool = False) -> tuple[Pair, ...]:
    r"""Draw the ordered pairs of letters that training never sees side by side.

    A pair :math:`(a, b)` of letters is admissible when :math:`ab \ne ba`: a model that only counts letters
    cannot know what it is to do there. The pairs are drawn from the seed alone, so that all runs on a
    task hold out the same, and so that the words without them still lead from everywhere to every
    state (``leads_everywhere``).

    Args:
        task: the word problem.
        share: of all ordered pairs of letters, strictly between 0 and 1; at least one is held out.
        seed: of the choice.
        commuting: whether pairs that commute are admissible too.

    Returns:
        Pairs of tokens, ascending.

    Raises:
        ValueError: when there are not as many admissible pairs, or no choice of them leaves words
            that lead everywhere. Two letters that do not commute never do: without one of their
            orders a word ends in repetitions of one letter.
    """
    require_share("share", share)
    letters = np.array(task.letters)
    products = task.group.table[np.ix_(letters, letters)]
    admissible = np.argwhere(np.full(products.shape, True) if commuting else products != products.T)
    count = max(1, round(share * len(letters) ** 2))
    kind = "pairs" if commuting else "pairs that do not commute"
    if len(admissible) < count:
        raise ValueError(
            f"letters must have at least {count} {kind}, got {len(admissible)} among {len(letters)} "
            f"of {task.group.name}"
        )
    for chosen in _choices(len(admissible), count, np.random.default_rng(seed)):
        pairs = tuple(sorted((int(a), int(b)) for a, b in admissible[chosen]))
        if leads_everywhere(task, pairs):
            return pairs
    raise ValueError(
        f"words without some {count} {kind} must lead everywhere, got no such choice "
        f"among {len(letters)} letters of {task.group.name}"
    )


def leads_everywhere(task: WordProblem, pairs: Collection[Pair]) -> bool:
    """Whether after every word without the pairs every state can still be reached by such a word.

    Words are walked as a graph whose nodes are the last letter and the state: every strong
    component that cannot be left must hold every state. Which of them can be entered does not matter,
    since a translation of all states takes any node to a word of one letter.
    """
    allowed = allowed_pairs(task, pairs)
    if not allowed.any(axis=1).all():
        return False
    order, letters = task.group.order, np.array(task.letters)
    before, after = np.nonzero(allowed)
    states = np.arange(order)
    sources = (before[:, None] * order + states).ravel()
    targets = (after[:, None] * order + task.group.table[:, letters[after]].T).ravel()
    nodes = len(letters) * order
    graph = coo_array((np.ones(len(sources), np.int8), (sources, targets)), shape=(nodes, nodes)).tocsr()
    count, component = connected_components(graph, connection="strong")
    left = np.zeros(count, dtype=bool)
    crossing = component[sources] != component[targets]
    left[component[sources[crossing]]] = True
    held = np.zeros((count, order), dtype=bool)
    held[component, np.arange(nodes) % order] = True
    return bool(held[~left].all())


def least_length(task: WordProblem, pairs: Collection[Pair]) -> int | None:
    """The least length at which the words without the pairs have led to every state, or None if never."""
    allowed = allowed_pairs(task, pairs)
    letters = np.array(task.letters)
    current = np.zeros((len(letters), task.group.order), dtype=bool)
    current[np.arange(len(letters)), letters] = True
    reached, seen = current.any(axis=0), current.copy()
    length = 1
    while not reached.all():
        following = np.zeros_like(current)
        for letter, element in enumerate(letters):
            entering = current[allowed[:, letter]].any(axis=0)
            following[letter, task.group.table[np.flatnonzero(entering), element]] = True
        current = following & ~seen
        if not current.any():
            return None
        seen |= current
        reached |= current.any(axis=0)
        length += 1
    return length


def allowed_pairs(task: WordProblem, pairs: Collection[Pair]) -> Bool[np.ndarray, "letters letters"]:
    """Which letter may follow which."""
    allowed = np.ones((len(task.letters), len(task.letters)), dtype=bool)
    for first, second in pairs:
        allowed[first, second] = False
    return allowed


def _choices(among: int, count: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Sets of ``count`` places: every one, in random order, where they are few, else some at random."""
    if comb(among, count) <= _FEW:
        everything = np.array(list(combinations(range(among), count)))
        yield from everything[rng.permutation(len(everything))]
    else:
        for _ in range(_DRAWS):
            yield rng.choice(among, size=count, replace=False)

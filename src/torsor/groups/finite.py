"""A finite group: permutations, numbered in lexicographic order, and their multiplication table."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final, overload

import numpy as np
from jaxtyping import Int

from torsor.groups import subgroups
from torsor.groups.base import Group
from torsor.groups.subgroups import Elements, Side
from torsor.kinds import kind_of

MAX_ORDER = 10_000

Index = int | np.integer
Indices = Index | Int[np.ndarray, "..."]


@final
@dataclass(frozen=True, eq=False)
class FiniteGroup(Group[Indices]):
    r"""A group of permutations of the points ``0 .. degree - 1``; its elements are indices ``0 .. order - 1``.

    Element ``g`` is the permutation ``permutations[g]`` in one-line notation, :math:`i \mapsto g(i)`.
    Elements are numbered in the lexicographic order of that notation, so the identity is element 0.
    Products are read left to right:

    .. math:: (g h)(i) = h(g(i)), \qquad \mathtt{table[g, h]} = g h .

    The constructor takes all the elements and checks them; ``generated_by`` and the families
    (``symmetric``, ``dihedral``, ...) find them. Arrays are int32 and cannot be written to. A
    subgroup is the sorted tuple of its elements. Lists of subgroups are sorted by order, then
    lexicographically; cosets and conjugacy classes by their smallest elements.

    Guarantees, each a test in ``tests/laws/test_group_laws.py``:

    * the laws of ``Group``, for every triple of elements;
    * the generators generate;
    * ``permutations`` is a homomorphism, and is sorted;
    * left cosets, and right cosets, cut the group into parts of equal size.

    Args:
        permutations: every element once, in lexicographic order: closed under products.
        generators: elements, as indices, that generate the group; their order is kept.
        name: such as "A5".

    Raises:
        ValueError: when the rows are not permutations, sorted and closed under products, when the
            generators do not generate them all, or when there are more than 10,000.

    Example:
        >>> from torsor.groups import symmetric
        >>> group = symmetric(3)
        >>> group.order, group.permutations[group.compose(1, 2)].tolist()
        (6, [1, 2, 0])
    """

    permutations: Int[np.ndarray, "order degree"]
    generators: tuple[int, ...]
    name: str
    _left: Int[np.ndarray, "generators order"] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.permutations, np.ndarray | Sequence) or isinstance(self.permutations, str):
            raise ValueError(f"permutations must be an array of rows, got {kind_of(self.permutations)}")
        require_order(len(self.permutations), self.name)
        rows = np.array(self.permutations, dtype=np.int32)
        object.__setattr__(self, "permutations", _frozen(rows))
        if rows.ndim != 2 or not rows.size or (np.sort(rows, axis=1) != np.arange(rows.shape[1])).any():
            raise ValueError("permutations must be rows that each hold every one of 0 .. degree - 1 exactly once")
        keys = _keys(rows)
        if not (keys[:-1] < keys[1:]).all():
            raise ValueError("permutations must be different and in lexicographic order")
        if not self.generators or not all(0 <= x < self.order for x in self.generators):
            raise ValueError(f"generators must be some of 0 .. {self.order - 1}, got {self.generators}")
        products = np.stack([_keys(rows[:, rows[x]]) for x in self.generators])
        left = np.searchsorted(keys, products)  # row k is h -> x_k h, for each generator x_k
        if (keys[np.minimum(left, self.order - 1)] != products).any():
            raise ValueError("permutations must be closed under products")
        object.__setattr__(self, "_left", _frozen(left.astype(np.int32)))
        if len(self._tree()) != self.order - 1:
            raise ValueError(f"generators must generate all {self.order} elements, got {self.generators}")

    def __reduce__(self) -> tuple[type["FiniteGroup"], tuple[np.ndarray, tuple[int, ...], str]]:
        # A copied array can be written to again: build anew, which freezes it and keeps pickles small.
        return FiniteGroup, (self.permutations, self.generators, self.name)

    def __repr__(self) -> str:
        return f"FiniteGroup({self.name}, order={self.order}, degree={self.degree})"

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.permutations)

    @property
    def degree(self) -> int:
        """Number of points that the permutations move."""
        return self.permutations.shape[1]

    @property
    def identity(self) -> int:
        """Element 0, since no other permutation comes before it."""
        return 0

    @cached_property
    def table(self) -> Int[np.ndarray, "order order"]:
        """The multiplication table, ``table[g, h]`` = "g, then h"; built at first use.

        It cannot be written to: ``torch.tensor(group.table)`` copies it, and ``torch.as_tensor`` would warn.
        """
        table = np.empty((self.order, self.order), np.int32)
        table[self.identity] = np.arange(self.order)
        for child, left, parent in self._tree():
            table[child] = left[table[parent]]  # (x p) h = x (p h)
        return _frozen(table)

    @overload
    def compose(self, g: Index, h: Index) -> int: ...
    @overload
    def compose(self, g: Indices, h: Indices) -> int | Int[np.ndarray, "..."]: ...
    def compose(self, g: Indices, h: Indices) -> int | Int[np.ndarray, "..."]:
        """The product "g, then h" of two elements, or of two arrays of them that broadcast."""
        return _plain(self.table[self._checked(g), self._checked(h)])

    @overload
    def inverse(self, g: Index) -> int: ...
    @overload
    def inverse(self, g: Indices) -> int | Int[np.ndarray, "..."]: ...
    def inverse(self, g: Indices) -> int | Int[np.ndarray, "..."]:
        """The inverse of an element, or of each in an array."""
        return _plain(self._inverses[self._checked(g)])

    def index(self, permutation: Sequence[int] | Int[np.ndarray, "degree"]) -> int:
        """The element that is this permutation, in one-line notation.

        Raises:
            ValueError: when the permutation is not an element.
        """
        row = [int(image) for image in permutation]
        found = bisect_left(self.permutations, row, key=lambda element: element.tolist())
        if found == self.order or self.permutations[found].tolist() != row:
            raise ValueError(f"permutation must be an element of {self.name}, got {tuple(row)}")
        return found

    def subgroups(self) -> tuple[Elements, ...]:
        """Every subgroup, by order, then lexicographically; computed once.

        The number grows fast: 156 for S5, 1,455 for S6, 2,825 for C2xC2xC2xC2xC2xC2. Groups of
        order up to 120 take less than a second, S6 takes most of a minute.
        """
        return self._subgroups

    def normal_subgroups(self) -> tuple[Elements, ...]:
        r"""Every subgroup :math:`N` with :math:`x^{-1} N x = N` for all :math:`x`; computed once."""
        return self._normal_subgroups

    def conjugacy_classes(self) -> tuple[Elements, ...]:
        r"""The classes :math:`\{x^{-1} g x\}`, each sorted; the identity's comes first."""
        return subgroups.conjugacy_classes(self.table, self._inverses)

    def commutator_subgroup(self) -> Elements:
        r"""The subgroup :math:`[G, G]` that all :math:`[g, h] = g^{-1} h^{-1} g h` generate."""
        return subgroups.commutator_subgroup(self.table, self._inverses, self.generators)

    def generated_subgroup(self, elements: Collection[int]) -> Elements:
        """The smallest subgroup that holds ``elements``."""
        return subgroups.generated_subgroup(self.table, self._checked_set(elements))

    def is_subgroup(self, elements: Collection[int]) -> bool:
        """Whether ``elements`` form a subgroup."""
        return subgroups.is_subgroup(self.table, self._checked_set(elements))

    def is_normal(self, subgroup: Collection[int]) -> bool:
        """Whether a subgroup is normal: its left cosets are its right cosets."""
        return subgroups.is_normal(self.table, self._checked_subgroup(subgroup))

    def cosets(self, subgroup: Collection[int], side: Side) -> tuple[Elements, ...]:
        r"""The right cosets :math:`H q` or the left cosets :math:`q H`, by their smallest elements.

        The subgroup itself comes first. Right cosets are what right multiplication, the reading of
        a letter, permutes: :math:`H q \mapsto H q x`.

        Args:
            subgroup: :math:`H`, as its elements in any order.
            side: "right" for :math:`H q`, "left" for :math:`q H`.
        """
        by_coset = np.argsort(self.coset_index(subgroup, side), kind="stable")
        return tuple(tuple(coset) for coset in by_coset.reshape(-1, len(set(subgroup))).tolist())

    def coset_index(self, subgroup: Collection[int], side: Side) -> Int[np.ndarray, "order"]:
        """For each element the number of its coset, its place in ``cosets(subgroup, side)``.

        Raises:
            ValueError: when ``subgroup`` is not one, or ``side`` is neither "left" nor "right".
        """
        if side not in {"left", "right"}:
            raise ValueError(f"side must be 'left' or 'right', got {side!r}")
        return _frozen(subgroups.coset_index(self.table, self._checked_subgroup(subgroup), side))

    def quotient(self, normal: Collection[int]) -> "FiniteGroup":
        r"""The group :math:`G / N` of the cosets of a normal subgroup.

        Element ``k`` is the coset ``cosets(normal, "right")[k]``, so ``coset_index(normal, "right")``
        is the homomorphism :math:`G \to G / N`. It acts on its own elements by right
        multiplication, and is generated by the cosets of the generators, without repetition.

        Raises:
            ValueError: when ``normal`` is not a normal subgroup.
        """
        if not self.is_normal(normal):
            raise ValueError(f"only a normal subgroup of {self.name} has a quotient, got {tuple(sorted(normal))}")
        index = self.coset_index(normal, "right")
        generators = tuple(dict.fromkeys(index[list(self.generators)].tolist()))
        return FiniteGroup(
            subgroups.coset_permutations(self.table, index), generators, f"{self.name}/N{len(set(normal))}"
        )

    @cached_property
    def _inverses(self) -> Int[np.ndarray, "order"]:
        return _frozen(np.nonzero(self.table == self.identity)[1].astype(np.int32))

    @cached_property
    def _subgroups(self) -> tuple[Elements, ...]:
        return subgroups.all_subgroups(self.table)

    @cached_property
    def _normal_subgroups(self) -> tuple[Elements, ...]:
        return subgroups.normal_subgroups(self.table, self._inverses)

    def _tree(self) -> list[tuple[int, np.ndarray, int]]:
        """Every element but the identity as ``child = x parent``, with the row ``x h``; parents come first."""
        met, queue, tree = {self.identity}, [self.identity], []
        for parent in queue:  # grows while it is walked
            for left in self._left:
                child = int(left[parent])
                if child not in met:
                    met.add(child)
                    queue.append(child)
                    tree.append((child, left, parent))
        return tree

    def _checked(self, g: Indices) -> Indices:
        values = np.asarray(g)
        if values.size and (values.min() < 0 or values.max() >= self.order):  # numpy would count from the end
            raise ValueError(f"elements of {self.name} must be in 0 .. {self.order - 1}, got {g}")
        return g

    def _checked_set(self, elements: Collection[int]) -> Elements:
        members = tuple(sorted({int(element) for element in elements}))
        self._checked(np.array(members, dtype=np.int64))
        return members

    def _checked_subgroup(self, elements: Collection[int]) -> Elements:
        members = self._checked_set(elements)
        if not subgroups.is_subgroup(self.table, members):
            raise ValueError(f"elements must form a subgroup of {self.name}, got {members}")
        return members


def require_order(order: int, name: str) -> None:
    """Refuse a group before its table is laid out in memory.

    Raises:
        ValueError: when the order exceeds 10,000.
    """
    if order > MAX_ORDER:
        raise ValueError(f"the order of a finite group must be at most {MAX_ORDER}, got at least {order} for {name}")


def _keys(rows: Int[np.ndarray, "rows degree"]) -> np.ndarray:
    """One byte string for each row, which sorts as the row does."""
    return np.ascontiguousarray(rows, dtype=">u4").view(f"S{4 * rows.shape[1]}")[:, 0]


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _plain(result: np.ndarray | np.integer) -> int | np.ndarray:
    return int(result) if result.ndim == 0 else result

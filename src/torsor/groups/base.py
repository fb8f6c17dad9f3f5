"""The abstract group: an identity, a product that is read left to right, and inverses."""

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Element = TypeVar("Element")


class Group(ABC, Generic[Element]):
    r"""A group whose elements are values of one type: indices of a table, matrices, angles.

    Products are read left to right: :math:`g h` is "g, then h". A state :math:`q` becomes
    :math:`q x` on reading :math:`x`.

    Guarantees, each a law over every registered group in ``tests/laws/test_group_laws.py``:

    * associative: :math:`(g h) k = g (h k)`;
    * :math:`e g = g = g e`;
    * :math:`g g^{-1} = e = g^{-1} g`.

    To add a group: a final class with the three members below, and one line in ``tests/cases.py``.
    """

    @property
    @abstractmethod
    def identity(self) -> Element:
        """The element :math:`e` that changes nothing."""

    @abstractmethod
    def compose(self, g: Element, h: Element) -> Element:
        """The product :math:`g h`: first ``g``, then ``h``."""

    @abstractmethod
    def inverse(self, g: Element) -> Element:
        """The element :math:`g^{-1}` that undoes ``g``."""

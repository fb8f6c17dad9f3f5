"""Which layers own a table of value embeddings, and which a gate to read one through."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

Layers = tuple[int, int, int]
"""Blocks of the prelude, the core and the coda."""


class ValueLayers(ABC):
    """Two sets of layers, numbered through prelude, core and coda with the core unrolled once.

    A layer that is in both reads value embeddings. A table without a gate, or a gate without a
    table, is a parameter that nothing reads and no gradient reaches.
    """

    @abstractmethod
    def tables(self, layers: Layers) -> frozenset[int]:
        """The layers that own a table, "vocabulary width"."""

    @abstractmethod
    def gates(self, layers: Layers) -> frozenset[int]:
        """The layers whose attention owns a gate."""


@final
@dataclass(frozen=True)
class AlignedValues(ValueLayers):
    """Every second layer, the last one included, owns both a table and a gate.

    Example:
        >>> sorted(AlignedValues().tables((1, 1, 1))), sorted(AlignedValues().gates((1, 1, 1)))
        ([0, 2], [0, 2])
    """

    def tables(self, layers: Layers) -> frozenset[int]:
        return _alternate(sum(layers))

    def gates(self, layers: Layers) -> frozenset[int]:
        return _alternate(sum(layers))


@final
@dataclass(frozen=True)
class PublishedValues(ValueLayers):
    r"""The layers of the published code, whose gates depend on how the model was meant to be trained.

    With :math:`P, R, K` layers, a mean of :math:`\mu` loops and :math:`s` loops of gradient, tables
    stand at the layers :math:`i` with the parity of :math:`P + R + K - 1`, while gates have the parity of
    :math:`R s - 1` and are counted with the core unrolled :math:`\mu` times. At an even :math:`R` and
    even :math:`P` and :math:`K` the two agree, and equal ``AlignedValues``. At one layer each they do not: the
    table of the prelude has no gate and the gate of the core no table, so that both lie idle.

    Args:
        mean_steps: :math:`\mu`, 8 as published; its parity alone matters.
        grad_steps: :math:`s`, 4 as published; its parity alone matters.

    Example:
        >>> sorted(PublishedValues().tables((1, 1, 1))), sorted(PublishedValues().gates((1, 1, 1)))
        ([0, 2], [1, 2])
    """

    mean_steps: int = 8
    grad_steps: int = 4

    def tables(self, layers: Layers) -> frozenset[int]:
        return _alternate(sum(layers))

    def gates(self, layers: Layers) -> frozenset[int]:
        prelude, core, _ = layers
        parity = (core * self.grad_steps - 1) % 2
        unrolled = core * (self.mean_steps - 1)  # what the published code adds to the number of a layer of the coda
        return frozenset(
            layer
            for layer in range(sum(layers))
            if (layer if layer < prelude + core else layer + unrolled) % 2 == parity
        )


def _alternate(count: int) -> frozenset[int]:
    return frozenset(range(count - 1, -1, -2))

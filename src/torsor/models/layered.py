"""Tokens through a list of layers that carry states: the model that M²RNN and every hybrid is."""

from abc import ABC
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.layers.norm import RMSNorm
from torsor.layers.sequence_block import SequenceBlock
from torsor.layers.sequence_layer import LayerState, SequenceLayer, require_packed
from torsor.models.requirements import require_sizes, require_tokens

ModelState = tuple[LayerState, ...]
"""The state of every layer, in order."""


def hidden_of(width: int) -> int:
    """The inner width of the position-wise layers by default: 8/3 of the width, up to a multiple of 64."""
    return -(-8 * width // (3 * 64)) * 64


class LayeredModel(nn.Module, ABC):
    r"""An embedding, a pre-norm block around every layer of a list, a norm, and a matrix to the logits.

    With a width :math:`d`, a vocabulary of :math:`V`, :math:`C` classes, :math:`L` layers and an inner width
    :math:`h` there are :math:`(V + C + 1) d + L (2 d + 3 d h)` parameters and those of the layers. The readout is
    not tied to the embedding; there are no positions and no biases. Matrices and the embedding start
    normal of size ``std``, the last ones of the blocks smaller by :math:`\sqrt{2 L}`.

    Args:
        vocabulary: number of tokens.
        mixers: the layers in order, all of one width; they come with their own initial values.
        classes: number of logits; None for the vocabulary's.
        hidden: of the position-wise layers; 0 for ``hidden_of(width)``.
        std: size of the initial values.
        generator: of the initial values.

    Raises:
        ValueError: when there is no layer, their widths differ, one stands twice, or a size is below 1.
    """

    def __init__(
        self,
        vocabulary: int,
        mixers: Sequence[SequenceLayer],
        classes: int | None,
        hidden: int,
        std: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = sorted({mixer.width for mixer in mixers})
        if len(widths) != 1:
            raise ValueError(f"mixers must be layers of one width, at least one, got widths {widths}")
        if len({id(mixer) for mixer in mixers}) < len(mixers):
            raise ValueError("mixers must be different layers, got one twice")
        self.width: int = widths[0]
        self.vocabulary = vocabulary
        self.classes: int = vocabulary if classes is None else classes
        hidden = hidden or hidden_of(self.width)
        require_sizes(vocabulary=vocabulary, classes=self.classes, hidden=hidden)
        self.embedding: nn.Embedding = nn.Embedding(vocabulary, self.width)
        self.blocks: nn.ModuleList = nn.ModuleList([SequenceBlock(mixer, hidden) for mixer in mixers])
        self.norm: RMSNorm = RMSNorm(self.width)
        self.readout: nn.Linear = nn.Linear(self.width, self.classes, bias=False)
        with torch.no_grad():
            self.embedding.weight.normal_(std=std, generator=generator)
            self.readout.weight.normal_(std=std, generator=generator)
            for block in self._blocks():
                block.reset_parameters(std, len(mixers), generator)

    @final
    def initial_state(self, batch: int) -> ModelState:
        """The state of every layer before the first token."""
        return tuple(block.initial_state(batch) for block in self._blocks())

    @final
    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        state: ModelState | None = None,
        cu_seqlens: Int[Tensor, "boundaries"] | None = None,
    ) -> tuple[Float[Tensor, "batch length classes"], ModelState]:
        """Logits at every position, and the state of every layer after the last token.

        Args:
            tokens: integers below the vocabulary.
            state: the state before the first token; None for the initial one.
            cu_seqlens: where sequences of different lengths are laid end to end in a batch of one, the boundaries
                between them, rising from 0 to the length. Each is then read as if it were alone, and the states
                before and after are of as many sequences.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty, the state is not one of this model,
                or the boundaries are none or come to a layer that cannot keep sequences apart.
        """
        require_tokens(tokens, self.vocabulary)
        sequences = tokens.shape[0] if cu_seqlens is None else require_packed(tokens, cu_seqlens)
        before = self.initial_state(sequences) if state is None else state
        if len(before) != len(self.blocks):
            raise ValueError(f"state must hold that of {len(self.blocks)} layers, got {len(before)}")
        x, after = self.embedding(tokens), []
        for block, each in zip(self._blocks(), before, strict=True):
            x, now = block(x, each, cu_seqlens)
            after.append(now)
        return self.readout(self.norm(x)), tuple(after)

    @final
    def step(
        self, tokens: Int[Tensor, "batch"], state: ModelState | None = None
    ) -> tuple[Float[Tensor, "batch classes"], ModelState]:
        """Read one more token of every sequence.

        Raises:
            ValueError: as in ``forward``.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        logits, state = self.forward(tokens[:, None], state)
        return logits[:, 0], state

    def _blocks(self) -> list[SequenceBlock]:
        return [block for block in self.blocks if isinstance(block, SequenceBlock)]

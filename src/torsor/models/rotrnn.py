"""A recurrent network of RotRNN blocks."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from torsor.layers.full_precision import normal
from torsor.layers.rotrnn_block import RotRNNBlock, RotRNNBlockKind
from torsor.models.requirements import require_sizes, require_state, require_tokens


@final
class RotRNN(nn.Module):
    r"""Tokens embedded, blocks whose states turn and fade from token to token, and a matrix with bias to the logits.

    With a width of :math:`w`, a vocabulary of :math:`V`, :math:`K` classes and :math:`L` blocks of :math:`H`
    heads and a state of :math:`X` there are :math:`V w + L (2 X w + w^2 + 4 w + H + X^2 / 2H) + K (w + 1)`
    parameters, and :math:`L X w` more both ways. The embedding starts normal of size 1, the readout
    normal of size :math:`1 / \sqrt{w}` with bias zero (both inferred). The memory of a step does not grow.

    Guarantees, each a test in ``tests/claims/test_rotrnn.py``:

    * causal: a token changes no logits before it, unless the blocks read both ways;
    * it runs at lengths it was never trained at;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one;
    * the number of parameters is the one above;
    * cast to half precision, rates, angles, bases and states stay in float32.

    Args:
        vocabulary: number of tokens that are read.
        width: of the residual stream.
        heads: :math:`H`, rates of each block.
        layers: :math:`L`, number of blocks.
        dim: :math:`X`, of the state of each block, a multiple of ``2 * heads``; 0 stands for ``width``.
        classes: number of logits; None for the vocabulary.
        block: ``RotRNNBlock`` or a ``partial`` of it, such as ``partial(RotRNNBlock, bidirectional=True)``.
        seed: of the initial values.

    Raises:
        ValueError: when a size is below 1, or ``dim`` is not a multiple of ``2 * heads``.

    Reference:
        "RotRNN: Modelling Long Sequences with Rotations"; ``docs/papers.md`` says what is certain and inferred.

    Example:
        >>> logits, state = RotRNN(vocabulary=5, width=8, heads=2)(torch.tensor([[0, 3, 1]]))
        >>> logits.shape, state.shape
        (torch.Size([1, 3, 5]), torch.Size([1, 2, 8]))
    """

    def __init__(
        self,
        vocabulary: int,
        width: int,
        heads: int = 4,
        *,
        layers: int = 2,
        dim: int = 0,
        classes: int | None = None,
        block: RotRNNBlockKind = RotRNNBlock,
        seed: int = 0,
    ) -> None:
        super().__init__()
        classes = vocabulary if classes is None else classes
        require_sizes(vocabulary=vocabulary, width=width, heads=heads, layers=layers, classes=classes)
        generator = torch.Generator().manual_seed(seed)
        self.vocabulary = vocabulary
        self.dim: int = dim or width
        self.embedding: nn.Embedding = nn.Embedding(vocabulary, width)
        blocks = [block(width, self.dim, heads, generator=generator) for _ in range(layers)]
        self.bidirectional: bool = any(each.bidirectional for each in blocks)
        self.blocks: nn.ModuleList = nn.ModuleList(blocks)
        self.readout: nn.Linear = nn.Linear(width, classes)
        with torch.no_grad():
            self.embedding.weight.copy_(normal(1.0, vocabulary, width, generator=generator))
            self.readout.weight.copy_(normal(width**-0.5, classes, width, generator=generator))
            self.readout.bias.zero_()

    def initial_state(self, batch: int) -> Float[Tensor, "batch layers dim"]:
        """Zeros, for every block."""
        return torch.stack([state for block in self._blocks() for state in block.initial_state(batch)], dim=1)

    def forward(
        self, tokens: Int[Tensor, "batch length"], state: Float[Tensor, "batch layers dim"] | None = None
    ) -> tuple[Float[Tensor, "batch length classes"], Float[Tensor, "batch layers dim"]]:
        """Logits at every position, and the state of every block after the last.

        Args:
            tokens: integers below the vocabulary.
            state: the states before the first token; None for zeros.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty; when the state has another
                shape or type than ``initial_state``, or is given to blocks that read both ways.
        """
        require_tokens(tokens, self.vocabulary)
        if state is not None:
            initial = self.initial_state(tokens.shape[0])
            require_state([state], [tuple(initial.shape)], initial.dtype)
        before = [None] * len(self.blocks) if state is None else [(each,) for each in state.unbind(1)]
        x, after = self.embedding(tokens), []
        for block, start in zip(self._blocks(), before, strict=True):
            x, (last,) = block(x, start)
            after.append(last)
        return self.readout(x), torch.stack(after, dim=1)

    def step(
        self, tokens: Int[Tensor, "batch"], state: Float[Tensor, "batch layers dim"] | None = None
    ) -> tuple[Float[Tensor, "batch classes"], Float[Tensor, "batch layers dim"]]:
        """Read one more token of every sequence.

        Raises:
            ValueError: as in ``forward``, or when blocks read both ways.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        if self.bidirectional:
            raise ValueError("step needs blocks that read one way, got blocks that read both ways")
        logits, state = self.forward(tokens[:, None], state)
        return logits[:, 0], state

    def _blocks(self) -> list[RotRNNBlock]:
        return [each for each in self.blocks if isinstance(each, RotRNNBlock)]

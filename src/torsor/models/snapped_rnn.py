"""A recurrent network whose state snaps to the nearest of a learned finite set after every token."""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from torsor.layers.code_moves import CodeMoves
from torsor.models.requirements import require_state, require_tokens


@final
class SnappedRNN(nn.Module):
    r"""Move the state by the letter, answer by its nearness to every code, and go on from the nearest.

    .. math::

        \text{logit}_j = \beta \langle c_j, m_{x_t}(s_{t-1}) \rangle, \qquad s_t = c_{\arg\max_j \text{logit}_j},
        \qquad s_0 = c_0

    Codes, start, moves and :math:`\beta` are learned, and nothing else is there. The state is a code, bit for
    bit, in training too: the scores of all moves are one table, computed once in a forward pass from the
    parameters alone, and a word walks through it. So a model of :math:`N` codes is a finite automaton
    whose every transition can be checked (``torsor.tracking.prove_closure``). No gradient passes through the state:
    each position teaches the one cell of the table that it has used, and an early error makes later ones, so
    short words come first.

    The last token of the vocabulary begins a word: the state is the start after it, whatever it was, and the
    logits there are 0.

    Guarantees, each a test in ``tests/laws/test_snapped_laws.py``:

    * the state is bitwise a code or the start;
    * causal, and a batch equals its sequences alone, and a sequence in pieces the sequence in one, all bit for bit;
    * after the begin token nothing is left of what came before;
    * the gradient reaches every parameter.

    Args:
        moves: the codes, one for each class, and how letters move them.

    Example:
        >>> from torsor.layers import FreeMoves
        >>> logits, state = SnappedRNN(FreeMoves(codes=6, letters=2, dim=4))(torch.tensor([[2, 0, 1]]))
        >>> logits.shape, state.shape
        (torch.Size([1, 3, 6]), torch.Size([1, 4]))
    """

    def __init__(self, moves: CodeMoves) -> None:
        super().__init__()
        self.moves = moves
        self.vocabulary: int = moves.letters + 1
        self.classes: int = moves.count

    def initial_state(self, batch: int) -> Float[Tensor, "batch numbers"]:
        """The start, once for each sequence."""
        return self.moves.codes()[-1].detach().expand(batch, -1)

    def forward(
        self, tokens: Int[Tensor, "batch length"], state: Float[Tensor, "batch numbers"] | None = None
    ) -> tuple[Float[Tensor, "batch length classes"], Float[Tensor, "batch numbers"]]:
        """Logits at every position, and the state after the last one.

        Args:
            tokens: integers below the vocabulary.
            state: what the piece before returned; None for the start.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty, or the state is not of codes.
        """
        require_tokens(tokens, self.vocabulary)
        scores, codes = self.moves.scores(), self.moves.codes().detach()
        if state is None:
            place = torch.full((tokens.shape[0],), self.classes, device=codes.device)
        else:
            place = _places(state, codes, tokens.shape[0])
        table = torch.cat([scores, scores.new_zeros(self.classes + 1, 1, self.classes)], dim=1)
        following = table.detach().argmax(-1)
        following[:, -1] = self.classes
        following, cells = following.flatten(), []
        for token in tokens.long().unbind(1):
            cell = place * self.vocabulary + token
            cells.append(cell)
            place = following[cell]
        return embedding(torch.stack(cells, dim=1), table.flatten(0, 1)), codes[place]

    def step(
        self, tokens: Int[Tensor, "batch"], state: Float[Tensor, "batch numbers"] | None = None
    ) -> tuple[Float[Tensor, "batch classes"], Float[Tensor, "batch numbers"]]:
        """Read one more token of every sequence.

        Raises:
            ValueError: as in ``forward``.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        logits, state = self.forward(tokens[:, None], state)
        return logits[:, 0], state


def _places(state: Tensor, codes: Float[Tensor, "codes numbers"], batch: int) -> Int[Tensor, "batch"]:
    """Which code each state is.

    Raises:
        ValueError: when it has another shape or type, or is none of them.
    """
    require_state([state], [(batch, codes.shape[1])], codes.dtype)
    same = (state[:, None] == codes).all(-1)
    if not same.any(-1).all():
        raise ValueError(f"state must be of this model's codes, got {int((~same.any(-1)).sum())} that are none of them")
    return same.int().argmax(-1)

"""A recurrent network whose state is an element of a group."""

from typing import final

import torch
from jaxtyping import Float, Inexact, Int
from torch import Tensor, nn
from torch.nn.functional import embedding

from torsor.groups import MatrixGroup, kept_near
from torsor.layers.full_precision import normal
from torsor.layers.group_table import GroupTable
from torsor.layers.mixing import LinearMixing, Mixing, MixingKind
from torsor.layers.recurrent_move import RecurrentMove, move_to_token
from torsor.layers.trace_readout import TraceReadout
from torsor.models.requirements import require_sizes, require_state, require_tokens
from torsor.transitions.base import Float32Island

POLISH_BEYOND = 5e-5  # of |H* H - I|: far beyond what a training window or a glance at one reaches in float32
CHECK_EVERY = 256  # tokens of one call


@final
class GroupRNN(Float32Island):
    r"""Carry a state on a group through time by moves along tangents, and read it out by similarity.

    .. math::

        H_t = H_{t-1} \exp(\text{mix}(\Pi(H_{t-1}^* M_{x_t}), E_{x_t})), \qquad H_0 = I, \qquad
        \text{logit}_v = \operatorname{Re} \operatorname{tr}(P_v^* H_t) + b_v

    Each token has an element :math:`M_x` of the group and a drive :math:`E_x` in its algebra. With
    :math:`r` and :math:`k` as in ``GroupTransformer`` there are :math:`V (2 r + 1) + V k` parameters where the
    classes are the vocabulary, :math:`V (r + k) + C (r + 1)` where they are :math:`C` others, and
    :math:`k^2` more with ``LinearMixing`` or 1 more with ``BCHMixing``. The memory of a step does not grow.

    Parameters stay in float32 or float64 when the model is cast to half precision, and autocast is off
    inside, since half precision would leave the group.

    Roundings add up: in float32 the entries of :math:`H^* H - I` grow by some :math:`10^{-8}` with every token, to
    :math:`10^{-3}` over 100,000 (``torsor bench drift``). So a state that is handed over, and every 256
    tokens of a call the state, is looked at, and where it has left the group by more than ``polish_beyond`` it is
    polished. A window of some hundred tokens from :math:`H_0` never is: its numbers are those without.

    Guarantees, each a test in ``tests/laws/test_group_model_laws.py``:

    * the state stays on the group over 256 tokens: by ``move_to_token`` in the component where it was, by
      ``move_from_token`` in that of the last token;
    * causal: a token changes no logits before it;
    * a batch equals its sequences alone;
    * a sequence in pieces or token by token equals the sequence in one, its state bit for bit until one is polished;
    * in float32 the entries of :math:`H^* H - I` stay below 1e-4, however long the sequence;
    * a logit differs from its bias by ``group.dim`` at most;
    * moving the initial state and all elements and prototypes by one element from the left changes no logits
      of ``move_to_token`` and ``move_from_token``;
    * the number of parameters is the one above, for every group and mixing.

    Args:
        group: that the state lies on.
        vocabulary: number of tokens.
        mixing: what tangents go through: ``IdentityMixing``, ``BCHMixing`` or ``LinearMixing``.
        classes: number of logits; None for the vocabulary's.
        recurrence: how a token moves the state: ``move_to_token``, ``move_from_token``, ``move_then_multiply`` or
            ``move_by_drive``.
        reflected: probability that a token's element, or its prototype, lies in the second component
            of a group that has two. The signs are drawn once; at 0 an orthogonal group is left to rotations.
        seed: of the signs and the initial values; the drives start normal of size 0.1.

    Raises:
        ValueError: when a size is below 1 or ``reflected`` is no probability.

    Reference:
        "Subgroups of U(d) Induce Natural RNN and Transformer Architectures"; ``docs/papers.md`` says
        what is certain and what is inferred.

    Example:
        >>> from torsor.groups import SpecialOrthogonal
        >>> logits, state = GroupRNN(SpecialOrthogonal(4), vocabulary=5)(torch.tensor([[0, 3, 1]]))
        >>> logits.shape, state.shape
        (torch.Size([1, 3, 5]), torch.Size([1, 4, 4]))
    """

    def __init__(
        self,
        group: MatrixGroup,
        vocabulary: int,
        mixing: MixingKind = LinearMixing,
        *,
        classes: int | None = None,
        recurrence: RecurrentMove = move_to_token,
        reflected: float = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__()
        classes = vocabulary if classes is None else classes
        require_sizes(vocabulary=vocabulary, classes=classes)
        generator = torch.Generator().manual_seed(seed)
        self.group = group
        self.vocabulary = vocabulary
        self.recurrence = recurrence
        self.embedding: GroupTable = GroupTable(group, vocabulary, reflected=reflected, generator=generator)
        self.drive: nn.Parameter = nn.Parameter(normal(0.1, vocabulary, group.algebra_dim, generator=generator))
        self.mixing: Mixing = mixing(group, 1, generator)
        self.readout: TraceReadout = TraceReadout(group, classes, reflected=reflected, generator=generator)

    def initial_state(self, batch: int) -> Inexact[Tensor, "batch ..."]:
        """The identity, once for each sequence."""
        drive, group = self.drive, self.group
        identity = group.identity_like(drive.new_zeros(group.shape, dtype=group.element_dtype(drive.dtype)))
        return identity.expand(batch, *group.shape)

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        state: Inexact[Tensor, "batch ..."] | None = None,
        *,
        polish_beyond: float = POLISH_BEYOND,
    ) -> tuple[Float[Tensor, "batch length classes"], Inexact[Tensor, "batch ..."]]:
        """Logits at every position, and the last state.

        Args:
            tokens: integers below the vocabulary.
            state: the state before the first token; None for the identity. One that does not lie on the group
                is not refused.
            polish_beyond: how large an entry of :math:`|H^* H - I|` may grow before a state is polished; infinite
                for never.

        Raises:
            ValueError: when tokens are out of range, of another type, or empty, or the state has
                another shape or type than ``initial_state``.
        """
        require_tokens(tokens, self.vocabulary)
        state = self._start(state, tokens.shape[0], polish_beyond)
        inputs = zip(self.embedding(tokens).unbind(1), embedding(tokens, self.drive).unbind(1), strict=True)
        states = []
        for number, (token, drive) in enumerate(inputs, 1):
            state = self.recurrence(self.group, self.mixing, state, token, drive)
            if number % CHECK_EVERY == 0:
                state = kept_near(self.group, state, polish_beyond)
            states.append(state)
        return self.readout(torch.stack(states, dim=1)), state

    def step(
        self,
        tokens: Int[Tensor, "batch"],
        state: Inexact[Tensor, "batch ..."] | None = None,
        *,
        polish_beyond: float = POLISH_BEYOND,
    ) -> tuple[Float[Tensor, "batch classes"], Inexact[Tensor, "batch ..."]]:
        """Read one more token of every sequence.

        Raises:
            ValueError: as in ``forward``.
        """
        require_tokens(tokens, self.vocabulary, ("batch",))
        logits, state = self.forward(tokens[:, None], state, polish_beyond=polish_beyond)
        return logits[:, 0], state

    def _start(self, state: Tensor | None, batch: int, polish_beyond: float) -> Tensor:
        initial = self.initial_state(batch)
        if state is None:
            return initial
        require_state([state], [tuple(initial.shape)], initial.dtype)
        return kept_near(self.group, state, polish_beyond)

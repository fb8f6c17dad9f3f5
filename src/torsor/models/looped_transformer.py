"""A transformer whose core is applied again and again, its residual carried between loops by a transition."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from torsor.layers.block import Stack
from torsor.layers.initialisation import initialise_, orthogonal_, published_std
from torsor.layers.norm import RMSNorm
from torsor.layers.rotary import rotary_table
from torsor.models.requirements import require_tokens, require_transition
from torsor.recurrence.loop import Steps, loop, require_steps
from torsor.transitions import Transition


@final
class Prelude(nn.Module):
    r"""Tokens in, the embedding :math:`e` that every loop is given out: blocks over an embedding, then a norm.

    Args:
        embedding: of the tokens, "vocabulary width".
        blocks: the stack over it.
    """

    def __init__(self, embedding: nn.Embedding, blocks: Stack) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = blocks
        self.norm: RMSNorm = RMSNorm(embedding.embedding_dim)

    def forward(self, tokens: Int[Tensor, "batch length"], rotary: Tensor) -> Float[Tensor, "batch length width"]:
        return self.norm(self.blocks(self.embedding(tokens), rotary, self.blocks.values(tokens)))


@final
class Coda(nn.Module):
    r"""The last state in, the vector to read out: a matrix :math:`C`, blocks, then a norm.

    Args:
        width: of the state.
        blocks: the stack after the matrix.
    """

    def __init__(self, width: int, blocks: Stack) -> None:
        super().__init__()
        self.enter: nn.Linear = nn.Linear(width, width, bias=False)
        self.blocks = blocks
        self.norm: RMSNorm = RMSNorm(width)

    def forward(
        self,
        x: Float[Tensor, "batch length width"],
        rotary: Tensor,
        values: Sequence[Float[Tensor, "batch length width"]] = (),
    ) -> Float[Tensor, "batch length width"]:
        return self.norm(self.blocks(self.enter(x), rotary, values))


@final
class LoopedTransformer(nn.Module):
    r"""Prelude, a core applied ``steps`` times, coda and readout, in the published Parcae layout.

    .. math::

        e = \text{prelude}(\text{tokens}), \qquad u_t = M x_t + \bar B (B e), \qquad x_{t+1} = \text{core}(u_t),
        \qquad \text{logits} = \text{readout}(\text{coda}(x_T))

    The transition builds :math:`M` and :math:`\bar B` once in a forward pass. Injection comes first
    and the core second; there is no norm and no further residual around the core. Where blocks read
    value embeddings, those of the core are looked up once and read again at every loop.

    Guarantees, each a test in ``tests/laws/test_model_laws.py``:

    * causal: a token changes no logits before it;
    * it runs at lengths and depths it was never trained at;
    * several depths read out in one pass equal separate passes;
    * a depth per sequence equals that sequence alone at its depth, and costs no more;
    * at the initial values a block is the identity, so that the loop is linear and equals its
      closed form;
    * zero gradient reaches the steps before the last ``grad_steps``;
    * recomputing the loops gives the same logits and gradients, and keeps fewer numbers for the backward pass;
    * under autocast to bfloat16 the state stays in float32, and the map is the one outside of it.

    Args:
        prelude: tokens to the embedding that is injected.
        transition: what carries the state; its ``dim`` is the width.
        core: the blocks of one loop.
        coda: the last state to the vector that is read out.
        readout: that vector to logits, "width" to "classes".
        grad_steps: let the gradient through the last ``grad_steps`` loops alone; None lets it
            through all.
        recompute: whether the backward pass computes each loop again, from its first state, in place
            of keeping what is inside it: less memory for about a third more time.

    Raises:
        ValueError: when the widths of the parts differ, or the vocabulary of a table of value embeddings.

    Reference:
        "Parcae" and "Rotate the Loop"; ``docs/papers.md`` says what is certain and what is inferred.
    """

    def __init__(
        self,
        prelude: Prelude,
        transition: Transition,
        core: Stack,
        coda: Coda,
        readout: nn.Module,
        *,
        grad_steps: int | None = None,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        require_transition(transition)
        width = prelude.embedding.embedding_dim
        _require_width(transition, width)
        if coda.enter.in_features != width:
            raise ValueError(f"the coda's width must be that of the embedding = {width}, got {coda.enter.in_features}")
        if grad_steps is not None and grad_steps < 1:
            raise ValueError(f"grad_steps must be at least 1 or None, got {grad_steps}")
        for table in (*prelude.blocks.tables(), *core.tables(), *coda.blocks.tables()):
            if table.weight.shape != prelude.embedding.weight.shape:
                raise ValueError(
                    "a table of value embeddings must have the embedding's shape "
                    f"{tuple(prelude.embedding.weight.shape)}, got {tuple(table.weight.shape)}"
                )
        self.prelude = prelude
        self.transition = transition
        self.inject: nn.Linear = nn.Linear(width, width, bias=False)
        self.core = core
        self.coda = coda
        self.readout = readout
        self.grad_steps = grad_steps
        self.recompute = recompute
        self.width = width
        self.vocabulary: int = prelude.embedding.num_embeddings
        self.head_dim: int = _head_dim(width, prelude.blocks, core, coda.blocks)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Give every weight its published initial value; the transition keeps its own."""
        initialise_(self, self.width, generator)
        nn.init.eye_(self.inject.weight)
        orthogonal_(self.coda.enter.weight, published_std(self.width), generator)

    def with_transition(self, transition: Transition) -> "LoopedTransformer":
        """A copy of this model in which another transition carries the state: the way to go on from trained weights.

        Args:
            transition: as wide as this model's. It shares nothing with the one it replaces, so its
                own initial values count.

        Returns:
            The copy; this model is left as it was.

        Raises:
            ValueError: when the transition's ``dim`` is not the width.
        """
        _require_width(transition, self.width)
        copy = deepcopy(self)
        copy.transition = transition
        return copy

    def forward(
        self,
        tokens: Int[Tensor, "batch length"],
        steps: Steps,
        initial_state: Literal["zeros", "noise"] | Tensor = "zeros",
        generator: torch.Generator | None = None,
    ) -> Float[Tensor, "*depths batch length classes"]:
        r"""Logits after ``steps`` loops.

        Args:
            tokens: integers below the vocabulary.
            steps: an int of at least 1; a tuple of ints asks for the logits at each of these depths
                from one pass, on a new first axis; an integer tensor "batch" is a depth per sequence.
            initial_state: "zeros"; "noise", truncated normal of size :math:`\sqrt{2/5d}`, as
                published; or a tensor "batch length width".
            generator: of the noise; None takes torch's global one.

        Returns:
            "batch length classes", or "depths batch length classes" for a tuple.

        Raises:
            ValueError: when tokens are out of range or empty, or ``steps`` or ``initial_state`` is
                not one of the above.
        """
        require_tokens(tokens, self.vocabulary)
        require_steps(steps, tokens.shape[0])
        weight = self.inject.weight
        rotary = rotary_table(tokens.shape[1], self.head_dim, device=tokens.device, dtype=weight.dtype)
        embedding = self.prelude(tokens, rotary)
        carry = self.transition()
        write = self.transition.input_map()(self.inject(embedding))
        state = self._initial_state(initial_state, write, generator)

        def step(state: Tensor, write: Tensor, *values: Tensor) -> Tensor:
            # the carry is in float32 at least; a core of narrower weights reads it in their type
            return self.core((carry(state) + write).to(weight.dtype), rotary, values)

        if self.recompute and torch.is_grad_enabled():
            step = partial(checkpoint, step, use_reentrant=False, preserve_rng_state=False)  # nothing in it is random
        several = isinstance(steps, tuple)
        # the truncation belongs to training at one depth; several depths are an evaluation
        grad_steps = None if several else self.grad_steps
        states = loop(step, state, steps, grad_steps, given=(write, *self.core.values(tokens)))
        values = self.coda.blocks.values(tokens)
        if not several:
            return self.readout(self.coda(states, rotary, values))
        return torch.stack([self.readout(self.coda(each, rotary, values)) for each in states])

    def _initial_state(
        self, initial_state: Literal["zeros", "noise"] | Tensor, like: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        if isinstance(initial_state, Tensor):
            if initial_state.shape != like.shape:
                raise ValueError(f"initial_state must have shape {tuple(like.shape)}, got {tuple(initial_state.shape)}")
            return initial_state.to(like.dtype)
        if initial_state == "zeros":
            return torch.zeros_like(like)
        if initial_state != "noise":
            raise ValueError(f"initial_state must be 'zeros', 'noise' or a tensor, got {initial_state!r}")
        std = published_std(self.width)
        noise = torch.empty_like(like, requires_grad=False)
        return nn.init.trunc_normal_(noise, std=std, a=-3 * std, b=3 * std, generator=generator)


def _require_width(transition: Transition, width: int) -> None:
    if transition.dim != width:
        raise ValueError(f"the transition's dim must be the width of the embedding = {width}, got {transition.dim}")


def _head_dim(width: int, *stacks: Stack) -> int:
    heads = {heads for stack in stacks for heads in stack.heads}
    if len(heads) > 1:
        raise ValueError(f"all blocks must have one number of heads, got {sorted(heads)}")
    return width // heads.pop() if heads else width

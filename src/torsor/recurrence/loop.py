"""Carry a state through steps of depth: the same input at every step, the number of steps chosen by the caller."""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from torsor.kinds import shown

Step = Callable[..., Tensor]
"""``step(state, *given)``, one step of depth."""
Steps = int | tuple[int, ...] | Tensor


def loop(
    step: Step,
    state: Float[Tensor, "batch *rest"],
    steps: Steps,
    grad_steps: int | None = None,
    *,
    given: Sequence[Shaped[Tensor, "batch ..."]] = (),
) -> Float[Tensor, "..."]:
    r"""Apply ``step`` to a state again and again: :math:`x_{t+1} = f(x_t)`, and return the state after ``steps``.

    Guarantees, each a test in ``tests/laws/test_recurrence_laws.py``:

    * a loop is a scan over a constant input;
    * a linear loop is a geometric series: from zero, :math:`x \mapsto M x + w` gives
      :math:`\sum_{t<n} M^t w`;
    * several depths read out in one pass equal separate passes;
    * a depth per sequence equals each sequence alone, in its state and in its gradient;
    * with a depth per sequence, a sequence that has ended is not computed any more: a batch costs
      the sum of its depths, not its size times the largest.

    Args:
        step: one step of depth, ``step(state, *given)``. It must treat the sequences of a batch
            independently of each other. With a depth per sequence it is called for those that have
            not ended, longest first: what it reads of a sequence besides the state must be in
            ``given``, and only what all sequences share may come from elsewhere.
        state: the state before the first step.
        steps: an integer of at least 1; or a tuple of such, which asks for the state after each of
            them, stacked on a new first axis in the order given; or an integer tensor "batch", a
            depth for each sequence.
        grad_steps: let the gradient through the last ``grad_steps`` steps alone (of each sequence);
            None lets it through all. The states before are computed without a graph. It goes with
            one depth, or one per sequence, not with a tuple.
        given: what ``step`` reads of each sequence at every step.

    Returns:
        The last state, or the stacked states for a tuple.

    Raises:
        ValueError: when a number of steps is below 1 or not an integer, a tuple is empty, a tensor
            has another shape than "batch", ``grad_steps`` is below 1 or stands beside a tuple, or
            ``step`` gives states of other sequences than it was called for.
    """
    require_steps(steps, state.shape[0])
    if grad_steps is not None and (isinstance(grad_steps, bool) or grad_steps < 1):
        raise ValueError(f"grad_steps must be at least 1 or None, got {grad_steps}")
    if isinstance(steps, tuple):
        if grad_steps is not None:
            raise ValueError(f"grad_steps goes with one depth, got steps = {steps}")
        return _read_out(step, state, steps, given)
    if isinstance(steps, Tensor):
        return _per_sequence(step, state, steps, grad_steps, given)
    free = 0 if grad_steps is None else max(steps - grad_steps, 0)
    with torch.no_grad():
        for _ in range(free):
            state = step(state, *given)
    for _ in range(steps - free):
        state = step(state, *given)
    return state


def require_steps(steps: Steps, batch: int) -> None:
    """Refuse what is not a number of steps, several, or one for each sequence of a batch.

    Raises:
        ValueError: as described at ``loop``.
    """
    if isinstance(steps, Tensor):
        if steps.is_floating_point() or steps.is_complex() or steps.dtype == torch.bool or steps.shape != (batch,):
            raise ValueError(
                f"steps as a tensor must hold one integer for each of {batch} sequences, "
                f"got {str(steps.dtype).removeprefix('torch.')} of shape {tuple(steps.shape)}"
            )
        if batch and int(steps.min()) < 1:
            raise ValueError(f"steps must be at least 1, got {int(steps.min())}")
        return
    if isinstance(steps, list):
        raise ValueError(
            f"steps must be an integer of at least 1, or a tuple of such, got a list: {shown(tuple(steps))}?"
        )
    several = steps if isinstance(steps, tuple) else (steps,)
    if not several:
        raise ValueError("steps must name at least one depth, got an empty tuple")
    for each in several:
        if isinstance(each, bool) or not isinstance(each, int) or each < 1:
            raise ValueError(f"steps must be an integer of at least 1, or a tuple of such, got {shown(each)}")


def _read_out(step: Step, state: Tensor, steps: tuple[int, ...], given: Sequence[Tensor]) -> Tensor:
    wanted = set(steps)
    found = {}
    for depth in range(1, max(steps) + 1):
        state = step(state, *given)
        if depth in wanted:
            found[depth] = state
    return torch.stack([found[depth] for depth in steps])


def _per_sequence(step: Step, state: Tensor, steps: Tensor, grad_steps: int | None, given: Sequence[Tensor]) -> Tensor:
    """Equal to ``_per_sequence_reference``; the longest come first, so that those not yet ended are a prefix."""
    order = steps.argsort(descending=True, stable=True).to(state.device)
    depths = sorted(steps.tolist(), reverse=True)
    counted = depths if grad_steps is None else [min(depth, grad_steps) for depth in depths]
    free = [depth - gradient for depth, gradient in zip(depths, counted, strict=True)]
    state, given = state[order], [each[order] for each in given]
    moving = _longer_than(0, free)
    if moving:
        with torch.no_grad():
            moved = _shrinking(step, state[:moving], free[:moving], [each[:moving] for each in given])
        # a sequence without a free step stays outside, and keeps the gradient of its first state
        state = torch.cat([moved, state[moving:]])
    return _shrinking(step, state, counted, given)[order.argsort()]


def _shrinking(step: Step, state: Tensor, counts: list[int], given: Sequence[Tensor]) -> Tensor:
    """Step every sequence as often as its count, which fall along the batch."""
    ended = []
    for depth in range(counts[0] if counts else 0):
        running = _longer_than(depth, counts)
        if running < state.shape[0]:
            state, last = state.split([running, state.shape[0] - running])
            ended.append(last)
            given = [each[:running] for each in given]
        following = step(state, *given)
        if following.shape != state.shape:
            raise ValueError(
                f"step must give a state for each of the {running} sequences it is called for, {tuple(state.shape)}, "
                f"and read all else of a sequence from given; got {tuple(following.shape)}"
            )
        state = following
    return torch.cat([state, *reversed(ended)]) if ended else state


def _longer_than(depth: int, counts: list[int]) -> int:
    """How many of the falling counts exceed a depth."""
    return bisect_left(counts, -depth, key=lambda count: -count)


def _per_sequence_reference(  # pyright: ignore[reportUnusedFunction] - what tests compare the fast form with
    step: Step, state: Tensor, steps: Tensor, grad_steps: int | None, given: Sequence[Tensor]
) -> Tensor:
    """The masked form: every sequence is computed to the largest depth, and frozen at its own."""
    counted = steps if grad_steps is None else steps.clamp(max=grad_steps)
    free = steps - counted
    shape = (-1,) + (1,) * (state.ndim - 1)
    with torch.no_grad():
        moved = state
        for depth in range(int(free.max())):
            moved = torch.where((depth < free).view(shape), step(moved, *given), moved)
    state = torch.where((free > 0).view(shape), moved, state)
    for depth in range(int(counted.max())):
        state = torch.where((depth < counted).view(shape), step(state, *given), state)
    return state

"""Carry a state through steps of depth: the same input at every step, the number of steps chosen by the caller."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

Step = Callable[[Tensor], Tensor]
Steps = int | tuple[int, ...] | Tensor


def loop(
    step: Step, state: Float[Tensor, "batch *rest"], steps: Steps, grad_steps: int | None = None
) -> Float[Tensor, "..."]:
    r"""Apply ``step`` to a state again and again: :math:`x_{t+1} = f(x_t)`, and return the state after ``steps``.

    Guarantees, each a test in ``tests/laws/test_recurrence_laws.py``:

    * a loop is a scan over a constant input;
    * a linear loop is a geometric series: from zero, :math:`x \mapsto M x + w` gives
      :math:`\sum_{t<n} M^t w`;
    * several depths read out in one pass equal separate passes;
    * a depth per sequence equals each sequence alone.

    Args:
        step: one step of depth. It must treat the sequences of a batch independently of each other.
        state: the state before the first step.
        steps: an integer of at least 1; or a tuple of such, which asks for the state after each of
            them, stacked on a new first axis in the order given; or an integer tensor "batch", a
            depth for each sequence.
        grad_steps: let the gradient through the last ``grad_steps`` steps alone (of each sequence);
            None lets it through all. The states before are computed without a graph. It goes with
            one depth, or one per sequence, not with a tuple.

    Returns:
        The last state, or the stacked states for a tuple.

    Raises:
        ValueError: when a number of steps is below 1 or not an integer, a tuple is empty, a tensor
            has another shape than "batch", or ``grad_steps`` is below 1 or stands beside a tuple.
    """
    require_steps(steps, state.shape[0])
    if grad_steps is not None and (isinstance(grad_steps, bool) or grad_steps < 1):
        raise ValueError(f"grad_steps must be at least 1 or None, got {grad_steps}")
    if isinstance(steps, tuple):
        if grad_steps is not None:
            raise ValueError(f"grad_steps goes with one depth, got steps = {steps}")
        return _read_out(step, state, steps)
    if isinstance(steps, Tensor):
        return _per_sequence(step, state, steps, grad_steps)
    free = 0 if grad_steps is None else max(steps - grad_steps, 0)
    with torch.no_grad():
        for _ in range(free):
            state = step(state)
    for _ in range(steps - free):
        state = step(state)
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
    several = steps if isinstance(steps, tuple) else (steps,)
    if not several:
        raise ValueError("steps must name at least one depth, got an empty tuple")
    for each in several:
        if isinstance(each, bool) or not isinstance(each, int) or each < 1:
            raise ValueError(f"steps must be an integer of at least 1, got {each!r}")


def _read_out(step: Step, state: Tensor, steps: tuple[int, ...]) -> Tensor:
    wanted = set(steps)
    found = {}
    for depth in range(1, max(steps) + 1):
        state = step(state)
        if depth in wanted:
            found[depth] = state
    return torch.stack([found[depth] for depth in steps])


def _per_sequence(step: Step, state: Tensor, steps: Tensor, grad_steps: int | None) -> Tensor:
    """The masked form: every sequence is computed to the largest depth, and frozen at its own."""
    counted = steps if grad_steps is None else steps.clamp(max=grad_steps)
    free = steps - counted
    shape = (-1,) + (1,) * (state.ndim - 1)
    with torch.no_grad():
        for depth in range(int(free.max())):
            state = torch.where((depth < free).view(shape), step(state), state)
    for depth in range(int(counted.max())):
        state = torch.where((depth < counted).view(shape), step(state), state)
    return state

"""Two passes over chunks of time that run side by side: the parallel form of a scan whose steps are linear."""

from collections.abc import Callable, Iterator
from typing import Any, final

import torch
from jaxtyping import Inexact
from torch import Tensor

from torsor.derivatives import without_derivative

# Measured on a CPU. Numbers that one operation works on: they stay in a core's second-level cache.
ELEMENTS = 1 << 16
WIDEST = 1 << 11  # with more numbers to a token, steps one by one fill the operations and save the first pass
SHORTEST, LONGEST = 8, 32  # tokens of a chunk
FEWEST = 8  # chunks, or there is one, of at most so many tokens:
WALK = 1 << 10
# Elsewhere an operation has a price of its own, and what it works on lies in no cache.
LARGE = 1 << 24


@final
class LinearScan(torch.autograd.Function):
    r"""Every state of :math:`x_t = \lambda_t x_{t-1} + u_t`, elementwise; its backward pass is the same scan, reversed.

    The multiplier is a scale, or :math:`\lambda = c e^{i\theta}` with an angle. With the gradient :math:`g_t` of
    the states, :math:`r_t = g_t + \bar\lambda_{t+1} r_{t+1}` is the gradient of :math:`u_t`, and
    :math:`r_t \bar x_{t-1}` that of :math:`\lambda_t`. Kept are the scale, the angle and the states. What scans is
    ``carry``: ``carry_through``, or the kernel of the same signature.
    """

    @staticmethod
    def forward(
        ctx: Any,
        carry: Callable[..., Tensor],
        scale: Tensor,
        angle: Tensor | None,
        multiplier: Tensor,
        inputs: Tensor,
        state: Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.carry = carry
        states = torch.empty_like(inputs, memory_format=torch.contiguous_format)
        last = carry(_widened(multiplier), inputs, state, states, backwards=False)
        ctx.save_for_backward(scale, angle, state, states)
        ctx.set_materialize_grads(False)
        return states, last.clone()

    @staticmethod
    @without_derivative("linear_scan")
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        grad, grad_last = grads
        scale, angle, state, states = ctx.saved_tensors
        if grad is None:
            grad = torch.zeros_like(states)
        unit = None if angle is None else torch.complex(angle.cos(), -angle.sin())
        adjoint = scale if unit is None else scale * unit
        received = torch.empty_like(states)
        received[:, -1] = grad[:, -1] if grad_last is None else grad[:, -1] + grad_last
        later, first = (adjoint, adjoint) if adjoint.ndim == 1 else (adjoint[:, 1:], adjoint[:, 0])
        ctx.carry(_widened(later), grad[:, :-1], received[:, -1], received[:, :-1], backwards=True)
        of_scale = of_angle = None
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            of_scale, of_angle = _grads_of_multiplier(unit, adjoint, state, states, received)
        of_state = first * received[:, 0] if ctx.needs_input_grad[5] else None
        return None, of_scale, of_angle, None, received, of_state


def carry_through(
    multiplier: Inexact[Tensor, "..."],
    inputs: Inexact[Tensor, "batch length lanes"],
    state: Inexact[Tensor, "batch lanes"],
    states: Inexact[Tensor, "batch length lanes"],
    *,
    backwards: bool,
) -> Inexact[Tensor, "batch lanes"]:
    """Write every state into ``states`` and return the last.

    A piece of the sequence is cut into chunks of equal size. The first pass finds what each chunk adds
    to a state that starts at zero; carrying those from chunk to chunk is a shorter scan, and gives the
    state that each chunk starts from; the second pass walks through all chunks again, from there. Every
    multiplier is applied as it stands or inside a product of at most a chunk: nothing is divided.

    Args:
        multiplier: "lanes", one for all tokens, in double precision; or "batch length lanes", one for each.
        inputs: what is added.
        state: the one before the first input.
        states: where to write.
        backwards: walk from the last token to the first.
    """
    length, lanes = inputs.shape[1:]
    step = multiplier.to(inputs.dtype)
    done = 0
    for chunks, size in _pieces(length, inputs.shape[0] * lanes):
        span = chunks * size
        where = slice(length - done - span, length - done) if backwards else slice(done, done + span)
        done += span
        added, written = (_along_chunks(x[:, where], chunks, size, backwards) for x in (inputs, states))
        by = [step] * size if step.ndim == 1 else _along_chunks(step[:, where], chunks, size, backwards)
        before = state[:, None]
        if chunks > 1:
            first_pass = _first_pass_backwards if backwards else _first_pass
            total, product = first_pass(by, added, multiplier)
            ends = total.new_empty(total.shape[0], chunks + 1, lanes)  # and the state before them
            before, after = (ends[:, 1:], ends[:, :-1]) if backwards else (ends[:, :-1], ends[:, 1:])
            ends[:, -1 if backwards else 0] = state
            carry_through(product, total, state, after, backwards=backwards)
        for factor, new, here in zip(by, added, written, strict=True):
            torch.addcmul(new, factor, before, out=here)
            before = here
        state = before[:, 0 if backwards else -1]
    return state


def _pieces(length: int, lanes: int) -> Iterator[tuple[int, int]]:
    """Cut a length into pieces: how many chunks, and of how many tokens."""
    most = ELEMENTS // lanes if lanes <= WIDEST else 0
    while length:
        size = SHORTEST
        while size < LONGEST and size * most < length:
            size *= 2
        chunks = min(most, length // size)
        if chunks < FEWEST:
            chunks, size = 1, min(length, WALK)
        yield chunks, size
        length -= chunks * size


def _along_chunks(x: Tensor, chunks: int, size: int, backwards: bool) -> list[Tensor]:
    """The first token of every chunk, the second of every chunk, and so on."""
    slices = list(x.unflatten(1, (chunks, size)).unbind(2))
    return slices[::-1] if backwards else slices


def _first_pass(by: list[Tensor], added: list[Tensor], multiplier: Tensor) -> tuple[Tensor, Tensor]:
    """What every chunk adds to a state that starts at zero, and what it multiplies a state by."""
    total = added[0].clone(memory_format=torch.contiguous_format)
    for factor, new in zip(by[1:], added[1:], strict=True):
        torch.addcmul(new, factor, total, out=total)
    if multiplier.ndim == 1:
        return total, powers(multiplier, len(by))[-1]
    product = by[0].clone(memory_format=torch.contiguous_format)
    for factor in by[1:]:
        product.mul_(factor)
    return total, product


def _first_pass_backwards(by: list[Tensor], added: list[Tensor], multiplier: Tensor) -> tuple[Tensor, Tensor]:
    """Equal to ``_first_pass``, from the end of the walk to its start: up the memory, which is faster than down."""
    total = added[-1].clone(memory_format=torch.contiguous_format)
    if multiplier.ndim == 1:
        each = powers(multiplier, len(by))
        for power, new in zip(each.to(total.dtype).unbind(0), added[-2::-1], strict=False):
            total.addcmul_(power, new)
        return total, each[-1]
    product = by[-1].clone(memory_format=torch.contiguous_format)
    for factor, new in zip(by[-2::-1], added[-2::-1], strict=True):
        total.addcmul_(product, new)
        product.mul_(factor)
    return total, product


def powers(multiplier: Tensor, count: int) -> Tensor:
    """The first, second and so on power of a multiplier, "count lanes"."""
    return multiplier.expand(count, -1).cumprod(0)


def _widened(multiplier: Tensor) -> Tensor:
    """A shared multiplier in double precision, so that its powers carry no rounding of their own."""
    if multiplier.ndim > 1:
        return multiplier
    return multiplier.to(torch.complex128 if multiplier.is_complex() else torch.float64)


def _grads_of_multiplier(
    unit: Tensor | None, adjoint: Tensor, state: Tensor, states: Tensor, received: Tensor
) -> tuple[Tensor, Tensor | None]:
    batch, length, lanes = states.shape
    block = max(1, (ELEMENTS if states.device.type == "cpu" else LARGE) // (batch * lanes))
    if adjoint.ndim == 1:
        total = (received[:, 0] * state.conj()).sum(0)
        for start in range(1, length, block):
            total += _products(states, received, start, min(start + block, length)).sum((0, 1))
        return _of_scale_and_angle(total, unit, adjoint)
    of_scale = received.new_empty(received.shape, dtype=received.dtype.to_real())
    of_angle = None if unit is None else torch.empty_like(of_scale)
    for start in range(0, length, block):
        end = min(start + block, length)
        product = _products(states, received, max(start, 1), end)
        if start == 0:
            product = torch.cat([(received[:, 0] * state.conj())[:, None], product], dim=1)
        here = slice(start, end)
        scales, angles = _of_scale_and_angle(product, None if unit is None else unit[:, here], adjoint[:, here])
        of_scale[:, here] = scales
        if of_angle is not None and angles is not None:
            of_angle[:, here] = angles
    return of_scale, of_angle


def _products(states: Tensor, received: Tensor, start: int, end: int) -> Tensor:
    """What a run of tokens, the first excepted, adds to the gradient of the multiplier."""
    return received[:, start:end] * states[:, start - 1 : end - 1].conj()


def _of_scale_and_angle(product: Tensor, unit: Tensor | None, adjoint: Tensor) -> tuple[Tensor, Tensor | None]:
    if unit is None:
        return product, None
    return (unit * product).real, (adjoint * product).imag

"""Two passes over chunks of time that run side by side: the parallel form of a scan whose steps are linear."""

from collections.abc import Iterator
from typing import Any, final

import torch
from jaxtyping import Inexact
from torch import Tensor
from torch.autograd.function import once_differentiable

# Measured on a CPU. Numbers that one operation works on: they stay in a core's second-level cache.
ELEMENTS = 1 << 16
WIDEST = 1 << 11  # with more numbers to a token, steps one by one fill the operations and save the first pass
SHORTEST, LONGEST = 8, 32  # tokens of a chunk
FEWEST = 8  # chunks, or there is one, of at most so many tokens:
WALK = 1 << 10


@final
class LinearScan(torch.autograd.Function):
    r"""Every state of :math:`x_t = \lambda_t x_{t-1} + u_t`, elementwise; its backward pass is the same scan, reversed.

    With the gradient :math:`g_t` of the states, :math:`r_t = g_t + \bar\lambda_{t+1} r_{t+1}` is the gradient
    of :math:`u_t`, and :math:`r_t \bar x_{t-1}` that of :math:`\lambda_t`. The states are all that is kept.
    """

    @staticmethod
    def forward(ctx: Any, multiplier: Tensor, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        states = torch.empty_like(inputs, memory_format=torch.contiguous_format)
        last = carry_through(_widened(multiplier), inputs, state, states, backwards=False)
        ctx.save_for_backward(multiplier, state, states)
        ctx.set_materialize_grads(False)
        return states, last.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        grad, grad_last = grads
        multiplier, state, states = ctx.saved_tensors
        if grad is None:
            grad = torch.zeros_like(states)
        received = torch.empty_like(states)
        received[:, -1] = grad[:, -1] if grad_last is None else grad[:, -1] + grad_last
        adjoint = multiplier.conj().resolve_conj()
        later = adjoint if adjoint.ndim == 1 else adjoint[:, 1:]
        carry_through(_widened(later), grad[:, :-1], received[:, -1], received[:, :-1], backwards=True)
        first = adjoint if adjoint.ndim == 1 else adjoint[:, 0]
        return (
            _grad_multiplier(multiplier, state, states, received) if ctx.needs_input_grad[0] else None,
            received if ctx.needs_input_grad[1] else None,
            first * received[:, 0] if ctx.needs_input_grad[2] else None,
        )


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
        return total, _powers(multiplier, len(by))[-1]
    product = by[0].clone(memory_format=torch.contiguous_format)
    for factor in by[1:]:
        product.mul_(factor)
    return total, product


def _first_pass_backwards(by: list[Tensor], added: list[Tensor], multiplier: Tensor) -> tuple[Tensor, Tensor]:
    """Equal to ``_first_pass``, from the end of the walk to its start: up the memory, which is faster than down."""
    total = added[-1].clone(memory_format=torch.contiguous_format)
    if multiplier.ndim == 1:
        powers = _powers(multiplier, len(by))
        for power, new in zip(powers.to(total.dtype).unbind(0), added[-2::-1], strict=False):
            total.addcmul_(power, new)
        return total, powers[-1]
    product = by[-1].clone(memory_format=torch.contiguous_format)
    for factor, new in zip(by[-2::-1], added[-2::-1], strict=True):
        total.addcmul_(product, new)
        product.mul_(factor)
    return total, product


def _powers(multiplier: Tensor, count: int) -> Tensor:
    return multiplier.expand(count, -1).cumprod(0)


def _widened(multiplier: Tensor) -> Tensor:
    """A shared multiplier in double precision, so that its powers carry no rounding of their own."""
    if multiplier.ndim > 1:
        return multiplier
    return multiplier.to(torch.complex128 if multiplier.is_complex() else torch.float64)


def _grad_multiplier(multiplier: Tensor, state: Tensor, states: Tensor, received: Tensor) -> Tensor:
    batch, length, lanes = states.shape
    first = received[:, 0] * state.conj()
    shared = multiplier.ndim == 1
    grad = first.sum(0) if shared else torch.empty_like(states)
    if not shared:
        grad[:, 0] = first
    block = max(1, ELEMENTS // (batch * lanes))
    for start in range(1, length, block):
        end = min(start + block, length)
        product = received[:, start:end] * states[:, start - 1 : end - 1].conj()
        if shared:
            grad += product.sum((0, 1))
        else:
            grad[:, start:end] = product
    return grad

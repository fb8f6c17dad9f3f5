"""The scan of a linear recurrence in a kernel of Triton: chunks of time side by side, planes as pairs of reals."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from torsor.recurrence.linear_scan_passes import powers

CHUNK = 64  # tokens that a program walks through
LANES = 128  # most lanes that it walks with


def carry_through(multiplier: Tensor, inputs: Tensor, state: Tensor, states: Tensor, *, backwards: bool) -> Tensor:
    """Equal to ``linear_scan_passes.carry_through``, and in two passes as well; both are one kernel.

    The first finds what every chunk but the last adds to a state that starts at zero. Those are scanned by this
    function again. The second walks through all chunks, from the states that this gives.
    """
    batch, length, lanes = inputs.shape
    if not length:
        return state
    step, chunks = multiplier.to(inputs.dtype), triton.cdiv(length, CHUNK)
    starts = torch.empty(batch, chunks, lanes, dtype=state.dtype, device=state.device)
    starts[:, 0] = state
    if chunks > 1:
        total = torch.empty_like(starts[:, 1:], memory_format=torch.contiguous_format)
        product = torch.empty_like(total) if step.ndim > 1 else None
        _walk_through(step, inputs, None, total, product, backwards)
        by = powers(multiplier, CHUNK)[-1] if product is None else product
        carry_through(by, total, state, starts[:, 1:], backwards=False)
    _walk_through(step, inputs, starts, states, None, backwards)
    return states[:, 0 if backwards else -1]


def _walk_through(
    step: Tensor, inputs: Tensor, starts: Tensor | None, found: Tensor, product: Tensor | None, backwards: bool
) -> None:
    """Walk through chunks from ``starts`` and write every state; or from zero, and write where each chunk ends."""
    batch, length, lanes = inputs.shape
    chunks = (found if starts is None else starts).shape[1]
    options = {
        "size": CHUNK,
        "block": min(LANES, triton.next_power_of_2(lanes)),
        "turns": inputs.is_complex(),
        "own": step.ndim > 1,
        "ends": starts is None,
        "enable_fp_fusion": True,
    }
    where = [
        *_real(step, backwards),
        *_real(inputs, backwards),
        *_real(found, backwards and starts is not None),  # the chunks are in the order of the walk
        *(None if each is None else _real(each)[0] for each in (starts, product)),
    ]
    grid = batch * chunks, triton.cdiv(lanes, options["block"])
    with torch.cuda.device_of(inputs):
        _walk[grid](*where, length, chunks, lanes, **options)  # pyright: ignore[reportCallIssue]


def _real(x: Tensor, backwards: bool = False) -> tuple[Tensor, int, int]:
    """A tensor that starts at the first token of the walk, and how many real numbers its rows and tokens lie apart."""
    x = x.resolve_conj().resolve_neg()
    if x.shape[-1] > 1 and x.stride(-1) != 1:
        x = x.contiguous()
    parts = 2 if x.is_complex() else 1
    row, token = (parts * each for each in x.stride()[:-1]) if x.ndim > 1 else (0, 0)
    x = x[:, -1] if backwards and x.ndim > 1 else x
    return torch.view_as_real(x) if x.is_complex() else x, row, -token if backwards else token


@triton.jit
@no_type_check  # a checker of shapes must leave it alone: Triton reads its source
def _walk(
    step_at,
    step_row,
    step_token,
    inputs_at,
    inputs_row,
    inputs_token,
    found_at,
    found_row,
    found_token,
    starts_at,
    product_at,
    length,
    chunks,
    lanes,
    size: tl.constexpr,
    block: tl.constexpr,
    turns: tl.constexpr,
    own: tl.constexpr,
    ends: tl.constexpr,
):
    """One chunk of one sequence, with a block of lanes: planes as complex numbers where it turns, or coordinates."""
    place = tl.program_id(0).to(tl.int64)  # wide, since what follows counts the numbers of whole tensors
    row, chunk = place // chunks, place % chunks
    lane = tl.program_id(1) * block + tl.arange(0, block)
    inside = lane < lanes
    first = chunk * size
    steps = tl.minimum(size, length - first).to(tl.int32)
    parts = 2 if turns else 1
    cell = lane * parts
    inputs_at += row * inputs_row + first * inputs_token + cell
    step_at += cell
    if own:
        step_at += row * step_row + first * step_token
    else:
        by = tl.load(step_at, mask=inside, other=0)
        if turns:
            turn = tl.load(step_at + 1, mask=inside, other=0)
    if ends:
        found_at += row * found_row + chunk * found_token + cell
        x = tl.zeros([block], dtype=inputs_at.dtype.element_ty)
        y = x
        product, turned = x + 1, x
    else:
        found_at += row * found_row + first * found_token + cell
        x = tl.load(starts_at + place * lanes * parts + cell, mask=inside, other=0)
        if turns:
            y = tl.load(starts_at + place * lanes * parts + cell + 1, mask=inside, other=0)
    for _ in range(steps):
        if own:
            by = tl.load(step_at, mask=inside, other=0)
            if turns:
                turn = tl.load(step_at + 1, mask=inside, other=0)
            step_at += step_token
        new = tl.load(inputs_at, mask=inside, other=0)
        if turns:
            new_y = tl.load(inputs_at + 1, mask=inside, other=0)
            moved = by * x - turn * y + new
            y = by * y + turn * x + new_y
            x = moved
            if ends and own:
                moved = by * product - turn * turned
                turned = by * turned + turn * product
                product = moved
        else:
            x = by * x + new
            if ends and own:
                product = by * product
        inputs_at += inputs_token
        if not ends:
            tl.store(found_at, x, mask=inside)
            if turns:
                tl.store(found_at + 1, y, mask=inside)
            found_at += found_token
    if ends:
        tl.store(found_at, x, mask=inside)
        if turns:
            tl.store(found_at + 1, y, mask=inside)
        if own:
            product_at += place * lanes * parts + cell
            tl.store(product_at, product, mask=inside)
            if turns:
                tl.store(product_at + 1, turned, mask=inside)

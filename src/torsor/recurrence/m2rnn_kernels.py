"""The two kernels of the M²RNN recurrence, in Triton: one carries a state forward, one its gradient back."""

from typing import no_type_check  # a checker of shapes must leave kernels alone: Triton reads their source

import triton
import triton.language as tl


@triton.jit
@no_type_check
def _tanh(x):
    """By a quotient of polynomials near zero, where 1 - exp(-2x) would lose what is small, and by it further out.

    The quotient is the seventh approximant of Lambert's continued fraction, right to 2e-16 up to a half.
    """
    y = x * x
    above = x * (((y + 378) * y + 17325) * y + 135135)
    near = above / (((28 * y + 3150) * y + 62370) * y + 135135)
    size = tl.abs(x)
    falling = tl.exp(-2 * size)
    far = (1 - falling) / (1 + falling)
    return tl.where(size < 0.5, near, tl.where(x < 0, -far, far))


@triton.jit
@no_type_check
def _clipped(x, bound: tl.constexpr):
    return tl.where(x > bound, bound, tl.where(x < -bound, -bound, x))  # what is no number stays


@triton.jit
@no_type_check
def advance(
    q_at,
    k_at,
    v_at,
    weight_at,
    forget_at,
    state_at,
    outputs_at,
    states_at,
    last_at,
    begin,
    steps,
    every,
    length,
    heads,
    of_q,
    of_k,
    of_v,
    of_weight,
    of_forget,
    key_dim: tl.constexpr,
    value_dim: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    reads: tl.constexpr,
    keeps: tl.constexpr,
    ends: tl.constexpr,
):
    """Carry a state through some steps; sequences and heads along the first axis of the grid, rows along the other."""
    place = tl.program_id(0).to(tl.int64)  # wide, since what follows counts the numbers of whole tensors
    sequence, head, tile = place // heads, place % heads, tl.program_id(1)
    row, column = tile * rows + tl.arange(0, rows), tl.arange(0, columns)
    in_key, in_value = row < key_dim, column < value_dim
    inside = in_key[:, None] & in_value[None, :]
    cell = row[:, None] * value_dim + column[None, :]
    size = key_dim * value_dim
    token = sequence * length + begin
    k_at += (token * (heads // of_k) + head // of_k) * key_dim
    v_at += (token * (heads // of_v) + head // of_v) * value_dim
    forget_at += token * (heads // of_forget) + head // of_forget
    if reads:
        q_at += (token * (heads // of_q) + head // of_q) * key_dim
        sequences = tl.num_programs(0) // heads
        outputs_at += ((tile * sequences * length + token) * heads + head) * value_dim
    weight, _ = _weight_and_turned(weight_at, head // of_weight, value_dim, columns)
    state = tl.load(state_at + place * size + cell, mask=inside, other=0)
    for step in range(steps):
        if keeps and step % every == 0:
            tl.store(states_at + (step // every * tl.num_programs(0) + place) * size + cell, state, mask=inside)
        key = tl.load(k_at + row, mask=in_key, other=0)
        value = tl.load(v_at + column, mask=in_value, other=0)
        gate = tl.load(forget_at)
        state = gate * state + (1 - gate) * _proposed(state, weight, key, value)
        k_at += heads // of_k * key_dim
        v_at += heads // of_v * value_dim
        forget_at += heads // of_forget
        if reads:
            query = tl.load(q_at + row, mask=in_key, other=0)
            tl.store(outputs_at + column, tl.sum(state * query[:, None], 0), mask=in_value)
            q_at += heads // of_q * key_dim
            outputs_at += heads * value_dim
    if ends:
        tl.store(last_at + place * size + cell, state, mask=inside)


@triton.jit
@no_type_check
def sweep(
    q_at,
    k_at,
    v_at,
    weight_at,
    forget_at,
    states_at,
    read_at,
    carry_at,
    into_weight_at,
    into_q_at,
    into_k_at,
    into_v_at,
    into_forget_at,
    begin,
    steps,
    length,
    heads,
    of_q,
    of_k,
    of_v,
    of_weight,
    of_forget,
    key_dim: tl.constexpr,
    value_dim: tl.constexpr,
    rows: tl.constexpr,
    columns: tl.constexpr,
    bound: tl.constexpr,
    carry_alone: tl.constexpr,
):
    """Carry the gradient of a state back through some steps, in the same grid; each head has gradients of its own."""
    place = tl.program_id(0).to(tl.int64)
    sequence, head, tile = place // heads, place % heads, tl.program_id(1)
    row, column = tile * rows + tl.arange(0, rows), tl.arange(0, columns)
    in_key, in_value = row < key_dim, column < value_dim
    inside = in_key[:, None] & in_value[None, :]
    cell = row[:, None] * value_dim + column[None, :]
    size = key_dim * value_dim
    weight, turned = _weight_and_turned(weight_at, head // of_weight, value_dim, columns)
    square = column[:, None] * value_dim + column[None, :]
    in_square = in_value[:, None] & in_value[None, :]
    into_weight_at += (tile * tl.num_programs(0) + place) * value_dim * value_dim + square
    into_weight = tl.load(into_weight_at, mask=in_square, other=0)
    carry = tl.load(carry_at + place * size + cell, mask=inside, other=0)
    for back in range(steps):
        step = steps - 1 - back
        token = sequence * length + begin + step
        query = tl.load(q_at + (token * (heads // of_q) + head // of_q) * key_dim + row, mask=in_key, other=0)
        key = tl.load(k_at + (token * (heads // of_k) + head // of_k) * key_dim + row, mask=in_key, other=0)
        value = tl.load(v_at + (token * (heads // of_v) + head // of_v) * value_dim + column, mask=in_value, other=0)
        gate = tl.load(forget_at + token * (heads // of_forget) + head // of_forget)
        read = tl.load(read_at + (token * heads + head) * value_dim + column, mask=in_value, other=0)
        before = tl.load(states_at + (step * tl.num_programs(0) + place) * size + cell, mask=inside, other=0)
        proposed = _proposed(before, weight, key, value)
        after = gate * before + (1 - gate) * proposed
        if bound is not None and carry_alone:
            carry = _clipped(carry, bound)
        carry += query[:, None] * read[None, :]
        if bound is not None and not carry_alone:
            carry = _clipped(carry, bound)
        into_product = carry * (1 - gate) * (1 - proposed * proposed)
        own = (sequence * steps + step) * heads + head
        tiled = tile * (tl.num_programs(0) // heads) * steps * heads + own
        tl.store(into_q_at + own * key_dim + row, tl.sum(after * read[None, :], 1), mask=in_key)
        tl.store(into_k_at + own * key_dim + row, tl.sum(into_product * value[None, :], 1), mask=in_key)
        tl.store(into_v_at + tiled * value_dim + column, tl.sum(into_product * key[:, None], 0), mask=in_value)
        tl.store(into_forget_at + tiled, tl.sum(tl.sum(carry * (before - proposed), 1), 0))
        into_weight += tl.dot(tl.trans(before), into_product, input_precision="ieee", out_dtype=before.dtype)
        carry = gate * carry + tl.dot(into_product, turned, input_precision="ieee", out_dtype=before.dtype)
    tl.store(carry_at + place * size + cell, carry, mask=inside)
    tl.store(into_weight_at, into_weight, mask=in_square)


@triton.jit
@no_type_check
def _proposed(state, weight, key, value):
    product = tl.dot(state, weight, input_precision="ieee", out_dtype=state.dtype)  # not rounded for the tensor cores
    return _tanh(product + key[:, None] * value[None, :])


@triton.jit
@no_type_check
def _weight_and_turned(weight_at, number, value_dim: tl.constexpr, columns: tl.constexpr):
    column = tl.arange(0, columns)
    inside = (column < value_dim)[:, None] & (column < value_dim)[None, :]
    weight_at += number * value_dim * value_dim
    weight = tl.load(weight_at + column[:, None] * value_dim + column[None, :], mask=inside, other=0)
    turned = tl.load(weight_at + column[:, None] + column[None, :] * value_dim, mask=inside, other=0)
    return weight, turned

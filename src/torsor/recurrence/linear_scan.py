"""Carry a state through time by a linear map of planes or coordinates, many tokens at once."""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Inexact
from torch import Tensor

from torsor.maps import Diagonal, LinearMap, ScaledRotation
from torsor.maps.scaled_rotation import _as_complex
from torsor.recurrence.kernels import kernels_serve
from torsor.recurrence.linear_scan_passes import LinearScan, carry_through


def linear_scan(
    carry: LinearMap, inputs: Float[Tensor, "batch length dim"], state: Float[Tensor, "batch dim"] | None = None
) -> tuple[Float[Tensor, "batch length dim"], Float[Tensor, "batch dim"]]:
    r"""Every state of :math:`x_t = M_t x_{t-1} + u_t`, where the map turns and scales planes, or scales coordinates.

    A map without batch axes is shared by all tokens, and never written out for each. A map with the axes
    "batch length" is each token's own, for a recurrence that depends on its input. On a GPU a kernel of Triton
    scans, where ``docs/kernels.md`` says so.

    Guarantees, each a test in ``tests/laws/test_linear_scan_laws.py``:

    * the fast scan is the slow scan, ``linear_scan_reference``, in its outputs and in all gradients;
    * the state hands over between the pieces of a sequence;
    * causal: an input changes no state before it, not by one bit;
    * it is finite for every scale from 0 to 1 and every finite angle, since nothing is divided;
    * the work grows as the length, in few operations: fewer than 150 for 4,096 tokens of 512 coordinates
      in the batch;
    * for its gradient it keeps the map, the first state and the states, which are returned in any case (a
      second time where planes do not lie in adjacent coordinates);
    * float64 stays float64; inputs in half precision are computed, and returned, in the type of the map.

    Not guaranteed: equality bit for bit between a sequence and its pieces, or between a batch and its
    sequences alone. A derivative of the gradient is refused.

    Args:
        carry: a ``ScaledRotation`` whose scales lie in [0, 1], or a ``Diagonal`` whose values lie in
            [-1, 1]: a scale in (0, 1) may have rounded to either end. Leading axes must broadcast to
            "batch length".
        inputs: :math:`u_1, \dots, u_n`, in the type of the map or in half precision.
        state: :math:`x_0`, in the type of the map; zeros by default.

    Returns:
        The states :math:`x_1, \dots, x_n` and the last of them, in the type of the map.

    Raises:
        ValueError: when the map is of another kind, has scales out of range, angles that are not finite, or
            other leading axes; when there is no input; or when shapes or types do not fit.

    Example:
        >>> states, last = linear_scan(Diagonal(torch.tensor([0.5])), torch.ones(1, 3, 1))
        >>> states.flatten().tolist()
        [1.0, 1.5, 1.75]
    """
    multiplier = _multiplier(carry)
    dtype = multiplier.dtype.to_real()
    _require_fit(carry, inputs, state, dtype)
    _require_range(carry)
    shared = multiplier.shape[:-1].numel() == 1

    def spread(each: Tensor) -> Tensor:
        return each.flatten() if shared else each.expand(*inputs.shape[:2], -1)

    scale, angle = (carry.scale, spread(carry.angle)) if isinstance(carry, ScaledRotation) else (multiplier, None)
    inputs = inputs.to(dtype)
    first = inputs.new_zeros(inputs.shape[0], carry.dim) if state is None else state
    lanes = _lanes(carry, inputs), _lanes(carry, first)
    # the multiplier is not differentiated: its own graph would keep the sines, the cosines and their products
    states, last = LinearScan.apply(_pass_for(inputs), spread(scale), angle, spread(multiplier.detach()), *lanes)
    return _coordinates(carry, states), _coordinates(carry, last)


def linear_scan_reference(
    carry: LinearMap, inputs: Float[Tensor, "batch length dim"], state: Float[Tensor, "batch dim"] | None = None
) -> tuple[Float[Tensor, "batch length dim"], Float[Tensor, "batch dim"]]:
    """The definition, one step after the other, in operations that autograd follows."""
    dtype = _multiplier(carry).dtype.to_real()
    state = inputs.new_zeros(inputs.shape[0], carry.dim, dtype=dtype) if state is None else state
    states = []
    for each, new in zip(_maps(carry, inputs), inputs.to(dtype).unbind(1), strict=True):
        state = each(state) + new
        states.append(state)
    return torch.stack(states, dim=1), state


def _pass_for(inputs: Tensor) -> Callable[..., Tensor]:
    if not kernels_serve(inputs):
        return carry_through
    from torsor.recurrence import linear_scan_triton  # here, since it imports Triton, which is optional

    return linear_scan_triton.carry_through


def _maps(carry: LinearMap, inputs: Tensor) -> list[LinearMap]:
    """The map of every token."""
    batch, length = inputs.shape[:2]
    if _multiplier(carry).ndim == 1:
        return [carry] * length
    if isinstance(carry, ScaledRotation):
        own = (each.expand(batch, length, -1).unbind(1) for each in (carry.scale, carry.angle))
        return [replace(carry, scale=scale, angle=angle) for scale, angle in zip(*own, strict=True)]
    return [Diagonal(values) for values in _multiplier(carry).expand(batch, length, -1).unbind(1)]


def _multiplier(carry: LinearMap) -> Inexact[Tensor, "*batch lanes"]:
    """What every lane, a plane as a complex number or a coordinate, is multiplied by."""
    if isinstance(carry, ScaledRotation):
        return carry._multiplier
    if isinstance(carry, Diagonal):
        return carry.values
    raise ValueError(f"carry must be a ScaledRotation or a Diagonal, got {type(carry).__name__}")


def _lanes(carry: LinearMap, x: Tensor) -> Tensor:
    if not isinstance(carry, ScaledRotation):
        return x
    if carry.pairing == "half-split":
        x = x.unflatten(-1, (carry.groups, 2, -1)).mT.flatten(-3)
    return _as_complex(x)


def _coordinates(carry: LinearMap, x: Tensor) -> Tensor:
    if not isinstance(carry, ScaledRotation):
        return x
    pairs = torch.view_as_real(x)
    if carry.pairing == "half-split":
        return pairs.unflatten(-2, (carry.groups, -1)).mT.flatten(-3)
    return pairs.flatten(-2)


def _require_fit(carry: LinearMap, inputs: Tensor, state: Tensor | None, dtype: torch.dtype) -> None:
    if inputs.ndim != 3 or inputs.shape[-1] != carry.dim or inputs.numel() == 0:
        raise ValueError(
            f"inputs must have shape (batch, length, dim = {carry.dim}) with at least one token, "
            f"got {tuple(inputs.shape)}"
        )
    if inputs.dtype not in {dtype, torch.bfloat16, torch.float16}:
        raise ValueError(f"inputs must be {_name(dtype)} like carry, or in half precision, got {_name(inputs.dtype)}")
    tokens, own = tuple(inputs.shape[:2]), tuple(_multiplier(carry).shape[:-1])
    if len(own) > 2 or any(size not in {1, wanted} for size, wanted in zip(own[::-1], tokens[::-1], strict=False)):
        raise ValueError(f"carry must have no leading axes, or (batch, length) = {tokens}, got {own}")
    if state is not None and (state.dtype != dtype or state.shape != (inputs.shape[0], carry.dim)):
        raise ValueError(
            f"state must be {_name(dtype)} of shape {(inputs.shape[0], carry.dim)}, "
            f"got {_name(state.dtype)} of {tuple(state.shape)}"
        )


def _require_range(carry: LinearMap) -> None:
    if isinstance(carry, ScaledRotation):
        _require_between("scales", carry.scale, 0, 1)
        largest = torch.finfo(carry.angle.dtype).max
        _require_between("finite angles", carry.angle, -largest, largest)
    else:
        _require_between("values", _multiplier(carry), -1, 1)


def _require_between(what: str, values: Tensor, low: float | int, high: float | int) -> None:
    smallest, largest = (float(bound) for bound in values.detach().aminmax())
    for each in (smallest, largest):
        if not low <= each <= high:  # a bound that is no number is caught too
            limits = "" if what.startswith("finite") else f" in [{low}, {high}]"
            raise ValueError(f"carry must have {what}{limits}, got {each}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

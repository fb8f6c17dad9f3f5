"""The abstract linear map: carry a state, compose, take powers, and be a matrix when asked."""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from torsor.kinds import kind_of
from torsor.tensors import require_tensor


class LinearMap(ABC):
    r"""A linear map :math:`M` of ``dim`` coordinates, as a frozen value without parameters.

    ``m(x)`` carries the last axis of ``x``: it is :math:`M x` on column vectors, and
    ``x @ m.dense().T`` on rows. ``m @ n`` applies ``n`` first. Maps may have leading batch axes,
    which broadcast against those of the state.

    Guarantees, each a law over every registered map in ``tests/laws/test_map_laws.py``:

    * linear: :math:`M(a x + b y) = a M x + b M y`;
    * the fast form equals its dense matrix;
    * composition equals the product of the matrices, for every pair of kinds;
    * :math:`\langle M x, y \rangle = \langle x, M^* y \rangle`;
    * ``m.power(k)`` equals ``k`` applications; its rounding error grows with ``k`` times the angle;
    * ``m.spectrum()`` holds the eigenvalues of the matrix.

    A state in a narrower type than the map is widened to it (a bfloat16 state is carried, and
    returned, in float32), never the reverse. A permutation has no numbers and keeps the state's type.

    Printed, a map is one short line: its tensors by type and shape, and the two numbers of ``_gains``.

    To add a map: a frozen dataclass with the seven abstract members below, ``repr=False`` so that it is printed as
    the others are, and one line in ``tests/cases.py``.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of coordinates of the space that the map acts on."""

    @property
    @abstractmethod
    def blocks(self) -> tuple[slice, ...]:
        """The contiguous blocks of coordinates that the map does not mix, and treats as one each."""

    @abstractmethod
    def adjoint(self) -> "LinearMap":
        r"""The conjugate transpose :math:`M^*`."""

    @abstractmethod
    def dense(self) -> Tensor:
        r"""The matrix :math:`M`, of shape ``(..., dim, dim)``: the oracle of every test."""

    @abstractmethod
    def spectrum(self) -> Complex[Tensor, "*batch dim"]:
        """The eigenvalues with their multiplicity, complex128, in no particular order."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> "LinearMap":
        """The same map with its numbers cast to ``dtype`` (torch.float32 or torch.float64)."""

    @abstractmethod
    def _carry(self, x: Tensor) -> Tensor: ...

    @abstractmethod
    def _compose(self, other: "LinearMap") -> "LinearMap | None":
        """``self @ other`` in a structured form, or None where only the dense form holds it."""

    @abstractmethod
    def _power(self, exponent: int) -> "LinearMap": ...

    def _gains(self) -> tuple[Tensor, Tensor] | None:
        r"""Two numbers for each batch axis, float64 on the CPU, or None where they would cost more than a print may.

        They are :math:`\tfrac1n \log |\det M|` and :math:`\tfrac1n |M|_F^2`, with :math:`n` for ``dim``.
        """
        return None

    @final
    def __repr__(self) -> str:
        r"""One line: the tensors by type and shape, and where they are cheap two numbers.

        The gain :math:`|\det M|^{1/n}` is the geometric mean of the singular values; the norm error :math:`1 -
        |\det M|^{1/n} / (|M|_F / \sqrt n)` is zero exactly where all of them are equal, so where the map scales
        every state alike, and at most 1. Of maps with batch axes the least and the largest.
        """
        told = [f"dim={self.dim}"]
        for name, value in vars(self).items():
            if not name.startswith("_"):
                told.append(f"{name}={_shortly(value) if isinstance(value, Tensor) else repr(value)}")
        with torch.no_grad():
            nowhere = any(isinstance(value, Tensor) and value.is_meta for value in vars(self).values())
            gains = None if nowhere else self._gains()
            if gains is not None:
                gain = gains[0].exp()
                error = (1 - gain / gains[1].sqrt()).clamp(min=0)
                told += [f"gain={_from_to(gain, '.4g')}", f"norm error={_from_to(error, '.1e')}"]
        return f"{type(self).__name__}({', '.join(told)})"

    @final
    def __call__(self, x: Float[Tensor, "*batch dim"]) -> Float[Tensor, "*out dim"]:
        """Carry a state: the map acts on the last axis.

        Raises:
            ValueError: when ``x`` is no real tensor, or its last axis does not have ``dim`` coordinates.
        """
        if not isinstance(x, Tensor) or x.is_complex():
            kind = str(x.dtype).removeprefix("torch.") if isinstance(x, Tensor) else kind_of(x)
            raise ValueError(
                f"the state must be a tensor of real numbers, got {kind}: torch.as_tensor makes one of a list or an "
                "array, and the real and imaginary parts of a complex state are carried one by one"
            )
        if x.ndim < 1 or x.shape[-1] != self.dim:
            raise ValueError(
                f"the last axis of the state must have dim = {self.dim} coordinates, got shape {tuple(x.shape)}"
            )
        return self._carry(x)

    @final
    def __matmul__(self, other: "LinearMap") -> "LinearMap":
        """The map that applies ``other`` first, then this one.

        Two maps of one kind keep their structure where their product has it (two scaled rotations
        must pair the same coordinates); any other pair becomes dense.

        Raises:
            ValueError: when the maps act on spaces of different ``dim``, or ``other`` is no map.
        """
        if not isinstance(other, LinearMap):
            raise ValueError(f"m @ n composes two linear maps, got {kind_of(other)}: a state x is carried by m(x)")
        if other.dim != self.dim:
            raise ValueError(f"maps to compose must share one dim, got {self.dim} and {other.dim}")
        structured = self._compose(other)
        if structured is not None:
            return structured
        from torsor.maps.dense import Dense  # here, since every map may become dense and Dense is a map

        left, right = self.dense(), other.dense()
        wide = torch.promote_types(left.dtype, right.dtype)
        with torch.autocast(left.device.type, enabled=False):
            return Dense(left.to(wide) @ right.to(wide))

    @final
    def __rmatmul__(self, other: object) -> "LinearMap":
        """Refuse ``x @ m``.

        Raises:
            ValueError: always; a state is carried by ``m(x)``.
        """
        raise ValueError(f"m @ n composes two linear maps, got {kind_of(other)}: a state x is carried by m(x)")

    @final
    def power(self, exponent: int) -> "LinearMap":
        r""":math:`M^k` in closed form, for ``exponent`` :math:`k \ge 0`.

        Raises:
            ValueError: when ``exponent`` is negative or not an integer.
        """
        if isinstance(exponent, bool) or not isinstance(exponent, int) or not 0 <= exponent < 2**63:
            raise ValueError(f"exponent must be an integer in 0 .. 2**63 - 1, got {exponent!r}")
        return self._power(exponent)


def _shortly(value: Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"


def _from_to(values: Tensor, form: str) -> str:
    low, high = (f"{float(end):{form}}" for end in values.aminmax()) if values.numel() else ("none", "none")
    return low if low == high else f"{low} to {high}"


def equal_blocks(dim: int, groups: int) -> tuple[slice, ...]:
    """Cut ``dim`` coordinates into ``groups`` contiguous blocks of equal width."""
    width = dim // groups
    return tuple(slice(g * width, (g + 1) * width) for g in range(groups))


def wide_dtype() -> torch.dtype:
    """The type of new rates and angles: PyTorch's default type, but float32 where that is a half precision."""
    return torch.promote_types(torch.get_default_dtype(), torch.float32)


def require_wide(name: str, value: Tensor, axes: int = 0) -> None:
    """Refuse numbers that are not float32 or float64: half precision would break the geometry unseen.

    Raises:
        ValueError: when ``value`` is of any other type, or has fewer axes than ``axes``.
    """
    require_tensor(name, value)
    if value.dtype not in {torch.float32, torch.float64}:
        raise ValueError(f"{name} must be float32 or float64, got {str(value.dtype).removeprefix('torch.')}")
    if value.ndim < axes:
        raise ValueError(f"{name} must have at least one axis, got shape ()")

"""The abstract matrix group: a closed subgroup of the unitary matrices with its Lie algebra."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float, Inexact
from torch import Tensor

from torsor.groups.base import Group
from torsor.groups.precision import REAL, default_real_dtype, full_precision, require_dtype, require_numbers
from torsor.kinds import shown


@dataclass(frozen=True)
class MatrixGroup(Group[Tensor], ABC):
    r"""A closed subgroup :math:`G` of :math:`U(d)` with its Lie algebra; a value without parameters.

    An element is a tensor of type ``element_dtype(...)`` whose last axes are ``shape``; axes before
    them are batches, which broadcast. ``compose(g, h)`` is the matrix product :math:`g h`: states act
    on rows, so that :math:`H \mapsto H \exp(U)` is ``compose(H, exp(U))``, and the inverse is the
    adjoint. All inner products are :math:`\langle X, Y \rangle = \operatorname{Re} \operatorname{tr}(X^* Y)`.

    Guarantees, each a law over every registered group in ``tests/laws/test_matrix_group_laws.py``:

    * the laws of ``Group``;
    * ``project`` is the orthogonal projection onto the algebra: idempotent and self-adjoint, and what
      it takes away is orthogonal to the algebra;
    * ``exp`` and ``cayley`` lead from the algebra into the group, and agree up to second order;
    * coordinates and algebra are one and the same, both ways;
    * ``relative(H, C)`` are the coordinates of the Riemannian gradient of
      :math:`X \mapsto \operatorname{Re} \operatorname{tr}(C^* X)` at :math:`H`, moved to the identity;
    * ``flatten`` keeps the inner product;
    * ``random`` draws by the Haar measure.

    Numbers are float32 or float64 (complex64 or complex128 where the group is complex), and autocast
    is switched off inside. Half precision is refused: it would leave the group, and a complex number
    cast to bfloat16 loses its imaginary part. So parameters are always real (``raw_shape``).

    To add a matrix group: a final class with the members below, and one line in ``tests/cases.py``.

    Args:
        dim: :math:`d`, the width of the space that the group acts on.

    Raises:
        ValueError: when ``dim`` is not an integer, or so small that the algebra has no dimension.
    """

    dim: int

    is_complex: ClassVar[bool]
    smallest_dim: ClassVar[int]

    def __post_init__(self) -> None:
        if isinstance(self.dim, bool) or not isinstance(self.dim, int) or self.dim < self.smallest_dim:
            name, least = type(self).__name__, self.smallest_dim
            raise ValueError(f"dim of {name} must be an integer of at least {least}, got {shown(self.dim)}")

    @property
    @abstractmethod
    def algebra_dim(self) -> int:
        r"""The real dimension :math:`k` of the algebra: how many coordinates a tangent vector has."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The last axes of one element."""

    @property
    @abstractmethod
    def raw_shape(self) -> tuple[int, ...]:
        """The last axes of the unconstrained real numbers that ``element`` makes one element from."""

    @property
    @abstractmethod
    def components(self) -> int:
        """How many connected parts the group has."""

    @property
    @final
    def ambient_dim(self) -> int:
        """The real dimension of the space of matrices that the group lies in."""
        return torch.Size(self.shape).numel() * (2 if self.is_complex else 1)

    @final
    def element_dtype(self, real_dtype: torch.dtype) -> torch.dtype:
        """The type of elements whose real and imaginary parts are ``real_dtype``, float32 or float64."""
        require_dtype("real_dtype", real_dtype, REAL)
        return real_dtype.to_complex() if self.is_complex else real_dtype

    @property
    @final
    def identity(self) -> Tensor:
        """The element that changes nothing, in PyTorch's default type, but float32 where that is a half precision."""
        return self._identity(self.element_dtype(default_real_dtype()), None)

    @final
    def identity_like(self, element: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
        """The identity in the type and on the device of an element."""
        self._require("element", element)
        return self._identity(element.dtype, element.device)

    @final
    def compose(self, g: Inexact[Tensor, "..."], h: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
        self._require("g", g)
        self._require("h", h)
        with full_precision(g):
            return self._compose(g, h)

    @final
    def inverse(self, g: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
        self._require("g", g)
        return self._inverse(g)

    @final
    def project(self, matrix: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
        """The orthogonal projection of any matrix onto the algebra."""
        self._require("matrix", matrix)
        return self._project(matrix)

    @final
    def exp(self, tangent: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
        """The exponential of an element of the algebra, on the component of the identity.

        Raises:
            ValueError: when the numbers are in half precision or, except on a torus, not finite.
        """
        self._require("tangent", tangent)
        with full_precision(tangent):
            return self._exp(tangent)

    @final
    def cayley(self, tangent: Inexact[Tensor, "..."]) -> Inexact[Tensor, "..."]:
        """The Cayley transform :math:`(I - X / 2)^{-1} (I + X / 2)`: half turns are its limit, never reached."""
        self._require("tangent", tangent)
        with full_precision(tangent):
            return self._cayley(tangent)

    @final
    def to_coordinates(self, tangent: Inexact[Tensor, "..."]) -> Float[Tensor, "*batch {self.algebra_dim}"]:
        """The real coordinates of an element of the algebra; of any other matrix those of its projection."""
        self._require("tangent", tangent)
        with full_precision(tangent):
            return self._to_coordinates(tangent)

    @final
    def from_coordinates(self, coordinates: Float[Tensor, "*batch {self.algebra_dim}"]) -> Inexact[Tensor, "..."]:
        """The element of the algebra that has these coordinates."""
        require_numbers("coordinates", coordinates, (self.algebra_dim,))
        with full_precision(coordinates):
            return self._from_coordinates(coordinates)

    @final
    def relative(
        self,
        element: Inexact[Tensor, "..."],
        context: Inexact[Tensor, "..."],
    ) -> Float[Tensor, "*batch {self.algebra_dim}"]:
        r"""The tangent from an element towards a context: the coordinates of ``project``:math:`(H^* C)`.

        Args:
            element: :math:`H`.
            context: :math:`C`, any matrix, such as a mean of elements, which leaves the group.
        """
        self._require("element", element)
        self._require("context", context)
        with full_precision(element):
            return self._to_coordinates(self._compose(self._inverse(element), context))

    @final
    def bracket(
        self, u: Float[Tensor, "*#batch {self.algebra_dim}"], v: Float[Tensor, "*#batch {self.algebra_dim}"]
    ) -> Float[Tensor, "*out {self.algebra_dim}"]:
        """The coordinates of :math:`[X, Y] = X Y - Y X` for the tangents with coordinates ``u`` and ``v``."""
        require_numbers("u", u, (self.algebra_dim,))
        require_numbers("v", v, (self.algebra_dim,))
        with full_precision(u):
            return self._bracket(u, v)

    @final
    def flatten(self, matrix: Inexact[Tensor, "..."]) -> Float[Tensor, "*batch {self.ambient_dim}"]:
        """Any matrix as a real vector of the same inner products."""
        self._require("matrix", matrix)
        axes = len(self.shape)
        if self.is_complex:
            return torch.view_as_real(matrix.resolve_conj()).flatten(-axes - 1)
        return matrix.flatten(-axes)

    @final
    def unflatten(self, vector: Float[Tensor, "*batch {self.ambient_dim}"]) -> Inexact[Tensor, "..."]:
        """The matrix whose ``flatten`` is ``vector``."""
        require_numbers("vector", vector, (self.ambient_dim,))
        if self.is_complex:
            return torch.view_as_complex(vector.unflatten(-1, (*self.shape, 2)).contiguous())
        return vector.unflatten(-1, self.shape)

    @final
    def element(
        self, raw: Float[Tensor, "..."], component: bool | Bool[Tensor, "..."] | None = None
    ) -> Inexact[Tensor, "..."]:
        r"""The element :math:`F^\eta \exp(\Pi(B))` of unconstrained real numbers :math:`B`.

        Args:
            raw: real numbers whose last axes are ``raw_shape``: the matrix itself where the group is
                real, its real and imaginary parts side by side where it is complex, the phases of a torus.
            component: :math:`\eta`, True for the component of determinant -1 of an orthogonal group,
                reached by :math:`F = \operatorname{diag}(-1, 1, \dots, 1)`; one value or one for each
                element. Groups of one component take None or False.

        Raises:
            ValueError: when ``component`` is none of the group's, or the numbers are in half precision or not finite.
        """
        require_numbers("raw", raw, self.raw_shape)
        if self.components == 1 and component is not None and component is not False:
            raise ValueError(f"component must be None, since {self} has only one, got {component}")
        with full_precision(raw):
            connected = self._exp(self._project(self._ambient(raw)))
            if component is None or component is False:
                return connected
            chosen = torch.as_tensor(component, device=raw.device)
            if not ((chosen == 0) | (chosen == 1)).all():
                raise ValueError(f"component must be True or False, for each element or for all, got {component}")
            return self._other_component(connected, chosen)

    @final
    def distance(self, matrix: Inexact[Tensor, "..."]) -> Float[Tensor, "*batch"]:
        r"""How far a matrix is from the group, in float64.

        The Frobenius norm :math:`\lVert H^* H - I \rVert`; for special groups the larger of it and
        :math:`|\det H - 1|`. An element has distance 0 up to rounding.
        """
        self._require("matrix", matrix)
        with full_precision(matrix):
            return self._distance(matrix.to(self.element_dtype(torch.float64)))

    @final
    def random(
        self,
        shape: Sequence[int] = (),
        generator: torch.Generator | None = None,
        dtype: torch.dtype | None = None,
    ) -> Inexact[Tensor, "..."]:
        """Elements drawn independently by the Haar measure.

        Args:
            shape: the batch axes.
            generator: of the draw; it chooses the device, too.
            dtype: of the real and imaginary parts; that of ``identity`` by default.
        """
        kind = self.element_dtype(default_real_dtype() if dtype is None else dtype)
        return self._random(tuple(shape), generator).to(kind)

    @abstractmethod
    def _identity(self, dtype: torch.dtype, device: torch.device | None) -> Tensor: ...

    @abstractmethod
    def _compose(self, g: Tensor, h: Tensor) -> Tensor: ...

    @abstractmethod
    def _inverse(self, g: Tensor) -> Tensor: ...

    @abstractmethod
    def _project(self, matrix: Tensor) -> Tensor: ...

    @abstractmethod
    def _exp(self, tangent: Tensor) -> Tensor: ...

    @abstractmethod
    def _cayley(self, tangent: Tensor) -> Tensor: ...

    @abstractmethod
    def _to_coordinates(self, matrix: Tensor) -> Tensor:
        """Those of the projection of any matrix."""

    @abstractmethod
    def _from_coordinates(self, coordinates: Tensor) -> Tensor: ...

    @abstractmethod
    def _bracket(self, u: Tensor, v: Tensor) -> Tensor: ...

    @abstractmethod
    def _ambient(self, raw: Tensor) -> Tensor:
        """The matrix that stands in unconstrained real numbers."""

    @abstractmethod
    def _other_component(self, element: Tensor, component: Tensor) -> Tensor:
        """Elements moved to the other component where ``component`` is True."""

    @abstractmethod
    def _distance(self, matrix: Tensor) -> Tensor: ...

    @abstractmethod
    def _random(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        """In float64 or complex128."""

    @final
    def _require(self, name: str, x: Tensor) -> None:
        require_numbers(name, x, self.shape, is_complex=self.is_complex)

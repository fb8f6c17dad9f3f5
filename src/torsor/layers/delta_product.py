"""DeltaProduct: matrix states that a product of generalised Householder maps moves and writes to at every token."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize

from torsor.layers.full_precision import full_precision
from torsor.layers.sequence_layer import LayerState, SequenceLayer, require_part, require_parts
from torsor.recurrence import delta_rule


@final
class DeltaProductLayer(SequenceLayer):
    r"""Each head carries a matrix :math:`S` of ``key_dim`` by ``value_dim``, read by :math:`y_t = S_t^\top q_t`.

    For each element and each :math:`j = 1, \dots, n_h`, one after the other,

    .. math::

        S \leftarrow (I - \beta_j k_j k_j^\top) S + \beta_j k_j v_j^\top, \qquad |k_j| = 1, \quad \beta_j \in (0, 2),

    keys, values and :math:`\beta` linear in the element, :math:`\beta = 2 \sigma(\cdot)`. At :math:`\beta = 1` the row
    at a key is replaced, at 2 its mirror image is taken: with two maps a token can turn the state, with ``n_h`` maps it
    can permute up to ``n_h + 1`` rows. The heads side by side go through a matrix to the width. With a width
    :math:`w`, :math:`H` heads, keys of :math:`k` and values of :math:`v` there are
    :math:`w H (k + n_h (k + v + 1)) + H n_h + w H v` parameters. The state is float32 at least.

    Guarantees, besides those of ``SequenceLayer``, each a test in ``tests/laws/test_snapped_laws.py``:

    * it is the recurrence above with its dense maps, multiplied out step by step;
    * the norm of a state that is not written to does not grow;
    * the number of parameters is the one above.

    Args:
        width: of inputs and outputs.
        heads: how many states.
        key_dim: rows of a state.
        value_dim: columns of a state.
        maps: :math:`n_h`, Householder maps of one token.
        std: size of the elements of the matrices at the start, normal; None for one over the root of the width.
        generator: of the initial values.

    Raises:
        ValueError: when a size is below 1.

    Reference:
        "DeltaProduct: Improving State-Tracking in Linear RNNs via Householder Products"; written from its formula,
        without its convolutions, gates and kernels.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int = 4,
        key_dim: int = 16,
        value_dim: int = 16,
        maps: int = 2,
        std: float | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes = {"width": width, "heads": heads, "key_dim": key_dim, "value_dim": value_dim, "maps": maps}
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        self.width = width
        self.heads = heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.maps = maps
        self.query: nn.Linear = nn.Linear(width, heads * key_dim, bias=False)
        self.key: nn.Linear = nn.Linear(width, heads * maps * key_dim, bias=False)
        self.value: nn.Linear = nn.Linear(width, heads * maps * value_dim, bias=False)
        self.beta: nn.Linear = nn.Linear(width, heads * maps)
        self.out: nn.Linear = nn.Linear(heads * value_dim, width, bias=False)
        self.reset_parameters(width**-0.5 if std is None else std, generator)

    @torch.no_grad()
    def reset_parameters(self, std: float, generator: torch.Generator | None = None) -> None:
        """Draw every matrix normal of size ``std``; biases are 0, so that the maps start about half-way to a mirror."""
        for part in (self.query, self.key, self.value, self.beta, self.out):
            part.weight.normal_(std=std, generator=generator)
        self.beta.bias.zero_()

    def initial_state(self, batch: int) -> LayerState:
        """Zeros, "batch heads key_dim value_dim"."""
        weight = self.out.weight
        dtype = torch.promote_types(weight.dtype, torch.float32)
        return (torch.zeros(batch, self.heads, self.key_dim, self.value_dim, dtype=dtype, device=weight.device),)

    def forward(
        self, x: Float[Tensor, "batch length width"], state: LayerState | None = None
    ) -> tuple[Float[Tensor, "batch length width"], LayerState]:
        if x.shape[1] == 0:
            raise ValueError(f"x must have at least one element, got shape {tuple(x.shape)}")
        initial = self.initial_state(x.shape[0])
        state = initial if state is None else state
        require_parts(state, 1)
        (carried,), (zero,) = state, initial
        require_part("state", carried, tuple(zero.shape), zero.dtype)
        query, key, value, beta = self.parts(x, zero.dtype)
        with full_precision(x):
            read, carried = delta_rule(query, key, value, beta, carried)
        return self.out(read.flatten(2).to(x.dtype)), (carried,)

    def parts(
        self, x: Float[Tensor, "batch length width"], dtype: torch.dtype
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries "batch length heads key", keys of norm 1 and values with an axis of maps before the last, and betas.

        Args:
            x: the elements.
            dtype: of what is returned.
        """
        by_map = (self.heads, self.maps)
        query = self.query(x).unflatten(-1, (self.heads, -1)).to(dtype)
        key = normalize(self.key(x).to(dtype).unflatten(-1, (*by_map, -1)), dim=-1)
        value = self.value(x).to(dtype).unflatten(-1, (*by_map, -1))
        return query, key, value, 2 * torch.sigmoid(self.beta(x).to(dtype)).unflatten(-1, by_map)

"""The delta rule: matrix states that generalised Householder maps move and write to, several for each token."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

ROWS = 16  # maps of a chunk: of 4 to 64, with heads of 16 x 16, the fastest on a CPU forward and backward


def delta_rule(
    query: Float[Tensor, "batch length heads key"],
    key: Float[Tensor, "batch length heads maps key"],
    value: Float[Tensor, "batch length heads maps value"],
    beta: Float[Tensor, "batch length heads maps"],
    state: Float[Tensor, "batch heads key value"],
) -> tuple[Float[Tensor, "batch length heads value"], Float[Tensor, "batch heads key value"]]:
    r"""Carry a state through :math:`S \leftarrow (I - \beta k k^\top) S + \beta k v^\top` and read :math:`S^\top q`.

    The maps of a token follow one another, and it is read after the last of them. Within a chunk of maps, with the rows
    :math:`K`, :math:`V` and :math:`D = \operatorname{diag} \beta`, what the maps write is :math:`K^\top U`, where

    .. math:: (I + \operatorname{tril}_{-1}(D K K^\top))\, U = D V - D K S ,

    so that chunks are solved for side by side and only :math:`S` is handed from one to the next.

    Guarantees, each a test in ``tests/laws/test_delta_rule_laws.py``:

    * it is ``delta_rule_reference``, one map after the other, in its outputs and in all gradients;
    * a sequence in pieces is the sequence in one;
    * with :math:`\beta = 0` nothing happens, with :math:`\beta = 1` a read at a key gives its value, and with
      :math:`\beta = 2` and nothing to write the norm of the state is kept.

    Args:
        query: what each token reads with.
        key: of norm 1.
        value: what is written.
        beta: how far each map goes, in [0, 2]: 1 replaces what lies at a key, 2 mirrors.
        state: before the first token.

    Returns:
        What is read, and the state after the last token.

    Raises:
        ValueError: when there is no token, or one is not of the shape that ``key`` and ``value`` ask for or not of
            ``key``'s type.

    Reference:
        "Parallelizing Linear Transformers with the Delta Rule over Sequence Length"; written from the equation above.
    """
    _require(query, key, value, beta, state)
    length, maps = key.shape[1], key.shape[3]
    tokens = max(1, min(length, ROWS // maps))
    chunks = -(-length // tokens)

    def in_chunks(each: Tensor) -> Tensor:
        """By "batch heads chunks rows size"; rows beyond the last token are zero and neither move nor write."""
        rows = each.flatten(3, -2).transpose(1, 2)  # "batch heads length maps size"
        return pad(rows, (0, 0, 0, 0, 0, chunks * tokens - length)).unflatten(2, (chunks, tokens)).flatten(3, 4)

    keys, queries = in_chunks(key), in_chunks(query[:, :, :, None])
    moving = in_chunks(beta[..., None] * key)
    writing = in_chunks(beta[..., None] * value)
    overlap = (moving @ keys.mT).tril(-1)
    solved = torch.linalg.solve_triangular(
        overlap, torch.cat([moving, writing], dim=-1), upper=False, unitriangular=True
    )
    moved, written = solved.split([key.shape[-1], value.shape[-1]], dim=-1)
    states, changes = [], []
    for each_moved, each_written, each_keys in zip(moved.unbind(2), written.unbind(2), keys.unbind(2), strict=True):
        states.append(state)
        changes.append(each_written - each_moved @ state)
        state = state + each_keys.mT @ changes[-1]
    row_of = torch.arange(tokens * maps, device=key.device) // maps
    seen = row_of <= torch.arange(tokens, device=key.device)[:, None]
    within = (queries @ keys.mT) * seen
    read = queries @ torch.stack(states, dim=2) + within @ torch.stack(changes, dim=2)
    return read.flatten(2, 3)[:, :, :length].transpose(1, 2), state


def delta_rule_reference(
    query: Float[Tensor, "batch length heads key"],
    key: Float[Tensor, "batch length heads maps key"],
    value: Float[Tensor, "batch length heads maps value"],
    beta: Float[Tensor, "batch length heads maps"],
    state: Float[Tensor, "batch heads key value"],
) -> tuple[Float[Tensor, "batch length heads value"], Float[Tensor, "batch heads key value"]]:
    """What ``delta_rule`` computes, one map after the other."""
    outputs = []
    parts = (each.unbind(1) for each in (query, key, value, beta))
    for now_query, now_key, now_value, now_beta in zip(*parts, strict=True):
        for k, v, b in zip(now_key.unbind(2), now_value.unbind(2), now_beta.unbind(2), strict=True):
            change = b[..., None] * (v - (k[..., None, :] @ state)[..., 0, :])
            state = state + k[..., None] * change[..., None, :]
        outputs.append((now_query[..., None, :] @ state)[..., 0, :])
    return torch.stack(outputs, dim=1), state


def _require(query: Tensor, key: Tensor, value: Tensor, beta: Tensor, state: Tensor) -> None:
    if key.ndim != 5 or 0 in key.shape:
        raise ValueError(f"key must be batch length heads maps key, each at least 1, got shape {tuple(key.shape)}")
    batch, length, heads, maps, dim = key.shape
    size = value.shape[-1] if value.ndim else 0
    wanted = {
        "query": (query, (batch, length, heads, dim)),
        "value": (value, (batch, length, heads, maps, size)),
        "beta": (beta, (batch, length, heads, maps)),
        "state": (state, (batch, heads, dim, size)),
    }
    for name, (given, shape) in wanted.items():
        if given.shape != shape or given.dtype != key.dtype:
            found = f"{given.dtype} of shape {tuple(given.shape)}"
            raise ValueError(f"{name} must be {key.dtype} of shape {shape}, as key is, got {found}")

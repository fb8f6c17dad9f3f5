"""The directions of probes that a map carries from step to step, and their Gram matrix."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.diagnostics.scopes import block_name, exact_arithmetic, in_float64, own_blocks, restricted, whole_vector
from torsor.maps import LinearMap

_CHUNK_BYTES = 96 * 2**20  # what the directions and the Gram matrices of one chunk of probes may take


@final
@dataclass(frozen=True, eq=False)
class GramMatrix:
    """Mean Gram matrix of the directions, over the map's blocks and over the whole vector.

    Args:
        own: mean over the probes and over the blocks.
        whole: mean over the probes, on the whole vector.
        by_block: mean over the probes, for each block.
        probes: how many probes were carried.
    """

    own: Float[Tensor, "steps steps"]
    whole: Float[Tensor, "steps steps"]
    by_block: Float[Tensor, "blocks steps steps"]
    probes: int

    formula: ClassVar[str] = "G_ts = mean over probes of <p_t, p_s>, p_t = M^t v / |M^t v|"

    def __str__(self) -> str:
        own, whole = self.own[0, -1], self.whole[0, -1]
        steps = self.own.shape[0]
        return (
            f"Gram matrix of {steps} steps, {self.probes} probes: first against last step "
            f"own blocks {own:.4g}, whole vector {whole:.4g} [{self.formula}]"
        )

    def to_json(self) -> dict[str, Any]:
        """The numbers as plain lists."""
        return {
            "formula": self.formula,
            "probes": self.probes,
            "own": self.own.tolist(),
            "whole": self.whole.tolist(),
            "by_block": self.by_block.tolist(),
        }


@exact_arithmetic()
def gram_matrix(
    map: LinearMap,
    steps: int = 32,
    probes: int = 256,
    blocks: Sequence[slice] | None = None,
    generator: torch.Generator | None = None,
) -> GramMatrix:
    r"""The Gram matrix of a carried direction with itself at other steps, as a picture of what a loop reads.

    .. math:: G_{ts} = \langle p_t, p_s \rangle, \qquad p_t = M^t v / \lVert M^t v \rVert,

    averaged over random unit probes :math:`v`. It is computed as ``toeplitz_defect`` does, which
    says what the arguments mean; the defect is taken for each probe and not of this mean.

    Args:
        map: one map, without batch axes.
        steps: number of directions, at least 2.
        probes: number of random probes, at least 1.
        blocks: an explicit partition of the coordinates; the map's own blocks by default.
        generator: of the probes; by default a fresh one, so that two calls agree.

    Raises:
        ValueError: on inadmissible arguments, or when the map sends a probe to zero.
    """

    def total(directions: Tensor) -> Tensor:
        return gram_of(directions).sum(0, keepdim=True)

    own, whole = over_scopes(map, steps, probes, blocks, generator, total)
    by_block = own.sum(1) / probes
    return GramMatrix(by_block.mean(0), whole.sum(0) / probes, by_block, probes)


def gram_of(directions: Float[Tensor, "steps probes width"]) -> Float[Tensor, "probes steps steps"]:
    """The Gram matrix of every probe."""
    by_probe = directions.transpose(0, 1)
    return by_probe @ by_probe.mT


def over_scopes(
    map: LinearMap,
    steps: int,
    probes: int,
    blocks: Sequence[slice] | None,
    generator: torch.Generator | None,
    number: Callable[[Float[Tensor, "steps chunk width"]], Tensor],
) -> tuple[Float[Tensor, "blocks ..."], Float[Tensor, "..."]]:
    """Apply ``number`` to the directions inside every block, and to those of the whole vector.

    ``number`` receives the directions of one chunk of probes; its results for the chunks are
    joined along their first axis.

    Raises:
        ValueError: on inadmissible arguments, or when the map sends a probe to zero.
    """
    _require_at_least("steps", steps, 2)
    _require_at_least("probes", probes, 1)
    partition = own_blocks(map, blocks)
    wide, matrix = in_float64(map)
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(probes, map.dim, dtype=torch.float64, generator=generator, device=generator.device)
    drawn = drawn.to(matrix.device)
    whole = _inside(wide, whole_vector(map), drawn, steps, number)
    if len(partition) == 1:
        return whole, whole[0]
    return _inside(restricted(wide, matrix, partition), partition, drawn, steps, number), whole[0]


def _inside(
    map: LinearMap, blocks: Sequence[slice], drawn: Tensor, steps: int, number: Callable[[Tensor], Tensor]
) -> Tensor:
    """What ``number`` says of the directions inside each block of a map that does not mix the blocks."""
    size = max(1, _CHUNK_BYTES // (8 * steps * (map.dim + 2 * steps)))
    results: list[list[Tensor]] = [[] for _ in blocks]
    for probes in drawn.split(size):
        # all blocks travel in one vector, since none of them sees another
        directions = _directions(map, blocks, probes, steps)
        for block, result in zip(blocks, results, strict=True):
            result.append(number(directions[..., block]))
    return torch.stack([torch.cat(result) for result in results])


def _directions(
    map: LinearMap, blocks: Sequence[slice], probes: Float[Tensor, "probes dim"], steps: int
) -> Float[Tensor, "steps probes dim"]:
    """Carry the probes and renormalise them inside every block, at every step.

    To normalise :math:`M^t v` only when it is wanted is a trap: a scale of one half underflows
    any guard against division by zero within some forty steps.
    """
    directions = probes.new_empty(steps, *probes.shape)
    state = probes
    for step in range(steps):
        if step:
            state = map(directions[step - 1])
        for block in blocks:
            part = state[:, block]
            largest = part.abs().amax(-1, keepdim=True)  # first, since squares of small numbers underflow
            if not largest.all():
                raise ValueError(
                    f"map must not send a probe to zero, got zero at step {step} "
                    f"in the coordinates {block_name(block, map.dim)}"
                )
            part = part / largest
            directions[step, :, block] = part / torch.linalg.vector_norm(part, dim=-1, keepdim=True)
    return directions


def _require_at_least(name: str, value: int, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")

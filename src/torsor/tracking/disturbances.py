"""What becomes of a planted error: whether a model brings a disturbed state back."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.requirements import require_finite
from torsor.tracking.resampling import Bootstrapped, bootstrap_mean
from torsor.tracking.subspace import Subspace


@final
@dataclass(frozen=True)
class Contraction:
    """The length of a disturbance after it was carried, over its length before.

    Args:
        inside: of the part in the subspace, with its bootstrap interval over states. Below 1 an
            error between classes is corrected, above 1 it grows.
        whole: of the whole disturbance.
        size: the length of the disturbance.
    """

    inside: Bootstrapped
    whole: Bootstrapped
    size: float

    formula: ClassVar[str] = "mean over states of |P_U(F(h + d) - F(h))| / |d|, d random in U"

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {"formula": self.formula, **asdict(self)}


@torch.no_grad()
def contraction(
    carry: Callable[[Tensor], Tensor],
    states: Float[Tensor, "batch width"],
    subspace: Subspace,
    *,
    size: float,
    generator: torch.Generator | None = None,
) -> Contraction:
    r"""Disturb states in a random direction of a subspace, carry both, and compare.

    Over time, ``carry`` reads a word whose product is the identity (``identity_word``), so that every state
    should come back to its class. Over depth, it makes some more loops.

    Guarantees, each a test in ``tests/laws/test_tracking_laws.py``:

    * an affine map that returns every class mean to itself has the factor 1 inside their span, exactly: it
      corrects nothing;
    * the factor of :math:`h \mapsto c h` is :math:`|c|`.

    Args:
        carry: takes states "batch width" and returns them as they are later.
        states: that the model is in.
        subspace: such as ``class_mean_subspace``: errors there change the class that is read.
        size: the length of the disturbance, positive. Near the distance of two means it may carry a
            state to another class, which is no failure to contract.
        generator: of the directions; by default a fresh one of fixed seed, so that two calls agree.

    Raises:
        ValueError: when ``size`` is not positive, widths differ, or a state is not finite.
    """
    if not size > 0:
        raise ValueError(f"size must be positive, got {size}")
    if states.ndim != 2 or states.shape[1] != len(subspace.basis):
        raise ValueError(f"states must have the width {len(subspace.basis)} of the subspace, got {tuple(states.shape)}")
    require_finite("states", states)
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(len(states), subspace.dimensions, generator=generator, dtype=torch.float64)
    disturbance = size * (drawn / drawn.norm(dim=-1, keepdim=True)).to(subspace.basis) @ subspace.basis.T
    calm, disturbed = carry(states.clone()), carry(states + disturbance.to(states))
    for name, carried in (("carried states", calm), ("carried disturbed states", disturbed)):
        if carried.shape != states.shape:
            raise ValueError(f"carry must return states of shape {tuple(states.shape)}, got {tuple(carried.shape)}")
        require_finite(name, carried)
    difference = disturbed.double() - calm.double()

    def factor(part: Tensor) -> Bootstrapped:
        return bootstrap_mean((part.norm(dim=-1) / size).numpy(force=True))

    return Contraction(factor(subspace.projected(difference)), factor(difference), size)


def identity_word(task: WordProblem, letter: int = 0) -> tuple[int, ...]:
    """The shortest word of one letter whose product is the identity, as tokens.

    Args:
        task: the word problem.
        letter: the token of the letter.

    Raises:
        ValueError: when ``letter`` is not the token of one.
    """
    if not 0 <= letter < len(task.letters):
        raise ValueError(f"letter must be in 0 .. {len(task.letters) - 1}, got {letter}")
    element = task.letters[letter]
    word, product = [letter], element
    while product != task.group.identity:
        product = task.group.compose(product, element)
        word.append(letter)
    return tuple(word)

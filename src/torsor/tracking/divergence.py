"""What a model knows inside the cosets: how far from uniform it is there, and whether towards the truth."""

from dataclasses import asdict, dataclass
from math import log, log2
from typing import Any, ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.groups import FiniteGroup
from torsor.tasks import IGNORED
from torsor.tracking.requirements import require_finite, require_one_shape, require_targets
from torsor.tracking.resampling import Bootstrapped, bootstrap_ratio


@final
@dataclass(frozen=True)
class WithinClass:
    """What the outputs say inside the true coset, in bits, with bootstrap intervals over words.

    Args:
        divergence: from the uniform law: 0 where nothing inside is told apart, right or wrong.
        gain: over the uniform law: below 0 where what is told apart is wrong.
        mass: the probability of the true coset.
    """

    divergence: Bootstrapped
    gain: Bootstrapped
    mass: Bootstrapped

    formula: ClassVar[str] = (
        "log2|H| - E H(p~) and log2|H| - E(-log2 p~(q)), p~ = the output on the coset of q, summing to 1"
    )

    def to_json(self) -> dict[str, Any]:
        """The numbers and the formula as a plain dictionary."""
        return {"formula": self.formula, **asdict(self)}


def within_class(
    logits: Float[Tensor, "batch length outputs"],
    targets: Int[Tensor, "batch length"],
    group: FiniteGroup,
    subgroup: tuple[int, ...],
) -> WithinClass:
    r"""Renormalise the output on the true right coset :math:`H q` and compare it with the uniform law there.

    With :math:`\tilde p` for the output on :math:`H q`, divided by its mass :math:`m`,

    .. math:: D = \log_2 |H| - \mathbb{E}\, \mathrm{H}(\tilde p), \qquad
              \mathrm{gain} = \log_2 |H| - \mathbb{E} [-\log_2 \tilde p(q)] .

    The two belong together: a model that is surely wrong inside the coset has a large divergence
    and a negative gain.

    Guarantees, each a test in ``tests/claims/test_cosets.py``:

    * :math:`0 \le D \le \log_2 |H|`, and the gain is at most :math:`\log_2 |H|`;
    * outputs uniform in the coset have :math:`D = \mathrm{gain} = 0`, whatever they say outside it;
    * outputs that are sure of the truth have :math:`D = \mathrm{gain} = \log_2 |H|`;
    * outputs that are calibrated inside the coset have :math:`D = \mathrm{gain}` on average.

    Args:
        logits: at every position.
        targets: the true state, or -100 where nothing is scored.
        group: the group.
        subgroup: :math:`H`, normal or not.

    Raises:
        ValueError: when shapes differ, a logit is not finite, there are fewer outputs than elements, a
            target is no element, or ``subgroup`` is not one.
    """
    require_one_shape(**{"logits without their last axis": logits[..., 0], "targets": targets})
    require_targets(targets, group)
    require_finite("logits", logits)
    if logits.shape[-1] < group.order:
        raise ValueError(f"logits must tell the {group.order} elements apart, got {logits.shape[-1]} classes")
    members = torch.tensor(group.cosets(subgroup, "right"), device=logits.device)
    coset = torch.tensor(group.coset_index(subgroup, "right").copy(), device=logits.device).long()
    scored = targets != IGNORED
    truth = targets.clamp(min=0)
    likely = logits.double().log_softmax(-1)
    own = likely.gather(-1, members[coset[truth]])  # "batch length |H|"
    mass = own.logsumexp(-1)
    inside = own - mass[..., None]
    bits = log2(len(members[0]))
    entropy = -(inside.exp() * inside).sum(-1) / log(2)
    surprise = -(likely.gather(-1, truth[..., None])[..., 0] - mass) / log(2)

    def over_words(values: Tensor) -> Bootstrapped:
        total = torch.where(scored, values, 0.0).sum(-1)
        return bootstrap_ratio(total.numpy(force=True), scored.sum(-1).numpy(force=True))

    return WithinClass(over_words(bits - entropy), over_words(bits - surprise), over_words(mass.exp()))

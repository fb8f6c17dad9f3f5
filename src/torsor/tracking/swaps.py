"""Whether the coset stands in a subspace: put a donor's part of it into a state and see whom the model follows."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from torsor.tasks import WordProblem
from torsor.tracking.answers import likeliest
from torsor.tracking.requirements import require_classes, require_finite, require_one_shape, require_outputs
from torsor.tracking.resampling import Bootstrapped, bootstrap_mean
from torsor.tracking.subspace import Subspace
from torsor.tracking.words import prefix_products

Resume = Callable[[Tensor, Tensor], Tensor]


@final
@dataclass(frozen=True)
class Followed:
    """How often the answers lie in the coset that the donor's word leads to, and in the receiver's.

    Args:
        donor: the share, with its bootstrap interval over words.
        receiver: the same for the state that was written to.
    """

    donor: Bootstrapped
    receiver: Bootstrapped


@final
@dataclass(frozen=True)
class SwapAgreement:
    """Whom the model follows after four ways to write a donor's state into another.

    Args:
        subspace: the part in the subspace is the donor's.
        complement: the part outside it is the donor's.
        whole: all of it is the donor's: as good as it can get.
        random: the part in a random subspace of as many dimensions is the donor's.
    """

    subspace: Followed
    complement: Followed
    whole: Followed
    random: Followed

    def to_json(self) -> dict[str, Any]:
        """The numbers as a plain dictionary."""
        return asdict(self)


@torch.no_grad()
def swap_agreement(
    resume: Resume,
    task: WordProblem,
    subgroup: tuple[int, ...],
    subspace: Subspace,
    *,
    receivers: Float[Tensor, "batch width"],
    donors: Float[Tensor, "batch width"],
    receiver_targets: Int[Tensor, "batch"],
    donor_targets: Int[Tensor, "batch"],
    tokens: Int[Tensor, "batch length"],
    generator: torch.Generator | None = None,
) -> SwapAgreement:
    r"""Replace :math:`s` by :math:`s' = s + (s_d - s) U U^\top`, read on, and ask in whose coset the answers lie.

    If the model keeps the coset :math:`H q` in the span of :math:`U`, the answers follow the donor after a swap
    there, and the receiver after a swap of the complement.

    Args:
        resume: ``(states, tokens) -> logits``: the logits of a model that reads tokens from a state.
        task: the word problem.
        subgroup: :math:`H`, whose right cosets are asked for.
        subspace: such as ``class_mean_subspace`` of other words.
        receivers: states that are written to.
        donors: states that are written.
        receiver_targets: the true element at each receiver.
        donor_targets: the true element at each donor.
        tokens: letters that are read afterwards, without a begin token.
        generator: of the random subspace; by default a fresh one of fixed seed, so that two calls agree.

    Raises:
        ValueError: when shapes differ, a state is not finite, a target or a letter is out of range,
            or ``resume`` does not answer as it should.
    """
    require_one_shape(receivers=receivers, donors=donors)
    require_one_shape(receiver_targets=receiver_targets, donor_targets=donor_targets)
    if len(tokens) != len(receivers) or len(donor_targets) != len(receivers):
        sizes = f"{len(receivers)}, {len(donor_targets)} and {len(tokens)}"
        raise ValueError(f"states, targets and tokens must be of one number of words, got {sizes}")
    for name, states in (("receivers", receivers), ("donors", donors)):
        require_finite(name, states)
    require_classes("receiver_targets", receiver_targets, task.classes)
    require_classes("donor_targets", donor_targets, task.classes)
    require_classes("tokens", tokens, len(task.letters))
    if generator is None:
        generator = torch.Generator().manual_seed(0)
    width, dimensions = receivers.shape[1], subspace.dimensions
    basis = subspace.basis.to(receivers)
    drawn = torch.randn(width, dimensions, generator=generator, dtype=torch.float64)
    other = torch.linalg.qr(drawn).Q.to(receivers)
    change = donors - receivers
    index = torch.tensor(task.group.coset_index(subgroup, "right").copy()).long()
    led = {"donor": index[_led(task, donor_targets, tokens)], "receiver": index[_led(task, receiver_targets, tokens)]}

    def followed(states: Tensor) -> Followed:
        given = tokens.clone()
        logits = resume(states, given)
        require_outputs(logits, tuple(tokens.shape), task.classes)
        answers = likeliest(logits[..., : task.classes])
        shares = {
            who: bootstrap_mean((index[answers] == cosets).double().mean(-1).numpy()) for who, cosets in led.items()
        }
        return Followed(shares["donor"], shares["receiver"])

    inside = change @ basis @ basis.T
    return SwapAgreement(
        subspace=followed(receivers + inside),
        complement=followed(donors - inside),
        whole=followed(donors),
        random=followed(receivers + change @ other @ other.T),
    )


def _led(
    task: WordProblem, start: Int[Tensor, "batch"], tokens: Int[Tensor, "batch length"]
) -> Int[Tensor, "batch length"]:
    """The elements that the tokens lead to from the elements at the start."""
    letters = torch.tensor(task.letters)[tokens.cpu()].T.numpy()
    return torch.from_numpy(prefix_products(task.group, letters, start.numpy(force=True))).long().T

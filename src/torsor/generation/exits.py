"""When a token has made enough loops: rules that look at two loops in a row."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Bool, Float
from torch import Tensor


@final
@dataclass(frozen=True)
class Iterate:
    """Tokens after a loop.

    Args:
        state: of each token.
        logits: read out from it; None for a rule that does not look at them.
    """

    state: Float[Tensor, "tokens width"]
    logits: Float[Tensor, "tokens classes"] | None


class ExitRule(ABC):
    """Whether a token makes no further loop. To add one: a final class with the members below.

    A rule looks at each token alone, so that what it says does not depend on the batch. It is asked from
    the second loop on. There is no guarantee that it ends before the most loops that a caller allows.

    Attributes:
        reads_logits: whether it looks at the logits, which are then read out at every loop.
    """

    reads_logits: ClassVar[bool]

    @abstractmethod
    def ended(self, before: Iterate, after: Iterate) -> Bool[Tensor, "tokens"]:
        """True for the tokens that end after this loop."""


@final
@dataclass(frozen=True)
class RelativeResidual(ExitRule):
    r"""End when :math:`\|x_{t+1} - x_t\| < \epsilon \|x_{t+1}\|`.

    A state that turns from loop to loop need not come to rest though its logits do: see ``LogitDivergence``.

    Args:
        threshold: :math:`\epsilon`, positive.

    Raises:
        ValueError: when it is not.
    """

    threshold: float

    reads_logits = False

    def __post_init__(self) -> None:
        _require_positive(self.threshold)

    def ended(self, before: Iterate, after: Iterate) -> Bool[Tensor, "tokens"]:
        change = (after.state - before.state.to(after.state.dtype)).norm(dim=-1)
        return change < self.threshold * after.state.norm(dim=-1)


@final
@dataclass(frozen=True)
class LogitDivergence(ExitRule):
    r"""End when :math:`\mathrm{KL}(p_{t+1} \,\|\, p_t) < \epsilon` nats, with :math:`p` the softmax of the logits.

    Coda and readout are evaluated at every loop.

    Args:
        threshold: :math:`\epsilon`, positive.

    Raises:
        ValueError: when it is not.
    """

    threshold: float

    reads_logits = True

    def __post_init__(self) -> None:
        _require_positive(self.threshold)

    def ended(self, before: Iterate, after: Iterate) -> Bool[Tensor, "tokens"]:
        if before.logits is None or after.logits is None:
            raise ValueError("a rule that reads logits must be given them, got none")
        new, old = (each.logits.double().log_softmax(-1) for each in (after, before) if each.logits is not None)
        return (new.exp() * (new - old)).sum(-1) < self.threshold


def _require_positive(threshold: float) -> None:
    if not 0 < threshold < float("inf"):
        raise ValueError(f"threshold must be positive and finite, got {threshold}")

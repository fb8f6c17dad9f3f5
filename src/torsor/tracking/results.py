"""What an examination has found: scores at every length, the controls beside them, and the algebra of the errors."""

from dataclasses import dataclass
from typing import Any, Literal, final

from torsor.tasks import Scores
from torsor.tracking.frontiers import Frontier
from torsor.tracking.resampling import Bootstrapped
from torsor.tracking.stage_fit import CosetFit


@final
@dataclass(frozen=True)
class QuotientScores:
    """How well the coset of a normal subgroup is tracked, whatever the answer is inside it.

    Args:
        subgroup: the normal subgroup :math:`N`.
        scores: an answer counts as right in the coset of the state.
        frontier: of these, at 0.90.
        exact_given_coset: the share of right answers among those in the right coset, beyond the exact
            frontier; ``1 / |N|`` where nothing inside is known. None where there is no such answer.
    """

    subgroup: tuple[int, ...]
    scores: Scores
    frontier: Frontier
    exact_given_coset: Bootstrapped | None

    def to_json(self) -> dict[str, Any]:
        """The scores with their intervals as a plain dictionary."""
        return {
            "subgroup": list(self.subgroup),
            "order": len(self.subgroup),
            "uniform_inside": 1 / len(self.subgroup),
            "frontier": self.frontier.to_json(),
            "exact_given_coset": self.exact_given_coset.to_json() if self.exact_given_coset else None,
            **self.scores.to_json(),
        }


@final
@dataclass(frozen=True)
class LengthEvaluation:
    """What a model does on words of one length.

    Args:
        length: letters in each word.
        multiple: its ratio to the trained length.
        scores: an answer counts as right where it is the state.
        token: the share of right answers over all positions, with a bootstrap interval over words.
        frontiers: of these, at 0.75, 0.90 and 0.99.
        quotients: of every proper, non-trivial normal subgroup.
        abelian: those of the commutator subgroup, the control that a counter of letters can pass; None
            where the group has no commutative quotient, or is commutative.
        window: the first position of the stage test, six beyond the frontier at 0.75.
        stage: what the errors from there on agree on; None where the window is empty.
        chance: 1 / order.
        ceiling: the order-blind ceiling at the last position, "exact" or a "bound".
        familiar: scores on words without the held-out pairs, where there are such.
        forced: scores on words with them.
        confusion: how often each element, a row, is answered by each, from the window on, or at every
            position where the window is empty; the last column counts answers beyond the elements. Not
            among the plain numbers of ``to_json``: ``confusion_by_coset`` arranges it.
    """

    length: int
    multiple: float
    scores: Scores
    token: Bootstrapped
    frontiers: tuple[Frontier, ...]
    quotients: tuple[QuotientScores, ...]
    abelian: QuotientScores | None
    window: int
    stage: CosetFit | None
    chance: float
    ceiling: tuple[float, Literal["exact", "bound"]]
    familiar: Scores | None
    forced: Scores | None
    confusion: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """The scores with their intervals and the controls as a plain dictionary."""
        return {
            "length": self.length,
            "multiple": self.multiple,
            "scores": self.scores.to_json(),
            "token": self.token.to_json(),
            "frontiers": [each.to_json() for each in self.frontiers],
            "quotients": [each.to_json() for each in self.quotients],
            "abelian": list(self.abelian.subgroup) if self.abelian else None,
            "window": self.window,
            "stage": self.stage.to_json() if self.stage else None,
            "chance": self.chance,
            "ceiling": {"value": self.ceiling[0], "kind": self.ceiling[1]},
            "familiar": self.familiar.to_json() if self.familiar else None,
            "forced": self.forced.to_json() if self.forced else None,
        }


@final
@dataclass(frozen=True)
class Evaluation:
    """What a model does on a suite.

    Args:
        group: the name of the group.
        alphabet: "all" or "generators".
        train_length: the length that the model was trained on.
        words: how many words of each length.
        lengths: one entry for each.
    """

    group: str
    alphabet: str
    train_length: int
    words: int
    lengths: tuple[LengthEvaluation, ...]

    def __str__(self) -> str:
        head = f"{self.group}, alphabet {self.alphabet}, trained at length {self.train_length}, {self.words} words each"
        return "\n".join([head, *(_line(each) for each in self.lengths), f"  [stage: {CosetFit.formula}]"])

    def to_json(self) -> dict[str, Any]:
        """All numbers as a plain dictionary."""
        return {
            "group": self.group,
            "alphabet": self.alphabet,
            "train_length": self.train_length,
            "words": self.words,
            "lengths": [each.to_json() for each in self.lengths],
        }


def _line(each: LengthEvaluation) -> str:
    low, high = each.scores.joint.interval()
    value, kind = each.ceiling
    return (
        f"  length {each.length}: joint {each.scores.joint.value:.3f} [{low:.3f}, {high:.3f}], token "
        f"{each.scores.token:.3f}, chance {each.chance:.3f}, order-blind {value:.3f} ({kind}); "
        f"{each.stage.finding if each.stage else 'no position beyond the frontier'}"
    )

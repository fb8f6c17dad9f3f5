"""Which elements are answered for which, with the members of a coset side by side."""

from dataclasses import asdict, dataclass
from typing import Any, final

from torsor.groups import FiniteGroup
from torsor.tracking.results import LengthEvaluation
from torsor.tracking.stage_fit import Side


@final
@dataclass(frozen=True)
class Confusion:
    """Counts of answers, arranged by the cosets of a subgroup.

    Args:
        length: of the words.
        first: the first position that is counted.
        subgroup: whose cosets they are.
        side: of the cosets.
        chosen: why this subgroup, in words.
        cosets: the elements of each coset; rows and columns of the counts are these one after the other.
        counts: how often the element of a row is answered by that of a column.
        outside: how often the element of a row is answered by what is no element.
    """

    length: int
    first: int
    subgroup: tuple[int, ...]
    side: Side
    chosen: str
    cosets: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    outside: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """The counts as a plain dictionary."""
        return {
            **asdict(self),
            "subgroup": list(self.subgroup),
            "cosets": [list(members) for members in self.cosets],
            "counts": [list(row) for row in self.counts],
            "outside": list(self.outside),
        }


def confusion_by_coset(evaluation: LengthEvaluation, group: FiniteGroup) -> Confusion:
    """Arrange the confusion of an evaluation by the cosets that say most of it.

    They are those of the stage; where there is none, of the commutator subgroup; where that is trivial or the
    whole group, of the proper subgroup that is nearest to the errors; without errors, of the largest one.

    Args:
        evaluation: at one length.
        group: of the word problem.
    """
    subgroup, side, chosen = _subgroup(evaluation, group)
    cosets = group.cosets(subgroup, side)
    order = [element for members in cosets for element in members]
    rows = [evaluation.confusion[element] for element in order]
    return Confusion(
        evaluation.length,
        evaluation.window if evaluation.stage else 1,
        subgroup,
        side,
        chosen,
        cosets,
        tuple(tuple(row[element] for element in order) for row in rows),
        tuple(row[-1] for row in rows),
    )


def _subgroup(evaluation: LengthEvaluation, group: FiniteGroup) -> tuple[tuple[int, ...], Side, str]:
    fit = evaluation.stage
    if fit and fit.stage:
        return fit.stage.subgroup, fit.stage.side, "the stage"
    commutators = group.commutator_subgroup()
    if 1 < len(commutators) < group.order:
        return commutators, "right", "the commutator subgroup"
    nearest = next((each for each in fit.fits if each.order < group.order), None) if fit else None
    if nearest:
        return nearest.subgroup, nearest.side, "nearest to the errors"
    proper = [each for each in group.subgroups() if len(each) < group.order]
    return max(proper, key=len), "right", "the largest proper subgroup"

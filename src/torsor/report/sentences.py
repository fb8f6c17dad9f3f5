"""What came out, said in sentences that are computed from the numbers."""

from collections.abc import Sequence

from torsor.report import wording
from torsor.report.rows import Row, mean
from torsor.report.run import Task

Phrase = tuple[str, str]
Sentence = list[Phrase]


def reading(rows: Sequence[Row]) -> list[Sentence]:
    """One sentence for each task that was evaluated, as phrases (text, colour class of the row it names or "").

    Rows are compared at the depth of training where each has a score there, else at the deepest that all share.
    """
    tasks = _by_task(rows)
    if not tasks:
        return [[("No run here has been evaluated yet: there is nothing to compare.", "")]]
    return [_sentence(task, together) for task, together in tasks.items()]


def geometry_reading(rows: Sequence[Row]) -> Sentence:
    """The Toeplitz defects over own blocks, means over seeds, in one sentence; empty where none was measured."""
    found = [(row, mean([run.geometry.toeplitz_own.mean for run in row.runs if run.geometry])) for row in rows]
    told = [[(row.label, row.css), (f" {wording.small(defect.value)}", "")] for row, defect in found if defect]
    if not told:
        return []
    phrases = listed(told)
    return [("Toeplitz defect of the trained transition over its own blocks: ", ""), *phrases, (".", "")]


def reference_depths(rows: Sequence[Row]) -> dict[str, int]:
    """The depth at which each evaluated row is compared with those of its task, by key."""
    found: dict[str, int] = {}
    for together in _by_task(rows).values():
        found |= _common(together) or {row.key: row.depths[-1] for row in together}
    return found


def _by_task(rows: Sequence[Row]) -> dict[Task, list[Row]]:
    tasks: dict[Task, list[Row]] = {}
    for row in rows:
        found = next((run.evaluation.task for run in row.runs if run.evaluation), None)
        if found is not None and row.depths:
            tasks.setdefault(found, []).append(row)
    return tasks


def _common(rows: list[Row]) -> dict[str, int]:
    """Each row's depth of training where all have a score at theirs, else the deepest in common, else nothing."""
    trained = {row.key: row.trained_steps for row in rows}
    if all((steps := trained[row.key]) is not None and row.joint(steps) for row in rows):
        return {key: steps for key, steps in trained.items() if steps is not None}
    shared = [steps for steps in rows[0].depths if all(row.joint(steps) for row in rows)]
    return {row.key: max(shared) for row in rows} if shared else {}


def _sentence(task: Task, rows: list[Row]) -> Sentence:
    at = _common(rows)
    name = wording.task_name(task)
    if not at:
        return [(f"The runs on {name} share no depth at which each was evaluated.", "")]
    scored = sorted(rows, key=lambda row: -_joint(row, at))
    best = scored[0]
    told = [[(row.label, row.css), (f" {wording.percent(_joint(row, at))}", "")] for row in scored[1:]]
    phrases = [
        (_when(rows, at), ""),
        (best.label, best.css),
        (f" gets {wording.percent(_joint(best, at))} of the {name} right at every position", ""),
    ]
    if told:
        phrases += [(", ", ""), *listed(told), ("; ", ""), (_overlap(scored, at), "")]
    elif best.depths[-1] != at[best.key] and (deepest := best.joint(best.depths[-1])):
        phrases.append((f", and {wording.percent(deepest.value)} after {best.depths[-1]} steps", ""))
    return [*phrases, (".", "")]


def _joint(row: Row, at: dict[str, int]) -> float:
    score = row.joint(at[row.key])
    return score.value if score else 0.0


def _when(rows: list[Row], at: dict[str, int]) -> str:
    if len(set(at.values())) > 1:
        return "Each at its own depth of training, "
    steps = next(iter(at.values()))
    trained = all(row.trained_steps == steps for row in rows)
    return f"After {steps} recurrent steps, {'the depth of training' if trained else 'the deepest in common'}, "


def _overlap(scored: list[Row], at: dict[str, int]) -> str:
    first, second = (row.interval(at[row.key]) for row in scored[:2])
    seeds = {score.count for row in scored[:2] if (score := row.joint(at[row.key]))}
    which = "the" if len(scored) == 2 else "the upper two"
    if first is None or second is None:
        return "there are no intervals to compare"
    verdict = "overlap" if first[0] <= second[1] and second[0] <= first[1] else "do not overlap"
    over = "over seeds" if 1 not in seeds else "over words, one seed each," if seeds == {1} else "over words or seeds"
    return f"{which} 95\u202f% intervals {over} {verdict}"


def listed(items: list[list[Phrase]]) -> list[Phrase]:
    """Items joined as English joins them: a, b and c."""
    phrases: list[Phrase] = []
    for index, item in enumerate(items):
        joint = "" if index == 0 else " and " if index == len(items) - 1 else ", "
        phrases += [(joint, ""), *item]
    return phrases

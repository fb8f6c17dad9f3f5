"""The tables of ``torsor track``."""

from rich.table import Table

from torsor.cli.consoles import wide_console
from torsor.tracking import CosetFit, LengthEvaluation, QuotientScores, StreamEvaluation, Tracked

LEGEND = (
    "joint: every position right; token: of all positions; 95 %: over words (Clopper-Pearson; token: bootstrap)",
    "C(k) >= 1/2: up to there half of the words have no error; frontier: up to there .75 (.90, .99) are right at "
    "every position",
    "cond.: the last position, among words right before it; order-blind: the best that counts letters and no more",
)


def print_tracked(tracked: Tracked) -> None:
    """Everything that was found, beside the controls.

    Args:
        tracked: what was found.
    """
    task, say = tracked.suite.task, wide_console()
    lines = [f"{tracked.subject}: {task.group.name}, order {task.group.order}, {len(task.letters)} letters"]
    lines.append(f"({task.alphabet}), trained at length {task.length}, {tracked.suite.words} words of each length")
    say.print(" ".join(lines), soft_wrap=True)
    say.print(_scores(tracked))
    for line in LEGEND:
        say.print(line, soft_wrap=True)
    if tracked.trained_steps is not None:
        say.print("* the trained depth")
    say.print()
    if len(list(task.group.normal_subgroups())) > 2:
        say.print(_quotients(tracked))
        say.print(
            "exact: the share of right answers among those in the right coset, beyond the frontier; 1 / order where "
            "nothing inside is known",
            soft_wrap=True,
        )
    say.print(_control(tracked), soft_wrap=True)
    say.print()
    for steps, found in tracked.evaluations.items():
        for each in found.lengths:
            say.print(f"{_place(tracked, steps, each)}: {_finding(each)}", soft_wrap=True)
    say.print(f"stage: {CosetFit.formula}", soft_wrap=True)
    if tracked.closure:
        say.print(f"\nevery state by every letter: {tracked.closure}", soft_wrap=True)
    if tracked.stream:
        say.print(f"\nread on: {tracked.stream}", soft_wrap=True)
        say.print(_stream(tracked.stream))


def _scores(tracked: Tracked) -> Table:
    held_out = tracked.suite.held_out is not None
    heads = ["length", "joint", "95 %", "token", "95 %", "C(k) >= 1/2", "frontier .75", ".90", ".99", "cond. (of)"]
    heads += ["order-blind", "chance", *(["without pairs", "with them"] if held_out else [])]
    table = Table(*(["loops"] if _looped(tracked) else []), *heads, box=None, pad_edge=False)
    for steps, found in tracked.evaluations.items():
        for each in found.lengths:
            first = [_steps(tracked, steps) if each is found.lengths[0] else ""] if _looped(tracked) else []
            pairs = [f"{scores.joint.value:.3f}" for scores in (each.familiar, each.forced) if scores]
            table.add_row(*first, *_row(each), *pairs)
    return table


def _row(each: LengthEvaluation) -> list[str]:
    scores, conditional, (ceiling, kind) = each.scores, each.scores.conditional, each.ceiling
    half = sum(2 * count >= scores.words for count in scores.unbroken)
    return [
        str(each.length),
        f"{scores.joint.value:.3f}",
        _ends(*scores.joint.interval()),
        f"{each.token.value:.3f}",
        _ends(each.token.low, each.token.high),
        str(half),
        *(f"{frontier.value} ({frontier.low}-{frontier.high})" for frontier in each.frontiers),
        f"{conditional.value:.3f} ({conditional.trials})" if conditional else "none",
        f"{ceiling:.3f} {kind}",
        f"{each.chance:.3f}",
    ]


def _quotients(tracked: Tracked) -> Table:
    heads = ("length", "cosets of order", "token", "joint", "frontier .90", "exact", "95 %", "1 / order")
    table = Table(*(["loops"] if _looped(tracked) else []), *heads, box=None, pad_edge=False)
    for steps, found in tracked.evaluations.items():
        for each in found.lengths:
            for quotient in each.quotients:
                first = quotient is each.quotients[0]
                head = [_steps(tracked, steps) if first and each is found.lengths[0] else ""]
                cells = _quotient(each, quotient)
                table.add_row(*(head if _looped(tracked) else []), str(each.length) if first else "", *cells)
    return table


def _quotient(each: LengthEvaluation, quotient: QuotientScores) -> list[str]:
    inside, control = quotient.exact_given_coset, each.abelian is not None and quotient is each.abelian
    return [
        f"{len(quotient.subgroup)}{' (abelian control)' if control else ''}",
        f"{quotient.scores.token:.3f}",
        f"{quotient.scores.joint.value:.3f}",
        f"{quotient.frontier.value} ({quotient.frontier.low}-{quotient.frontier.high})",
        f"{inside.value:.3f}" if inside else "none",
        _ends(inside.low, inside.high) if inside else "",
        f"{1 / len(quotient.subgroup):.3f}",
    ]


def _control(tracked: Tracked) -> str:
    group = tracked.suite.task.group
    commutators = group.commutator_subgroup()
    if len(commutators) == group.order:
        return f"abelian control: none, {group.name} has no commutative quotient"
    if len(commutators) == 1:
        return f"abelian control: {group.name} is commutative, to count its letters is enough"
    return (
        f"abelian control: the cosets of the commutator subgroup, of order {len(commutators)}, which a counter of "
        "letters can know"
    )


def _finding(each: LengthEvaluation) -> str:
    if each.scores.joint.hits == each.scores.words:
        return "no stage: no errors"
    if each.stage is None:
        return f"no stage: no position beyond {each.window - 1}, the frontier and the transition after it"
    fit = each.stage
    said = f"{fit.finding}; from position {each.window} on"
    if fit.stage is not None and not fit.stage.normal:
        other = "left" if fit.stage.side == "right" else "right"
        share = fit.stage.left_share if other == "left" else fit.stage.right_share
        said += f", {share:.3f} of the errors in its {other} cosets (predicted {fit.stage.predicted_other_share:.3f})"
    return said


def _stream(stream: StreamEvaluation) -> Table:
    table = Table("letters", "words without an error", "95 %", box=None, pad_edge=False)
    for position in stream.positions:
        found = stream.unbroken(position)
        table.add_row(f"{position:,}", f"{found.value:.3f}", _ends(*found.interval()))
        if not found.hits:
            break
    return table


def _place(tracked: Tracked, steps: int | None, each: LengthEvaluation) -> str:
    return f"{_steps(tracked, steps)} loops, length {each.length}" if steps is not None else f"length {each.length}"


def _steps(tracked: Tracked, steps: int | None) -> str:
    return f"{steps}{'*' if steps == tracked.trained_steps else ''}"


def _looped(tracked: Tracked) -> bool:
    return None not in tracked.evaluations


def _ends(low: float, high: float) -> str:
    return f"{low:.3f}-{high:.3f}"

"""What came out of character models, said in sentences that are computed from the numbers."""

from collections.abc import Callable, Mapping, Sequence

from torsor.report import wording
from torsor.report.rows import Mean, Row
from torsor.report.run import Examined
from torsor.report.sentences import Sentence, listed

Groups = Mapping[Examined, Sequence[Row]]

# What two scores must share to be compared, each under the name by which the page speaks of it.
CONDITIONS: dict[str, Callable[[Examined], object]] = {
    "text": lambda examined: examined.text.name,
    "split": lambda examined: examined.text.split,
    "data hash": lambda examined: examined.text.sha256,
    "number of symbols": lambda examined: examined.text.symbols,
    "protocol": lambda examined: examined.protocol,
    "parts or number of scored characters": lambda examined: [(part.name, part.characters) for part in examined.parts],
}


def reading(groups: Groups) -> list[Sentence]:
    """One sentence for the rows of each group that was scored alike, as phrases (text, colour class or "")."""
    if not groups:
        return [[("No run on text here has been scored yet: there is nothing to compare.", "")]]
    return [_sentence(name, rows) for name, rows in zip(names(list(groups)), groups.values(), strict=True)]


def names(examined: Sequence[Examined]) -> list[str]:
    """What tells each from the others: text and split, and where these are shared, the data or the protocol."""
    found = []
    for one in examined:
        said = wording.text_name(one.text)
        twins = [other for other in examined if wording.text_name(other.text) == said]
        apart = [wording.data(one.text)] if _differ(twins, "data hash") else []
        apart += [one.protocol] if _differ(twins, "protocol") else []
        found.append(f"{said} ({', '.join(apart)})" if apart else said)
    return found


def warning(examined: Sequence[Examined]) -> str:
    """That not all runs were scored alike, and in what they differ; empty where they were."""
    differences = [name for name in CONDITIONS if _differ(examined, name)]
    if not differences:
        return ""
    *others, last = differences
    said = f"{', '.join(others)} and {last}" if others else last
    return (
        f"Not all runs on text here were scored alike: they differ in {said}. Only runs scored alike may be compared; "
        "each such group has a sentence and a table of its own."
    )


def _differ(examined: Sequence[Examined], name: str) -> bool:
    return any(CONDITIONS[name](one) != CONDITIONS[name](examined[0]) for one in examined)


def _sentence(name: str, rows: Sequence[Row]) -> Sentence:
    part = next((part for part in ("test", "validation") if all(row.bits(part) for row in rows)), None)
    if part is None:
        return [(f"The runs on {name} share no part on which each was scored.", "")]
    scored = sorted(((row, found) for row in rows if (found := row.bits(part))), key=lambda pair: pair[1].value)
    caveat = ", by which settings may have been chosen" if part == "validation" else ""
    (best, least), others = scored[0], scored[1:]
    begin: Sentence = [(f"On the {part} part of {name}{caveat}, ", ""), (best.label, best.css)]
    if not others:
        return [*begin, (f" needs {wording.bits(least.value)} bits per character, {_alone(least)}.", "")]
    told = [[(row.label, row.css), (f" {wording.bits(found.value)}", "")] for row, found in others]
    fewest = f" needs the fewest bits per character, {wording.bits(least.value)}, then "
    return [*begin, (fewest, ""), *listed(told), (f". {_overlap(scored)}", "")]


def _alone(score: Mean) -> str:
    if score.half_width is None:
        return "from one seed"
    return f"the mean of {score.count} seeds, ± {wording.bits(score.half_width)}"


def _overlap(scored: Sequence[tuple[Row, Mean]]) -> str:
    (_, first), (_, second) = scored[:2]
    which = "The" if len(scored) == 2 else "The two lowest"
    if first.half_width is None or second.half_width is None:
        single = first.half_width is None and second.half_width is None
        few = "one seed each" if single else "one of the two has a single seed"
        which = "The two" if len(scored) == 2 else which
        return f"{which} have no intervals over seeds to compare ({few}): other seeds may turn their order."
    apart = second.value - second.half_width > first.value + first.half_width
    verdict = "do not overlap" if apart else "overlap: these seeds do not settle which is lower"
    return f"{which} 95\u202f% intervals over seeds {verdict}."

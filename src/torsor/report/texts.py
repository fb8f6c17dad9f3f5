"""What the page holds of character models: groups that were scored alike, sentences, charts and gaps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from torsor.report import missing, text_curves, text_sentences, wording
from torsor.report.figure import Figure
from torsor.report.missing import Missing
from torsor.report.rows import Row
from torsor.report.run import Examined
from torsor.report.sentences import Sentence


@final
@dataclass(frozen=True)
class Group:
    """Rows that were scored alike, the only ones whose bits per character may be compared."""

    name: str
    examined: Examined
    rows: tuple[Row, ...]
    figure: Figure | None


@final
@dataclass(frozen=True)
class Texts:
    """Everything that the page says of texts; ``guesses`` are the bits of an even guess among so many symbols."""

    names: tuple[str, ...]
    groups: tuple[Group, ...]
    guesses: list[tuple[int, float]]
    reading: list[Sentence]
    warning: str
    training: list[Figure]
    missing: dict[str, list[Missing]]


def texts_of(table: Sequence[Row]) -> Texts | None:
    """What the page says of the rows that learned a text; None where there is no such row."""
    rows = tuple(row for row in table if row.reads_text)
    if not rows:
        return None
    gathered: dict[Examined, list[Row]] = {}
    for row in rows:
        if row.examined:
            gathered.setdefault(row.examined, []).append(row)
    names = text_sentences.names(list(gathered))
    return Texts(
        names=_titles(rows, list(gathered)),
        groups=tuple(
            Group(name, examined, tuple(members), text_curves.results(examined, members))
            for name, (examined, members) in zip(names, gathered.items(), strict=True)
        ),
        guesses=[(symbols, math.log2(symbols)) for symbols in _symbols(list(gathered))],
        reading=text_sentences.reading(gathered),
        warning=text_sentences.warning(list(gathered)),
        training=text_curves.training(rows),
        missing=missing.of_texts(rows),
    )


def _titles(rows: Sequence[Row], examined: Sequence[Examined]) -> tuple[str, ...]:
    """Every text once, with its split; a text that was not scored yet by its name alone."""
    scored = [one.text for one in examined]
    known = {text.name for text in scored}
    waiting = [run.text for row in rows for run in row.runs if run.text and run.text.name not in known]
    return tuple(dict.fromkeys(f"characters of {wording.text_name(text)}" for text in [*scored, *waiting]))


def _symbols(examined: Sequence[Examined]) -> list[int]:
    return sorted({one.text.symbols for one in examined if one.text.symbols and one.text.symbols > 0})

"""The charts of character models: bits per character at the end and on the way, loss and gradient."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from torsor.report import curves
from torsor.report.charts import Axis, Panel, Words, linear, short
from torsor.report.figure import Figure
from torsor.report.rows import Row
from torsor.report.run import Examined, Run

ON_THE_WAY = (
    "A quick score on the beginning of the validation part, near the number of the table and not equal to it. "
    "The dot at the end is that number."
)


def results(examined: Examined, rows: Sequence[Row]) -> Figure | None:
    """The bits per character of rows that were scored alike, with seeds and intervals; None without an interval."""
    scored = {part.name: [(row, found) for row in rows if (found := row.bits(part.name))] for part in examined.parts}
    every = [found for together in scored.values() for _, found in together]
    if all(found.half_width is None for found in every):
        return None
    heights = [found.value + side * (found.half_width or 0.0) for found in every for side in (-1, 1)]
    heights += [bits for row in rows for name in scored for _, bits in _seeds(row, name)]
    up, panels = _wide(heights), []
    for name, together in scored.items():
        across = Axis(0, len(rows), "", ())
        panel = Panel(across, up, f"Bits per character, {name}", height=230.0, heading=name)
        for place, row in enumerate(rows):
            middle, foot = panel.at((place + 0.5, up.low))
            panel.texts.append(Words(short(middle), short(foot + 16), row.key, f"key middle {row.css}"))
        for row, found in together:
            middle = rows.index(row) + 0.5
            if found.half_width is not None:
                panel.bar(middle, found.value - found.half_width, found.value + found.half_width, row.css)
                for seed, bits in _seeds(row, name):
                    # Beside the bar, where no mean hides it.
                    title = f"{row.label}, seed {seed}, {name}: {bits:.4f}"
                    panel.dot((middle + 0.02 * len(rows), bits), f"seed {row.css}", title, radius=2.2)
            panel.dot((middle, found.value), row.css, f"{row.label}, {name}: {found.value:.4f}")
        panels.append(panel)
    caption = (
        "The lower, the better; the axis does not begin at 0. Bars are 95 % intervals over seeds (Student), each seed "
        "then a small dot; a single seed has none. Letters as in the table."
    )
    return Figure("", caption, tuple(panels), "pair")


def progress(rows: Sequence[Row]) -> Figure | None:
    """Validation bits per character at the evaluations made while training, and at its end."""
    looks = {row.key: [list(seed) for run in row.runs if (seed := _looks(run))] for row in rows}
    every = [point for seeds in looks.values() for seed in seeds for point in seed]
    if not every:
        return None
    ends = {row.key: found for row in rows if (found := row.bits("validation"))}
    updates = [update for update, _ in every]
    up = _wide([*(bits for _, bits in every), *(end.value for end in ends.values())])
    panel = Panel(linear([0, *updates], "optimizer updates"), up, "Validation bits per character during training")
    for row in rows:
        seeds = looks[row.key]
        for seed in seeds if len(seeds) > 1 else []:
            panel.line(seed, f"thin {row.css}", name=curves.one_of(row))
        together: dict[int, list[float]] = {}
        for update, bits in (point for seed in seeds for point in seed):
            together.setdefault(update, []).append(bits)
        means = [(update, fmean(together[update])) for update in sorted(together)]
        panel.line(means, row.css, key=row.key, name=curves.mean_of(row, len(seeds)))
        if means and (end := ends.get(row.key)):
            panel.dot((means[-1][0], end.value), row.css, f"{row.label}, whole validation part: {end.value:.4f}")
    many = len({row.examined for row in rows if row.examined}) > 1
    apart = " Lines of runs that were not scored alike may not be compared." if many else ""
    thin = " Thin lines are single seeds." if any(len(seeds) > 1 for seeds in looks.values()) else ""
    return Figure("Validation bits during training", ON_THE_WAY + thin + apart, (panel,))


def training(rows: Sequence[Row]) -> list[Figure]:
    """Bits, loss and gradient along the updates, as far as they were recorded."""
    loss, gradient = curves.loss(rows), curves.gradient(rows)
    if loss:
        loss = replace(loss, caption=f"{loss.caption.strip()} Nats per character; bits = nats / ln 2.".strip())
    return [figure for figure in (progress(rows), loss, gradient) if figure]


def _wide(heights: list[float]) -> Axis:
    """An axis of bits with some room at both ends."""
    room = 0.06 * (max(heights) - min(heights)) or 0.05
    return linear([min(heights) - room, max(heights) + room], "bits per character")


def _seeds(row: Row, part: str) -> list[tuple[int | None, float]]:
    found = ((run.seed, run.text_scores.bits.get(part)) for run in row.runs if run.text_scores)
    return [(seed, bits) for seed, bits in found if bits is not None]


def _looks(run: Run) -> list[tuple[int, float]]:
    return [(check.update, check.bits) for check in run.checks if check.bits is not None]

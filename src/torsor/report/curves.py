"""The charts of a comparison: accuracy against depth, position and update, loss, and cosine against lag."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from torsor.report.charts import Axis, Panel, decades, doublings, linear, shares
from torsor.report.figure import Figure
from torsor.report.numbers import Series
from torsor.report.rows import Row, mean
from torsor.report.run import Check, Depth, Geometry, Run, Update

BINS = 120

Quantity = tuple[str, Callable[[Update], float | None]]


@final
@dataclass(frozen=True)
class Bin:
    """What the values of neighbouring updates were."""

    update: float
    mean: float
    low: float
    high: float


def bins(points: Iterable[tuple[int, float]], low: int, high: int) -> list[Bin]:
    """Neighbouring updates taken together, at most 120 times between two updates: mean, smallest and largest value."""
    gathered: dict[int, list[tuple[int, float]]] = {}
    for update, value in points:
        gathered.setdefault((update - low) * BINS // (high - low + 1), []).append((update, value))
    found = []
    for _, members in sorted(gathered.items()):
        values = [value for _, value in members]
        found.append(Bin(fmean(update for update, _ in members), fmean(values), min(values), max(values)))
    return found


def by_depth(rows: Sequence[Row]) -> Figure | None:
    """Joint accuracy against the number of recurrent steps."""
    steps = sorted({steps for row in rows for steps in row.depths if row.joint(steps)})
    if not steps:
        return None
    panel = Panel(doublings(steps, "recurrent steps (log scale)"), shares("joint accuracy"), "Joint accuracy by depth")
    trained = {row.trained_steps for row in rows if row.trained_steps}
    for depth in sorted(trained):
        panel.mark(depth, "trained")
    for index, row in enumerate(rows):
        # Rows stand a little apart, so that no bar hides another.
        aside = (panel.x.high / panel.x.low) ** (0.01 * (index - (len(rows) - 1) / 2))
        tried = [(depth, score.value) for depth in row.depths if (score := row.joint(depth))]
        panel.line([(depth * aside, value) for depth, value in tried], row.css, key=row.key, told=False)
        for depth, value in tried:
            across = depth * aside
            if interval := row.interval(depth):
                panel.bar(across, max(interval[0], 0.0), min(interval[1], 1.0), row.css)
            many = len(row.at(depth)) > 1
            for run in row.runs:
                score = run.evaluation.at(depth) if run.evaluation else None
                if many and score and score.joint is not None:
                    title = f"{row.label}, seed {run.seed}, {depth} steps: {score.joint:.4f}"
                    panel.dot((across, score.joint), f"seed {row.css}", title, radius=2.2)
            panel.dot((across, value), row.css, f"{row.label}, {depth} steps: {value:.4f}")
    caption = (
        "Share of the words answered right at every position. Bars are 95 % intervals: over words for a single seed "
        "(Clopper-Pearson), over seeds for several (Student), each seed then a small dot."
    )
    return Figure("Accuracy against depth", caption, (panel,))


def progress(rows: Sequence[Row]) -> Figure | None:
    """Accuracy at the evaluations made while training."""
    checks = [(row, run) for row in rows for run in row.runs if run.checks]
    if not checks:
        return None
    updates = [check.update for _, run in checks for check in run.checks]
    panel = Panel(linear([0, *updates], "optimizer updates"), shares("accuracy"), "Accuracy during training")
    for row in rows:
        seeds = [run for run in row.runs if run.checks]
        many = len(seeds) > 1
        for run in seeds if many else []:
            name = f"{row.label}, seed {run.seed}, joint"
            panel.line([(check.update, check.joint) for check in run.checks], f"thin {row.css}", name=name)
        found: dict[int, list[Check]] = {}
        for run in seeds:
            for check in run.checks:
                found.setdefault(check.update, []).append(check)
        token = [(x, _mean(check.token for check in found[x])) for x in sorted(found)]
        joint = [(x, _mean(check.joint for check in found[x])) for x in sorted(found)]
        panel.line(token, f"dashed {row.css}", name=f"{mean_of(row, len(seeds))}, token")
        panel.line(joint, row.css, key=row.key, name=f"{mean_of(row, len(seeds))}, joint")
    steps = sorted({check.steps for _, run in checks for check in run.checks if check.steps is not None})
    at = f" after {', '.join(map(str, steps))} recurrent steps" if steps else ""
    caption = f"Solid: joint accuracy; dashed: token accuracy{at}. Thin lines, where there are any, are single seeds."
    return Figure("Accuracy during training", caption, (panel,))


def by_position(rows: Sequence[Row], values: Callable[[Depth], Series], name: str) -> tuple[Panel, ...]:
    """A quantity against the position in the word, one panel for each depth at which it was measured."""
    panels = []
    for steps in sorted({steps for row in rows for steps in row.depths}):
        lines = [(row, [values(depth) for depth in row.at(steps) if values(depth)]) for row in rows]
        length = max((len(seed) for _, seeds in lines for seed in seeds), default=0)
        if not length:
            continue
        trained = ", trained" if any(row.trained_steps == steps for row in rows) else ""
        heading = f"{steps} steps{trained}"
        panel = Panel(
            linear([1, length], "position", 4), shares(""), f"{name} at {heading}", 250.0, 190.0, heading, 30.0
        )
        for row, seeds in lines:
            for seed in seeds if len(seeds) > 1 else []:
                panel.line(enumerate(seed, start=1), f"thin {row.css}", name=one_of(row))
            panel.line(enumerate(_along(seeds), start=1), row.css, key=row.key, name=mean_of(row, len(seeds)))
        panels.append(panel)
    return tuple(panels)


def loss(rows: Sequence[Row]) -> Figure | None:
    """The training loss, and under it the length of the words it was taken on."""
    return _history(rows, "Loss", ("training loss (nats)", lambda update: update.loss), ("length (tokens)", _length))


def gradient(rows: Sequence[Row]) -> Figure | None:
    """The norm of the gradient, and under it the learning rate."""
    above = ("gradient norm", lambda update: update.gradient_norm)
    return _history(rows, "Gradient", above, ("learning rate", lambda update: update.learning_rate))


def lag(rows: Sequence[Row]) -> tuple[Panel, ...]:
    """Mean cosine between two steps against their distance, over own blocks and over the whole vector."""
    scopes: list[tuple[str, Callable[[Geometry], Series]]] = [
        ("own blocks", lambda geometry: geometry.lag_own),
        ("whole vector", lambda geometry: geometry.lag_whole),
    ]
    panels = []
    for name, values in scopes:
        lines = [
            (row, values(run.geometry)) for row in rows for run in row.runs if run.geometry and values(run.geometry)
        ]
        if not lines:
            continue
        longest = max(len(line) for _, line in lines)
        low = min((value for _, line in lines for value in line if value is not None), default=0.0)
        ticks = tuple(
            (value, text) for value, text in ((-1.0, "−1"), (-0.5, "−.5"), (0.0, "0"), (0.5, ".5"), (1.0, "1"))
        )
        bottom = -1.0 if low < -0.5 else -0.5 if low < 0 else 0.0
        up = Axis(bottom, 1.0, "mean cosine", tuple(tick for tick in ticks if tick[0] >= bottom))
        panel = Panel(linear([0, longest - 1], "lag (recurrent steps)"), up, f"Lag cosine, {name}", heading=name)
        for row in rows:
            seeds = [line for other, line in lines if other is row]
            for seed in seeds if len(seeds) > 1 else []:
                panel.line(enumerate(seed), f"thin {row.css}", name=one_of(row))
            panel.line(enumerate(_along(seeds)), row.css, key=row.key, name=mean_of(row, len(seeds)))
        panels.append(panel)
    return tuple(panels)


def mean_of(row: Row, seeds: int) -> str:
    """What the line of a row is called: the row itself, or the mean over so many seeds of it."""
    return row.label if seeds < 2 else f"{row.label}, mean of {seeds} seeds"


def one_of(row: Row) -> str:
    """What the thin line of a single seed is called."""
    return f"{row.label}, one seed"


def _length(update: Update) -> float | None:
    return update.length


def _history(rows: Sequence[Row], title: str, above: Quantity, below: Quantity) -> Figure | None:
    """A noisy quantity of each update, and under it one that is set, on the same updates."""
    label, value = above
    noisy = {row.key: [seed for run in row.runs if (seed := _points(run, value))] for row in rows}
    every = [point for seeds in noisy.values() for seed in seeds for point in seed]
    if not every:
        return None
    first, last = min(update for update, _ in every), max(update for update, _ in every)
    across = linear([first, last], "optimizer updates")
    heights = [height for _, height in every]
    wide = min(heights) > 0 and max(heights) > 20 * min(heights)
    up = decades(heights, f"{label}, log scale") if wide else linear([0, *heights], label)
    panel = Panel(across, up, label)
    for row in rows:
        seeds = noisy[row.key]
        together = bins([point for seed in seeds for point in seed], first, last)
        panel.band([(entry.update, entry.low, entry.high) for entry in together], row.css)
        for seed in seeds if len(seeds) > 1 else []:
            means = [(entry.update, entry.mean) for entry in bins(seed, first, last)]
            panel.line(means, f"thin {row.css}", name=one_of(row))
        means = [(entry.update, entry.mean) for entry in together]
        panel.line(means, row.css, key=row.key, name=mean_of(row, len(seeds)))
    window = -(-(last - first + 1) // BINS)
    caption = (
        f"Line: mean over {window} updates; shade: the smallest and the largest among them. " if window > 1 else ""
    )
    lost = sum(value(update) is None for row in rows for run in row.runs for update in run.updates or ())
    caption += f"Left out, absent or not finite: {lost}. " if lost else ""
    panels, said = _schedule(rows, across, below)
    return Figure(title, caption + said, (panel, *panels))


def _schedule(rows: Sequence[Row], across: Axis, below: Quantity) -> tuple[tuple[Panel, ...], str]:
    """The panel of a quantity that is set by a schedule, or the sentence that says that it never changed."""
    label, value = below
    found = {row.key: next((points for run in row.runs if (points := _points(run, value))), []) for row in rows}
    heights = [height for points in found.values() for _, height in points]
    if not heights:
        return (), ""
    if len(set(heights)) == 1:
        return (), f"{label.partition(' (')[0].capitalize()} {heights[0]:g} at every update."
    panel = Panel(across, linear([0, *heights], label, 4), label, height=150.0)
    for row in rows:
        points, last = found[row.key], len(found[row.key]) - 1
        turns = [point for at, point in enumerate(points) if at in (0, last) or points[at - 1][1] != point[1]]
        panel.stairs(turns, row.css, row.key, row.label)
    return (panel,), f"Below: the {label.partition(' (')[0]} (of the first seed)."


def _points(run: Run, value: Callable[[Update], float | None]) -> list[tuple[int, float]]:
    return [(update.update, found) for update in run.updates or () if (found := value(update)) is not None]


def _along(seeds: list[Series]) -> list[float | None]:
    """The mean over seeds at each place."""
    longest = max(map(len, seeds), default=0)
    return [_mean(seed[index] for seed in seeds if index < len(seed)) for index in range(longest)]


def _mean(values: Iterable[float | None]) -> float | None:
    found = mean(list(values))
    return found.value if found else None

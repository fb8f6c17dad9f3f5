"""The charts of state tracking: accuracy by position to a million, and the stages of a training."""

from collections.abc import Sequence

from torsor.report.charts import Axis, Panel, Real, linear, shares
from torsor.report.figure import Figure
from torsor.report.numbers import Series
from torsor.report.rows import Row
from torsor.report.tracking_run import LengthScores, StageRecord, Streamed, Tracking
from torsor.report.wording import whole

_UNBROKEN = (
    "Share of the words without an error up to and with this position. Solid: words read whole, the longest; dashed: "
    "words read on to their first error, with their Clopper-Pearson interval (95 %)."
)
_RIGHT = (
    "Share of the words answered right at this position, whatever stands before it. Solid: words read whole, the "
    "longest; dashed: words read on to their end, the mean since the dot before. Dotted: chance; upright, the trained "
    "length."
)
_PASSAGE = (
    "The errors at a look say that the cosets of a subgroup of so many elements are told apart, and nothing inside "
    "them. Dots: single looks; bars: stages that lasted. Looks without a stage have no dot, except at 1: there 99 % of "
    "all answers are right."
)


def by_position(tracked: Sequence[tuple[Row, Tracking]]) -> list[Figure]:
    """Unbroken words and right answers against the position, on a logarithmic axis as long as the longest word."""
    longest = max(_longest(tracking) for _, tracking in tracked)
    axis = positions(longest)
    unbroken = Panel(axis, shares("words without an error"), "Words without an error by position")
    right = Panel(axis, shares("accuracy"), "Accuracy by position")
    for length in sorted({tracking.train_length for _, tracking in tracked if tracking.train_length}):
        for panel in (unbroken, right):
            panel.mark(length, "trained")
    for row, tracking in tracked:
        scores = tracking.main.lengths[-1]
        streamed = tracking.streamed
        unbroken.line(_against(scores, scores.curve), row.css, key="" if streamed else row.key)
        right.line(_against(scores, scores.right), row.css, key="" if streamed and streamed.right else row.key)
        if tracking.streamed:
            _read_on(unbroken, row, tracking.streamed)
            _read_to_the_end(right, row, tracking.streamed)
    for chance in sorted({scores.chance for scores in _lasts(tracked) if scores.chance}):
        right.line([(axis.low, chance), (axis.high, chance)], "chance", title=f"chance, {chance:.4f}")
    return [
        Figure("Right up to position k", _UNBROKEN, (unbroken,)),
        Figure("Right at position k", _RIGHT, (right,)),
    ]


def positions(longest: int) -> Axis:
    """A logarithmic axis from 1, its ticks powers of ten."""
    high = max(longest, 10)
    ticks = [10**power for power in range(len(str(high))) if 10**power <= high]
    return Axis(1, high, "position (log scale)", tuple((tick, whole(tick)) for tick in ticks), logarithmic=True)


def passage(recorded: Sequence[tuple[Row, StageRecord]]) -> Figure | None:
    """The subgroups whose cosets a model told apart while it was trained, by their order; None where there was none."""
    orders = {1}
    updates: list[Real] = [0]
    for _, record in recorded:
        orders |= {check.stage.order for check in record.checks if check.stage}
        orders |= {held.stage.order for held in record.held}
        updates += [check.update for check in record.checks] + [held.last for held in record.held]
    if len(orders) == 1:  # no stage was seen
        return None
    ticks = tuple((order, str(order)) for order in sorted(orders))
    axis = Axis(0.8, 1.25 * max(2, *orders), "order of the subgroup (log scale)", ticks, logarithmic=True)
    panel = Panel(linear(updates, "optimizer updates"), axis, "Coset stages during training")
    for row, record in recorded:
        for held in record.held:
            ends = [(held.first, held.stage.order), (held.last, held.stage.order)]
            panel.line(ends, f"{row.css} stage", title=f"{row.label}: {held.stage.name}, {held.first} to {held.last}")
        points = [
            (check, check.stage.order if check.stage else 1) for check in record.checks if check.stage or check.exact
        ]
        for check, order in points:
            found = check.stage.name if check.stage else "exact"
            panel.dot((check.update, order), row.css, f"{row.label}, update {check.update}: {found}", radius=2.6)
        if points:
            panel.line([(points[-1][0].update, points[-1][1])], row.css, key=row.key)
    return Figure("Coset stages during training", _PASSAGE, (panel,))


def _against(scores: LengthScores, values: Series) -> list[tuple[Real, Real | None]]:
    return list(zip(scores.positions, values, strict=False))


def _read_to_the_end(panel: Panel, row: Row, streamed: Streamed) -> None:
    panel.line(zip(streamed.positions, streamed.right, strict=False), f"dashed {row.css}", key=row.key)


def _read_on(panel: Panel, row: Row, streamed: Streamed) -> None:
    points = list(zip(streamed.positions, streamed.unbroken, strict=False))
    places = zip(streamed.positions, streamed.intervals, strict=False)
    panel.band([(at, *interval) for at, interval in places if interval], row.css)
    panel.line(points, f"dashed {row.css}", key=row.key)
    for at, value in points:
        if value is not None:
            panel.dot((at, value), row.css, f"{row.label}, {whole(at)} letters: {value:.3f}", radius=2.0)


def _lasts(tracked: Sequence[tuple[Row, Tracking]]) -> list[LengthScores]:
    return [tracking.main.lengths[-1] for _, tracking in tracked]


def _longest(tracking: Tracking) -> int:
    streamed = tracking.streamed.length if tracking.streamed else 1
    return max(streamed, *(scores.length for scores in tracking.main.lengths))

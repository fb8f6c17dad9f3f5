"""The report page: run folders in, one HTML file out."""

from collections.abc import Callable, Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from torsor.report import curves, geometry, missing, sentences, tracking, wording
from torsor.report.figure import Figure, Picture
from torsor.report.own_page import replaces_page
from torsor.report.page_script import page_script
from torsor.report.read import read_run
from torsor.report.rows import Row, gather
from torsor.report.run import Run
from torsor.report.texts import texts_of
from torsor.report.tracking import tracked_of
from torsor.report.whole_file import write_whole

Watch = Callable[[int, int], object]


def _nobody(_done: int, _of: int) -> None: ...


def _unheard(_warning: str) -> None: ...


def write_report(
    runs: Sequence[Path],
    path: Path,
    command: str,
    watch: Watch = _nobody,
    warn: Callable[[str], object] = _unheard,
) -> Path:
    """Write the report of training runs as one HTML file that needs no other file and no network.

    Equal run folders give equal bytes. Runs that differ in nothing but the seed are one row of the report: its numbers
    are means over the seeds, and every seed is shown.

    Args:
        runs: the folders that training runs wrote, at least one.
        path: the file to write, a new one or an earlier page; its folder is made where it is missing.
        command: the command line that asked for the report, printed on it.
        watch: is told how many of the runs have been read, and how many there are.
        warn: is told of a run whose log was truncated, in one line.

    Returns:
        The path of the file.

    Raises:
        ValueError: when there is no run, when a folder is not a run folder or holds a damaged file, when a file is
            there that is no page of torsor's, or when the page cannot be written.
    """
    if not runs:
        raise ValueError("runs must hold at least one run folder, got none")
    replaces_page(path)  # refuses what is no page before the work
    read: list[Run] = []
    for run in runs:
        watch(len(read), len(runs))
        read.append(read_run(Path(run)))
        if read[-1].damage:
            warn(f"{run}: {read[-1].damage}")
    watch(len(runs), len(runs))
    table = gather(read)
    page = _page(table, command)
    write_whole(path, page.encode())
    return path


def _page(table: tuple[Row, ...], command: str) -> str:
    environment = Environment(
        loader=PackageLoader("torsor", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script, script_hash = page_script()
    square = f"{geometry.LEFT:g} {geometry.TOP:g} {geometry.SIDE:g}"
    environment.globals.update(wording=wording, block_names=geometry.block_names, tracking=tracking, square=square)
    words = tuple(row for row in table if not row.reads_text and not row.foreign)
    looped = tuple(row for row in words if row.looped)
    texts, tracked = texts_of(table), tracked_of(table)
    foreign = tracked.names if tracked and any(row.foreign for row in table) else ()
    return environment.get_template("template.html.j2").render(
        rows=table,
        command=command,
        script=script,
        script_hash=script_hash,
        words=words,
        looped=looped,
        texts=texts,
        tracked=tracked,
        tasks=[*_tasks(words), *(texts.names if texts else ()), *foreign],
        experiments=sorted({run.experiment for row in table for run in row.runs if run.experiment}),
        depths=sorted({steps for row in words for steps in row.depths}),
        trained={row.trained_steps for row in words},
        at=sentences.reference_depths(words),
        reading=[*(sentences.reading(looped) if looped else ()), *(texts.reading if texts else ())],
        geometry_reading=sentences.geometry_reading(table),
        accuracy=_accuracy(words),
        training=[figure for figure in (curves.loss(words), curves.gradient(words)) if figure],
        lag=Figure("Cosine against lag", _LAG, curves.lag(table), "pair"),
        portraits=_portraits(table),
        glyphs=_glyphs(table),
        missing=missing.of_words(words),
    )


_LAG = (
    "Mean cosine between the state a step carries and the state k steps later. A value of 1 at every lag means that "
    "what different steps wrote cannot be told apart by direction."
)
_CURVE = "Share of the words answered right at every position up to and with this one. It can only fall."
_POSITION = "Share of the words answered right at this position, whatever stands before it."


def _accuracy(table: tuple[Row, ...]) -> list[Figure]:
    strips = [
        Figure(
            "Right up to position k, C(k)",
            _CURVE,
            curves.by_position(table, lambda depth: depth.curve, "C(k)"),
            "strip",
        ),
        Figure(
            "Right at position k",
            _POSITION,
            curves.by_position(table, lambda depth: depth.position, "Accuracy at each position"),
            "strip",
        ),
    ]
    figures = [curves.by_depth(table), curves.progress(table), *strips]
    return [figure for figure in figures if figure and figure.panels]


def _portraits(table: tuple[Row, ...]) -> list[tuple[Row, Run, Figure]]:
    """One for each row that was measured, of its first seed that was."""
    half, scale = geometry.reach(table), geometry.deviation_scale(table)
    found = []
    for row in table:
        run = next((run for run in row.runs if run.geometry), None)
        if run and run.geometry:
            found.append((row, run, geometry.portrait(run.geometry, half, scale)))
    return found


def _glyphs(table: tuple[Row, ...]) -> dict[str, Picture]:
    """The trained spectrum of each row that was measured, small and without words."""
    half = geometry.reach(table)
    first = {row.key: next((run.geometry for run in row.runs if run.geometry), None) for row in table}
    return {key: geometry.glyph(found, half) for key, found in first.items() if found and found.spectrum}


def _tasks(table: tuple[Row, ...]) -> list[str]:
    found = dict.fromkeys(run.evaluation.task for row in table for run in row.runs if run.evaluation)
    return [wording.task_name(task) for task in found]

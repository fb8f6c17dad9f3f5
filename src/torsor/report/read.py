"""A run folder, read into plain values: what is absent or not a finite number becomes None."""

from pathlib import Path

from torsor.advice import has_lost_run_file, no_run
from torsor.report.json_values import (
    a_list,
    a_matrix,
    a_number,
    a_pair,
    a_series,
    a_text,
    a_whole,
    an_object,
    json_file,
    json_lines,
)
from torsor.report.read_tracking import read_stages, read_tracking, recorded_tracking, with_proof
from torsor.report.run import (
    Check,
    Depth,
    Evaluation,
    Examined,
    Geometry,
    Part,
    Run,
    Sample,
    Spread,
    Task,
    Text,
    TextScores,
    Update,
)
from torsor.report.tracking_run import Tracking

FORMAT = 1
PARTS = ("validation", "test")


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Args:
        folder: the folder a training run wrote: ``run.json``, and of ``metrics.jsonl``, ``timing.jsonl``,
            ``evaluation.json``, ``geometry.json``, ``generated.json`` and ``tracking.json`` those that were made; or
            the folder of a user's own model, with ``tracking.json`` alone.

    Raises:
        ValueError: when the folder has no ``run.json`` or ``tracking.json`` of this format, or when a file is
            not JSON.
    """
    tracking = read_tracking(folder)
    if tracking and not (folder / "run.json").is_file():
        return foreign_run(folder, tracking)
    if not (folder / "run.json").is_file():
        lost = f"; {no_run(folder)}" * has_lost_run_file(folder)
        raise ValueError(f"a run must be a folder with a run.json, got {folder}{lost}")
    about = an_object(json_file(folder / "run.json"))
    if about.get("format") != FORMAT:
        raise ValueError(f"{folder / 'run.json'} must have format {FORMAT}, got {about.get('format')!r}")
    about = an_object(about.get("about")) | about
    seed = a_whole(about.get("seed"))
    metrics, timing = json_lines(folder / "metrics.jsonl"), json_lines(folder / "timing.jsonl")
    evaluation, geometry = json_file(folder / "evaluation.json"), json_file(folder / "geometry.json")
    label = a_text(about.get("label")) or folder.resolve().name.removesuffix(f"-{seed}")
    arguments, checks = an_object(about.get("arguments")), tuple(_checks(metrics or []))
    scores = None if evaluation is None else an_object(evaluation)
    text = _text_learned(scores, checks, arguments)
    spent = [(a_number(line.get("seconds")), _tokens(line)) for line in timing or []]
    seconds = [value for value, _ in spent if value is not None]
    tokens = [value for _, value in spent if value is not None]
    return Run(
        folder=folder,
        # The seed is no part of a row's name: runs of one row differ in nothing else.
        label=label,
        experiment=a_text(about.get("experiment")) or "",
        arguments=arguments,
        seed=seed,
        versions={name: str(version) for name, version in an_object(about.get("versions")).items()},
        threads=a_whole(about.get("threads")),
        status=a_text(about.get("status")),
        command=a_text(about.get("command")),
        parameters=a_whole(about.get("parameters")),
        updates=None if metrics is None else tuple(_updates(metrics)),
        checks=checks,
        seconds=sum(seconds) if seconds else None,
        tokens=sum(tokens) if tokens else None,
        evaluation=_evaluation(scores) if scores is not None and text is None else None,
        text=text,
        text_scores=_text_scores(scores, text) if scores is not None and text is not None else None,
        geometry=None if geometry is None else _geometry(an_object(geometry)),
        tracking=with_proof(tracking or recorded_tracking(scores, label), scores),
        stages=read_stages(metrics or [], scores),
        sample=_sample(an_object(json_file(folder / "generated.json"))),
        damage=_lost(metrics, a_whole(an_object(about.get("checkpoint")).get("update"))),
    )


def foreign_run(folder: Path, tracking: Tracking) -> Run:
    """The folder of a model that was examined and not trained here."""
    return Run(
        folder=folder,
        label=tracking.model,
        experiment="",
        arguments={},
        seed=None,
        versions={},
        threads=None,
        status="finished",
        command=tracking.command,
        parameters=None,
        updates=None,
        checks=(),
        seconds=None,
        tokens=None,
        evaluation=None,
        text=None,
        text_scores=None,
        geometry=None,
        tracking=tracking,
        foreign=True,
    )


def _lost(metrics: list[dict[str, object]] | None, saved: int | None) -> str | None:
    """What the log no longer holds of the updates that the checkpoint was written after."""
    if metrics is None or saved is None:
        return None
    last = max((update for line in metrics if (update := a_whole(line.get("update"))) is not None), default=0)
    return f"metrics.jsonl is truncated: it ends at update {last} of {saved}" if last < saved else None


def _tokens(line: dict[str, object]) -> float | None:
    """The tokens of an update, given as such or as their rate."""
    seconds, rate = a_number(line.get("seconds")), a_number(line.get("tokens_per_second"))
    return seconds * rate if seconds is not None and rate is not None else a_number(line.get("tokens"))


def _updates(metrics: list[dict[str, object]]) -> list[Update]:
    found = []
    for line in metrics:
        update = a_whole(line.get("update"))
        if update is not None and "loss" in line:
            names = ("loss", "gradient_norm", "learning_rate", "length")
            found.append(Update(update, *(a_number(line.get(name)) for name in names)))
    return found


def _checks(metrics: list[dict[str, object]]) -> list[Check]:
    found = []
    for line in metrics:
        update, score = a_whole(line.get("update")), an_object(line.get("evaluation"))
        if update is not None and score:
            joint, token, last, bits = (a_number(score.get(name)) for name in ("joint", "token", "last", "bits"))
            found.append(Check(update, a_whole(score.get("steps")), joint, token, last, bits))
    return found


def _text_learned(
    scores: dict[str, object] | None, checks: tuple[Check, ...], arguments: dict[str, object]
) -> Text | None:
    """The text that was learned, or None where it was words; before the scores, the looks at training tell which."""
    if scores is not None:
        if "text" not in scores:
            return None
        text = an_object(scores["text"])
        name, split, sha256 = (a_text(text.get(key)) for key in ("name", "split", "sha256"))
        return Text(name, split, sha256, a_whole(text.get("symbols")))
    # How the text is cut stands in the scores alone: an argument may ask for a split that a text does not have.
    name = a_text(arguments.get("text"))
    return Text(name, None, None, None) if name or any(check.bits is not None for check in checks) else None


def _text_scores(scores: dict[str, object], text: Text) -> TextScores:
    found = {name: an_object(scores.get(name)) for name in PARTS if name in scores}
    parts = (Part(name, a_whole(part.get("characters")), a_text(part.get("protocol"))) for name, part in found.items())
    bits = {name: a_number(part.get("bits_per_character")) for name, part in found.items()}
    return TextScores(Examined(text, tuple(parts)), bits)


def _evaluation(data: dict[str, object]) -> Evaluation:
    task = an_object(data.get("task"))
    depths = [depth for entry in a_list(data.get("depths")) if (depth := _depth(an_object(entry))) is not None]
    group, alphabet = a_text(task.get("group")), a_text(task.get("alphabet"))
    return Evaluation(
        Task(group, a_whole(task.get("length")), alphabet, a_whole(task.get("words"))),
        a_whole(data.get("trained_steps")),
        tuple(sorted(depths, key=lambda depth: depth.steps)),
    )


def _depth(entry: dict[str, object]) -> Depth | None:
    steps = a_whole(entry.get("steps"))
    if steps is None or steps < 1:
        return None
    return Depth(
        steps=steps,
        joint=a_number(entry.get("joint")),
        interval=a_pair(entry.get("joint_interval")),
        last=a_number(entry.get("last")),
        token=a_number(entry.get("token")),
        conditional=a_number(entry.get("conditional")),
        conditional_count=a_whole(entry.get("conditional_count")),
        curve=a_series(entry.get("curve")),
        position=a_series(entry.get("position")),
    )


def _geometry(data: dict[str, object]) -> Geometry:
    lag, readability, toeplitz = (an_object(data.get(name)) for name in ("lag_cosine", "readability", "toeplitz"))
    spectrum = []
    for entry in a_list(data.get("spectrum")):
        real, imaginary, block = (*a_series(entry), None, None, None)[:3]
        if real is not None and imaginary is not None:
            spectrum.append((real, imaginary, int(block or 0)))
    initial = an_object(data.get("initial"))
    blocks = [a_pair(block) for block in a_list(data.get("blocks"))]
    return Geometry(
        blocks=tuple((int(block[0]), int(block[1])) for block in blocks if block),
        spectrum=tuple(spectrum),
        gram=a_matrix(data.get("gram")),
        gram_own=tuple(a_matrix(matrix) for matrix in a_list(data.get("gram_own"))),
        lag_own=a_series(lag.get("own")),
        lag_whole=a_series(lag.get("whole")),
        readability_own=a_number(readability.get("own")),
        readability_whole=a_number(readability.get("whole")),
        readability_formula=a_text(readability.get("formula")),
        toeplitz_own=_spread(toeplitz.get("own")),
        toeplitz_whole=_spread(toeplitz.get("whole")),
        toeplitz_formula=a_text(toeplitz.get("formula")),
        steps=a_whole(toeplitz.get("steps")),
        probes=a_whole(toeplitz.get("probes")),
        initial=_geometry(initial) if initial else None,
    )


def _sample(data: dict[str, object]) -> Sample | None:
    prompt, text = data.get("prompt"), data.get("text")
    if not isinstance(prompt, str) or not isinstance(text, str):
        return None
    seed, steps = a_whole(data.get("seed")), a_whole(data.get("steps"))
    return Sample(prompt, text, a_number(data.get("temperature")), seed, steps, a_text(data.get("ended")))


def _spread(value: object) -> Spread:
    return Spread(a_number(an_object(value).get("mean")), a_number(an_object(value).get("std")))

"""A run folder, read into plain values: what is absent or not a finite number becomes None."""

import json
import math
from pathlib import Path

from torsor.report.run import (
    Check,
    Depth,
    Evaluation,
    Examined,
    Geometry,
    Interval,
    Matrix,
    Part,
    Run,
    Series,
    Spread,
    Task,
    Text,
    TextScores,
    Update,
)

FORMAT = 1
PARTS = ("validation", "test")


def read_run(folder: Path) -> Run:
    """Read a run folder.

    Args:
        folder: the folder a training run wrote: ``run.json``, and of ``metrics.jsonl``, ``timing.jsonl``,
            ``evaluation.json`` and ``geometry.json`` those that were made.

    Raises:
        ValueError: when the folder has no ``run.json`` of this format, or when a file is not JSON.
    """
    if not (folder / "run.json").is_file():
        raise ValueError(f"a run must be a folder with a run.json, got {folder}")
    about = _object(_json(folder / "run.json"))
    if about.get("format") != FORMAT:
        raise ValueError(f"{folder / 'run.json'} must have format {FORMAT}, got {about.get('format')!r}")
    about = _object(about.get("about")) | about
    seed = _integer(about.get("seed"))
    metrics, timing = _lines(folder / "metrics.jsonl"), _lines(folder / "timing.jsonl")
    evaluation, geometry = _json(folder / "evaluation.json"), _json(folder / "geometry.json")
    arguments, checks = _object(about.get("arguments")), tuple(_checks(metrics or []))
    scores = None if evaluation is None else _object(evaluation)
    text = _text_learned(scores, checks, arguments)
    spent = [(_number(line.get("seconds")), _tokens(line)) for line in timing or []]
    seconds = [value for value, _ in spent if value is not None]
    tokens = [value for _, value in spent if value is not None]
    return Run(
        folder=folder,
        # The seed is no part of a row's name: runs of one row differ in nothing else.
        label=_text(about.get("label")) or folder.resolve().name.removesuffix(f"-{seed}"),
        experiment=_text(about.get("experiment")) or "",
        arguments=arguments,
        seed=seed,
        versions={name: str(version) for name, version in _object(about.get("versions")).items()},
        threads=_integer(about.get("threads")),
        status=_text(about.get("status")),
        command=_text(about.get("command")),
        parameters=_integer(about.get("parameters")),
        updates=None if metrics is None else tuple(_updates(metrics)),
        checks=checks,
        seconds=sum(seconds) if seconds else None,
        tokens=sum(tokens) if tokens else None,
        evaluation=_evaluation(scores) if scores is not None and text is None else None,
        text=text,
        text_scores=_text_scores(scores, text) if scores is not None and text is not None else None,
        geometry=None if geometry is None else _geometry(_object(geometry)),
    )


def _tokens(line: dict[str, object]) -> float | None:
    """The tokens of an update, given as such or as their rate."""
    seconds, rate = _number(line.get("seconds")), _number(line.get("tokens_per_second"))
    return seconds * rate if seconds is not None and rate is not None else _number(line.get("tokens"))


def _updates(metrics: list[dict[str, object]]) -> list[Update]:
    found = []
    for line in metrics:
        update = _integer(line.get("update"))
        if update is not None and "loss" in line:
            names = ("loss", "gradient_norm", "learning_rate", "length")
            found.append(Update(update, *(_number(line.get(name)) for name in names)))
    return found


def _checks(metrics: list[dict[str, object]]) -> list[Check]:
    found = []
    for line in metrics:
        update, score = _integer(line.get("update")), _object(line.get("evaluation"))
        if update is not None and score:
            joint, token, last, bits = (_number(score.get(name)) for name in ("joint", "token", "last", "bits"))
            found.append(Check(update, _integer(score.get("steps")), joint, token, last, bits))
    return found


def _text_learned(
    scores: dict[str, object] | None, checks: tuple[Check, ...], arguments: dict[str, object]
) -> Text | None:
    """The text that was learned, or None where it was words; before the scores, the looks at training tell which."""
    if scores is not None:
        if "text" not in scores:
            return None
        text = _object(scores["text"])
        name, split, sha256 = (_text(text.get(key)) for key in ("name", "split", "sha256"))
        return Text(name, split, sha256, _integer(text.get("symbols")))
    # How the text is cut stands in the scores alone: an argument may ask for a split that a text does not have.
    name = _text(arguments.get("text"))
    return Text(name, None, None, None) if name or any(check.bits is not None for check in checks) else None


def _text_scores(scores: dict[str, object], text: Text) -> TextScores:
    found = {name: _object(scores.get(name)) for name in PARTS if name in scores}
    parts = (Part(name, _integer(part.get("characters")), _text(part.get("protocol"))) for name, part in found.items())
    bits = {name: _number(part.get("bits_per_character")) for name, part in found.items()}
    return TextScores(Examined(text, tuple(parts)), bits)


def _evaluation(data: dict[str, object]) -> Evaluation:
    task = _object(data.get("task"))
    depths = [depth for entry in _list(data.get("depths")) if (depth := _depth(_object(entry))) is not None]
    group, alphabet = _text(task.get("group")), _text(task.get("alphabet"))
    return Evaluation(
        Task(group, _integer(task.get("length")), alphabet, _integer(task.get("words"))),
        _integer(data.get("trained_steps")),
        tuple(sorted(depths, key=lambda depth: depth.steps)),
    )


def _depth(entry: dict[str, object]) -> Depth | None:
    steps = _integer(entry.get("steps"))
    if steps is None or steps < 1:
        return None
    return Depth(
        steps=steps,
        joint=_number(entry.get("joint")),
        interval=_pair(entry.get("joint_interval")),
        last=_number(entry.get("last")),
        token=_number(entry.get("token")),
        conditional=_number(entry.get("conditional")),
        conditional_count=_integer(entry.get("conditional_count")),
        curve=_series(entry.get("curve")),
        position=_series(entry.get("position")),
    )


def _geometry(data: dict[str, object]) -> Geometry:
    lag, readability, toeplitz = (_object(data.get(name)) for name in ("lag_cosine", "readability", "toeplitz"))
    spectrum = []
    for entry in _list(data.get("spectrum")):
        real, imaginary, block = (*_series(entry), None, None, None)[:3]
        if real is not None and imaginary is not None:
            spectrum.append((real, imaginary, int(block or 0)))
    initial = _object(data.get("initial"))
    blocks = [_pair(block) for block in _list(data.get("blocks"))]
    return Geometry(
        blocks=tuple((int(block[0]), int(block[1])) for block in blocks if block),
        spectrum=tuple(spectrum),
        gram=_matrix(data.get("gram")),
        gram_own=tuple(_matrix(matrix) for matrix in _list(data.get("gram_own"))),
        lag_own=_series(lag.get("own")),
        lag_whole=_series(lag.get("whole")),
        readability_own=_number(readability.get("own")),
        readability_whole=_number(readability.get("whole")),
        readability_formula=_text(readability.get("formula")),
        toeplitz_own=_spread(toeplitz.get("own")),
        toeplitz_whole=_spread(toeplitz.get("whole")),
        toeplitz_formula=_text(toeplitz.get("formula")),
        steps=_integer(toeplitz.get("steps")),
        probes=_integer(toeplitz.get("probes")),
        initial=_geometry(initial) if initial else None,
    )


def _spread(value: object) -> Spread:
    return Spread(_number(_object(value).get("mean")), _number(_object(value).get("std")))


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _object(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list:
    return value if isinstance(value, list) else []


def _series(value: object) -> Series:
    return tuple(_number(entry) for entry in _list(value))


def _pair(value: object) -> Interval | None:
    match _series(value):
        case (float(low), float(high)):
            return low, high
        case _:
            return None


def _matrix(value: object) -> Matrix:
    return tuple(_series(row) for row in _list(value))


def _json(path: Path) -> object:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} must be JSON, got: {error}") from error


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise ValueError(f"{path} must be text in UTF-8, got: {error}") from error


def _lines(path: Path) -> list[dict[str, object]] | None:
    if not path.is_file():
        return None
    found, lines = [], _text_of(path).splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            found.append(_object(json.loads(line)) if line.strip() else {})
        except ValueError as error:
            # A run that was cut off while it wrote leaves half a line at the end; anywhere else it is damage.
            if number < len(lines):
                raise ValueError(f"{path} must hold one JSON object a line, got at line {number}: {error}") from error
    return found

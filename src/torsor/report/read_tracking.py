"""``tracking.json`` and the stage records of a run, read into plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from torsor.report.json_values import a_list, a_number, a_pair, a_series, a_text, a_whole, an_object, json_file
from torsor.report.numbers import Interval
from torsor.report.tracking_run import (
    AbelianControl,
    Confused,
    LengthScores,
    Placed,
    Reach,
    Reading,
    StageCheck,
    StageFound,
    StageHeld,
    StageRecord,
    Streamed,
    Tracking,
)
from torsor.report.wording import whole

TRACKING, FORMAT = "tracking.json", 1
EXACT = 0.99  # of all positions, where a run is taken to be beyond every stage


def read_tracking(folder: Path) -> Tracking | None:
    """What ``torsor track`` has found of a model, or None where it has not been asked.

    Args:
        folder: a run folder, or that of a user's own model.

    Raises:
        ValueError: when the file is not JSON, of another format, or holds no scores.
    """
    found = json_file(folder / TRACKING)
    if found is None:
        return None
    content = an_object(found)
    if content.get("format") != FORMAT:
        raise ValueError(f"{folder / TRACKING} must have format {FORMAT}, got {content.get('format')!r}")
    task = an_object(content.get("task"))
    readings = tuple(reading for entry in a_list(content.get("readings")) if (reading := _reading(an_object(entry))))
    if not readings:
        raise ValueError(f"{folder / TRACKING} must hold scores, got none")
    edges = (a_pair(edge) for edge in a_list(content.get("edges")))
    return Tracking(
        model=a_text(content.get("model")) or folder.resolve().name,
        command=a_text(content.get("command")),
        group=a_text(task.get("group")),
        order=a_whole(task.get("order")),
        alphabet=a_text(task.get("alphabet")),
        letters=a_whole(task.get("letters")),
        train_length=a_whole(task.get("train_length")),
        held_out=len(a_list(task.get("held_out"))),
        trained_steps=a_whole(content.get("trained_steps")),
        readings=readings,
        streamed=_streamed(an_object(content.get("stream"))),
        confused=_confused(an_object(content.get("confusion"))),
        placed=_placed(an_object(content.get("means"))),
        edges=tuple((int(edge[0]), int(edge[1])) for edge in edges if edge),
        proof=_proof(an_object(content.get("closure"))),
    )


def recorded_tracking(scores: Mapping[str, object] | None, label: str) -> Tracking | None:
    """What was scored at several lengths at the end of a training, or None where that was not done.

    Args:
        scores: the content of ``evaluation.json``.
        label: what the row is called.
    """
    content = scores or {}
    lengths = []
    for entry in map(an_object, a_list(content.get("lengths"))):
        token = {"value": entry.get("token")}
        at = {"positions": list(range(1, len(a_list(entry.get("curve"))) + 1))}
        if (found := _length({"length": entry.get("length"), "scores": entry, "token": token, **at})) is not None:
            lengths.append(replace(found, no_stage=None))
    if not lengths:
        return None
    task = an_object(content.get("task"))
    return Tracking(
        model=label,
        command=None,
        group=a_text(task.get("group")),
        order=None,
        alphabet=a_text(task.get("alphabet")),
        letters=None,
        train_length=a_whole(task.get("length")),
        held_out=0,
        trained_steps=None,
        readings=(Reading(None, tuple(lengths)),),
        streamed=_streamed(an_object(content.get("stream"))),
        confused=None,
        placed=None,
        edges=(),
    )


def with_proof(tracking: Tracking | None, scores: Mapping[str, object] | None) -> Tracking | None:
    """The same with what a search for a proof of exactness has said at the end of the training, if it has not already.

    Args:
        tracking: without it.
        scores: the content of ``evaluation.json``, which has it under "closure".
    """
    said = _proof(an_object((scores or {}).get("closure")))
    return replace(tracking, proof=said) if tracking and said and not tracking.proof else tracking


def _proof(closure: Mapping[str, object]) -> str | None:
    """The verdict on all states and letters, in words."""
    states, tried = (whole(a_whole(closure.get(name))) for name in ("states", "transitions"))
    match closure.get("verdict"):
        case "proven":
            return (
                f"Proven at every length: {states} states by every letter, {tried} transitions, all answered rightly."
            )
        case "refuted":
            letters = len(a_list(closure.get("counterexample"))) - 1
            return f"Refuted: a word of {letters} letters goes wrong at its end, after {tried} transitions were tried."
        case "not finite":
            right = whole(a_whole(closure.get("length")))
            return f"No proof: more than {whole(a_whole(closure.get('most')))} states; right up to length {right}."
        case _:
            return None


def read_stages(metrics: Sequence[Mapping[str, object]], scores: Mapping[str, object] | None) -> StageRecord | None:
    """The stages of a training, or None where none were recorded.

    Looks at the errors are ``CosetFit.to_json()`` under "stage" in the evaluations of ``metrics.jsonl``; what lasted
    is ``StageTracker.to_json()`` under "stages" in ``evaluation.json``.

    Args:
        metrics: the lines of ``metrics.jsonl``.
        scores: the content of ``evaluation.json``.
    """
    checks = []
    for line in metrics:
        update, look = a_whole(line.get("update")), an_object(line.get("evaluation"))
        if update is None or "stage" not in look:
            continue
        fit = an_object(look["stage"])
        accuracy = a_number(look.get("token")) if "token" in look else a_number(fit.get("accuracy"))
        checks.append(StageCheck(update, _stage(an_object(fit.get("stage"))), (accuracy or 0.0) >= EXACT))
    held = []
    for entry in a_list(an_object((scores or {}).get("stages")).get("stages")):
        data = an_object(entry)
        stage, first, last = _stage(data), a_whole(data.get("first")), a_whole(data.get("last"))
        if stage and first is not None and last is not None:
            held.append(StageHeld(stage, first, last))
    return StageRecord(tuple(checks), tuple(held)) if checks or held else None


def _stage(data: Mapping[str, object]) -> StageFound | None:
    order = a_whole(data.get("order"))
    if order is None or order < 1:
        return None
    return StageFound(
        order, a_text(data.get("side")) or "right", data.get("normal") is True, a_number(data.get("distance"))
    )


def _reading(entry: Mapping[str, object]) -> Reading | None:
    lengths = [scores for each in a_list(entry.get("lengths")) if (scores := _length(an_object(each)))]
    return Reading(a_whole(entry.get("steps")), tuple(lengths)) if lengths else None


def _length(entry: Mapping[str, object]) -> LengthScores | None:
    length = a_whole(entry.get("length"))
    if length is None or length < 1:
        return None
    scores, token, fit = (an_object(entry.get(name)) for name in ("scores", "token", "stage"))
    reaches = []
    for each in map(an_object, a_list(entry.get("frontiers"))):
        threshold, numbers = a_number(each.get("threshold")), [a_whole(each.get(n)) for n in ("value", "low", "high")]
        if threshold is not None and None not in numbers:
            reaches.append(Reach(threshold, *(number or 0 for number in numbers)))
    return LengthScores(
        length=length,
        words=a_whole(scores.get("words")),
        joint=a_number(scores.get("joint")),
        interval=a_pair(scores.get("joint_interval")),
        token=a_number(token.get("value")),
        token_interval=_ends(token),
        reaches=tuple(reaches),
        chance=a_number(entry.get("chance")),
        ceiling=a_number(an_object(entry.get("ceiling")).get("value")),
        ceiling_kind=a_text(an_object(entry.get("ceiling")).get("kind")),
        abelian=_abelian(entry),
        stage=_stage(an_object(fit.get("stage"))),
        no_stage=a_text(fit.get("reason")) if fit else "no position beyond the frontier",
        window=a_whole(entry.get("window")),
        familiar=a_number(an_object(entry.get("familiar")).get("joint")),
        forced=a_number(an_object(entry.get("forced")).get("joint")),
        positions=_wholes(entry.get("positions")),
        curve=a_series(scores.get("curve")),
        right=a_series(scores.get("position")),
    )


def _abelian(entry: Mapping[str, object]) -> AbelianControl | None:
    subgroup = a_list(entry.get("abelian"))
    for quotient in map(an_object, a_list(entry.get("quotients"))):
        if subgroup and quotient.get("subgroup") == subgroup:
            inside = an_object(quotient.get("exact_given_coset"))
            token, joint, value = (
                a_number(quotient.get("token")),
                a_number(quotient.get("joint")),
                a_number(inside.get("value")),
            )
            return AbelianControl(len(subgroup), token, joint, value, _ends(inside))
    return None


def _streamed(data: Mapping[str, object]) -> Streamed | None:
    length = a_whole(data.get("length"))
    if length is None or length < 1:
        return None
    return Streamed(
        length,
        a_whole(data.get("words")),
        a_number(data.get("joint")),
        a_pair(data.get("joint_interval")),
        a_whole(data.get("frontier")),
        _wholes(data.get("positions")),
        a_series(data.get("unbroken")),
        tuple(a_pair(each) for each in a_list(data.get("unbroken_intervals"))),
        a_series(data.get("accuracy")),
    )


def _confused(data: Mapping[str, object]) -> Confused | None:
    cosets = [_wholes(coset) for coset in a_list(data.get("cosets"))]
    counts = tuple(a_series(row) for row in a_list(data.get("counts")))
    elements = tuple(element for coset in cosets for element in coset)
    if not elements or len(counts) != len(elements) or any(len(row) != len(elements) for row in counts):
        return None
    return Confused(
        a_whole(data.get("steps")),
        a_whole(data.get("length")),
        a_whole(data.get("first")),
        len(a_list(data.get("subgroup"))),
        a_text(data.get("side")) or "right",
        a_text(data.get("chosen")) or "a subgroup",
        tuple(map(len, cosets)),
        elements,
        counts,
    )


def _placed(data: Mapping[str, object]) -> Placed | None:
    coordinates = tuple(a_series(place) for place in a_list(data.get("coordinates")))
    known = [place for place in coordinates if len(place) == 3 and None not in place]
    if len(known) < 2:
        return None
    return Placed(
        a_text(data.get("of")) or "vectors", a_number(data.get("share")), a_number(data.get("scatter")), coordinates
    )


def _ends(data: Mapping[str, object]) -> Interval | None:
    return a_pair([data.get("low"), data.get("high")])


def _wholes(value: object) -> tuple[int, ...]:
    return tuple(int(number) for number in a_series(value) if number is not None)

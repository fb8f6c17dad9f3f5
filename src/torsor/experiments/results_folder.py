"""What an examination has found, in files: everything as JSON, the scores and the curves as tables."""

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from torsor.tracking import Tracked
from torsor.training.durable import disk_errors, replace_json, sync_folder

FORMAT = 1
RESULTS, SCORES, CURVES = "tracking.json", "tracking.csv", "tracking-positions.csv"


def require_own_results(folder: Path) -> None:
    """Refuse a folder in which a file of somebody else's has a name of these; one that was cut off is no such file.

    Args:
        folder: where results are to go, which may not be there yet.

    Raises:
        ValueError: naming the file.
    """
    heads = {SCORES: b"steps,length,words,joint,", CURVES: b"read,steps,length,position,right,unbroken"}
    with disk_errors(f"write to {folder}"):
        for name in (RESULTS, SCORES, CURVES):
            path = folder / name
            content = path.read_bytes() if path.exists() else b""
            own = _is_ours(content) if name == RESULTS else content.startswith(heads[name])
            if content and not own:
                raise ValueError(
                    f"out must be a folder whose {name}, if there is one, torsor wrote, {path} is another file: name "
                    "another folder, or move it away"
                )


def _is_ours(content: bytes) -> bool:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return content.startswith(b'{\n  "format": ')  # as far as it goes
    return isinstance(found, dict) and "format" in found and "readings" in found


def save_tracked(tracked: Tracked, folder: Path, command: str = "") -> Path:
    """Write ``tracking.json``, ``tracking.csv`` and ``tracking-positions.csv``, each whole or not at all.

    Args:
        tracked: what was found.
        folder: where the files go; it is made where it is missing.
        command: what a user typed.

    Returns:
        The path of ``tracking.json``, which is written last.

    Raises:
        RunFolderError: when a file cannot be written.
    """
    content = {"format": FORMAT, "command": command, **tracked.to_json()}
    with disk_errors(f"write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        _replace_table(folder / SCORES, score_rows(content))
        _replace_table(folder / CURVES, curve_rows(content))
        replace_json(folder / RESULTS, content)
    return folder / RESULTS


def score_rows(content: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each depth and length: the scores with their intervals, the controls and the stage.

    Args:
        content: of ``tracking.json``.
    """
    return [
        {"steps": reading["steps"], **_scores(entry)} for reading in content["readings"] for entry in reading["lengths"]
    ]


def _scores(entry: dict[str, Any]) -> dict[str, Any]:
    scores, token, stage = entry["scores"], entry["token"], entry["stage"] or {}
    abelian = next((each for each in entry["quotients"] if each["subgroup"] == entry["abelian"]), {})
    inside, found = abelian.get("exact_given_coset") or {}, stage.get("stage") or {}
    apart = {f"{name}_joint": (entry[name] or {}).get("joint") for name in ("familiar", "forced")}
    return {
        "length": entry["length"],
        "words": scores["words"],
        **_with_interval("joint", scores["joint"], scores["joint_interval"]),
        **_with_interval("token", token["value"], [token["low"], token["high"]]),
        **_with_interval("last", scores["last"], scores["last_interval"]),
        **_with_interval("conditional", scores["conditional"], scores["conditional_interval"]),
        "conditional_count": scores["conditional_count"],
        **{f"frontier_{each['threshold']:.2f}": each["value"] for each in entry["frontiers"]},
        "chance": entry["chance"],
        "order_blind": entry["ceiling"]["value"],
        "order_blind_is": entry["ceiling"]["kind"],
        "abelian_joint": abelian.get("joint"),
        "abelian_token": abelian.get("token"),
        "abelian_frontier": abelian["frontier"]["value"] if abelian else None,
        **_with_interval("exact_given_abelian", inside.get("value"), [inside.get("low"), inside.get("high")]),
        "stage_order": found.get("order"),
        "stage_side": found.get("side"),
        "stage_distance": found.get("distance"),
        "no_stage_because": stage.get("reason", "no position beyond the frontier"),
        **apart,
    }


def _with_interval(name: str, value: float | None, interval: Iterable[float | None] | None) -> dict[str, Any]:
    low, high = interval or (None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def curve_rows(content: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each position of each curve: the share right there, and right there and everywhere before.

    Args:
        content: of ``tracking.json``.
    """
    rows = []
    for reading in content["readings"]:
        for entry in reading["lengths"]:
            head = {"read": "whole", "steps": reading["steps"], "length": entry["length"]}
            curves = zip(entry["positions"], entry["scores"]["position"], entry["scores"]["curve"], strict=True)
            rows += [head | {"position": at, "right": right, "unbroken": unbroken} for at, right, unbroken in curves]
    if stream := content["stream"]:
        head = {"read": "stream", "steps": None, "length": stream["length"]}
        curve = zip(stream["positions"], stream["unbroken"], strict=True)
        rows += [head | {"position": at, "right": None, "unbroken": unbroken} for at, unbroken in curve]
    return rows


def _replace_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put a table in the file's place, by writing beside it and renaming; what is None is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(text.getvalue().encode())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)

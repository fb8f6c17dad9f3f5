"""What to do about a run folder that is not as it must be: the words, and the command for the folder in hand."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RUN_FILE = "run.json"


def train_command(stored: str, experiment: str, arguments: Mapping[str, Any], folder: Path) -> str:
    """The command that trains a run in the folder that is in hand, which may have been copied or renamed.

    Args:
        stored: the command that the run remembers; of one that trained several runs, such as ``torsor demo``, only
            that there was one counts.
        experiment: name of the experiment, ``paper/name``.
        arguments: every argument of it, the seed among them.
        folder: where the run lies.

    Returns:
        ``stored`` with ``--out FOLDER`` in place of its own, or with all arguments where it trains no single run;
        nothing where nothing is stored.
    """
    try:
        words = shlex.split(stored)
    except ValueError:  # somebody else wrote it
        return stored
    if not words:
        return ""
    out = ["--out", str(folder)]
    if words[:2] != ["torsor", "train"]:
        options = [typed_option(name, value) for name, value in arguments.items() if value is not None]
        return " ".join([shlex.join(["torsor", "train", experiment]), *options, shlex.join(out)])
    for place, word in enumerate(words):
        name, joined, value = word.partition("=")
        if name == "--out" and (joined or place + 1 < len(words)):
            if Path(value if joined else words[place + 1]) == folder:
                return stored
            return shlex.join([*words[:place], *out, *words[place + (1 if joined else 2) :]])
    return f"{stored} {shlex.join(out)}"


def typed_option(name: str, value: Any) -> str:
    """An argument of an experiment as it is typed.

    Args:
        name: as in Python.
        value: of it.
    """
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option} {shlex.quote(str(value))}"


def anew(folder: Path, command: str = "") -> str:
    """What to do where a file that nothing else holds is damaged or gone, to be put behind a message.

    Args:
        folder: of the run.
        command: that trains it; nothing where nobody knows it any more.
    """
    told = f": {command}" if command else f" the command that made it and {shlex.join(['--out', str(folder)])}"
    return f"put a copy of it back, or delete {folder} and train it anew with{told}"


def no_run(folder: Path) -> str:
    """What is wrong with a folder that has no ``run.json``: it is no run's, or the file was lost.

    Args:
        folder: as typed.

    Returns:
        One line.
    """
    if has_lost_run_file(folder):
        return f"{folder} has lost its {RUN_FILE}, which says what the run is: {anew(folder)}"
    return f"{folder} is no run folder: it has no {RUN_FILE}"


def has_lost_run_file(folder: Path) -> bool:
    """Whether a folder holds what only a run leaves, and no ``run.json``."""
    logs = ("metrics.jsonl", "timing.jsonl")
    left = (folder / "checkpoint" / "state.json").is_file() or all((folder / name).is_file() for name in logs)
    return left and not (folder / RUN_FILE).exists()

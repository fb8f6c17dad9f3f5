"""Which commit of this package a result was made by, where that can be known."""

import os
import subprocess
from functools import cache
from pathlib import Path

import torsor

UNKNOWN = "unknown"
_SECONDS = 10


@cache
def package_commit() -> str:
    """What ``git describe`` says of the checkout that this package is imported from; "unknown" where it is installed.

    Git is asked about that one folder and no other: where it is not the package's own checkout, such as for a
    package installed inside somebody's project, nothing is asked at all.
    """
    return commit_of(Path(torsor.__file__).resolve().parents[2])


def commit_of(checkout: Path) -> str:
    """What ``git describe`` says of a checkout of this package: a commit, and "-dirty" where files were changed.

    Args:
        checkout: the folder that would hold ``src/torsor`` and ``.git``.

    Returns:
        "unknown" where it is no such folder, or git is missing or refuses.
    """
    if not ((checkout / ".git").exists() and (checkout / "src" / "torsor" / "__init__.py").is_file()):
        return UNKNOWN
    # A hook or another tool may have told git of a repository that is not this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    return done.stdout.strip() if done.returncode == 0 else UNKNOWN

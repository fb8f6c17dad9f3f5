"""Write requirements.lock from pip's own report: every file of an environment for development, by its SHA-256.

``python .ci/lock.py REPORT``, where REPORT is what ``pip install --dry-run --ignore-installed --report`` wrote
(``make lock``), prints the lock. It holds for one platform, which its first line names; ``python .ci/lock.py``
leaves with 1 and says so where this is another.
"""

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[1] / "requirements.lock"
HEAD = "# {what}: every file that CI installs, by its SHA-256. Made by: make lock"


def words(environment: dict[str, str]) -> str:
    """What a lock is for, in words."""
    python = f"{environment['implementation_name']} {environment['python_version']}"
    return f"{python}, {environment['sys_platform']} {environment['platform_machine']}"


def locked(report: dict[str, Any]) -> Iterator[str]:
    """A line for each distribution but our own.

    Raises:
        ValueError: when one is no wheel, which is built by code that nobody has checked.
    """
    for each in sorted(report["install"], key=lambda each: each["metadata"]["name"].lower().replace("_", "-")):
        name, version, origin = each["metadata"]["name"], each["metadata"]["version"], each["download_info"]
        if "dir_info" in origin:
            continue
        if not origin["url"].endswith(".whl"):
            raise ValueError(f"{name} must come as a wheel, got {origin['url']}")
        yield f"{name.lower().replace('_', '-')}=={version} --hash=sha256:{origin['archive_info']['hashes']['sha256']}"


def here() -> str:
    """The platform of this interpreter."""
    version = ".".join(platform.python_version_tuple()[:2])
    about = {"implementation_name": sys.implementation.name, "python_version": version}
    return words(about | {"sys_platform": sys.platform, "platform_machine": platform.machine()})


def main() -> None:
    """Print a lock, or see whether the one there is serves here."""
    if len(sys.argv) > 1:
        report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
        print(HEAD.format(what=words(report["environment"])))
        print(*locked(report), sep="\n")
        return
    made_for = LOCK.read_text(encoding="utf-8")[2:].partition(": ")[0]
    if made_for != here():
        sys.exit(f"requirements.lock is for {made_for}, this is {here()}")


if __name__ == "__main__":
    main()

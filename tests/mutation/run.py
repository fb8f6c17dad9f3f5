"""Apply every mutant to a copy of the sources and run the tests that must notice: ``python tests/mutation/run.py``.

Prints one line for each, ``died`` or ``LIVED``, and leaves with 1 if any lived. The working tree is never touched.
With ``--log FILE`` the lines go there, too, and the same command goes on where it was broken off; those that lived
are tried again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
DEAD = {"died", "hung"}


def outcome(mutant: Mutant, sources: Path, limit: float) -> str:
    """What the tests say of one mutant: died, LIVED, or hung, which is death by a test that never ends."""
    target = sources / "torsor" / mutant.file
    whole = target.read_text(encoding="utf-8")
    target.write_text(whole.replace(mutant.right, mutant.wrong), encoding="utf-8")
    tests = [str(ROOT / "tests" / test) for test in mutant.tests]
    environment = os.environ | {"PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        code = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=limit, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        return "hung"
    finally:
        target.write_text(whole, encoding="utf-8")
    return {0: "LIVED", 1: "died"}.get(code, f"pytest left with {code}")


def told(log: Path | None) -> dict[str, str]:
    """What an earlier part of the same run said, by the mutant's name."""
    if log is None or not log.exists():
        return {}
    lines = log.read_text(encoding="utf-8").splitlines()
    return {line.split(" s  ", 1)[1]: line.split()[0] for line in lines if " s  " in line}


def main() -> None:
    """Run them all, or those whose name holds a text."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", default="", help="a part of the names of the mutants to run")
    arguments.add_argument("--limit", type=float, default=600, help="seconds for the tests of one mutant")
    arguments.add_argument("--log", type=Path, help="a file that the lines are added to, and that a run goes on from")
    chosen = arguments.parse_args()
    before, lived = told(chosen.log), 0
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "src"
        shutil.copytree(ROOT / "src", sources, ignore=shutil.ignore_patterns("__pycache__"))
        for number, mutant in enumerate(MUTANTS, 1):
            if chosen.only not in mutant.name:
                continue
            if before.get(mutant.name) in DEAD:
                continue
            begun = time.monotonic()
            said = outcome(mutant, sources, chosen.limit)
            lived += said not in DEAD
            line = f"{said:6} {number:3} {time.monotonic() - begun:5.0f} s  {mutant.name}"
            print(line, flush=True)
            if chosen.log is not None:
                chosen.log.parent.mkdir(parents=True, exist_ok=True)
                with chosen.log.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
    sys.exit(1 if lived else 0)


if __name__ == "__main__":
    main()

"""Fuzz every target for a share of the time, and log as text: ``python tests/fuzz/campaign.py MINUTES LOG [FINDINGS]``.

The minutes are of processor time, all targets together. The same command goes on where it was broken off: it counts the
seconds that the log holds. What a target learned stays beside the findings, out of the repository. Leaves with 1 when
anything crashed, hung for 25 s or took more than its memory. Needs the package atheris.
"""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
PIECE = 300  # seconds of one call: what is lost when it is killed
MEMORY = 1024  # MiB: 280 of the program itself and of torch, and far more than twice the largest input
INTERRUPTED = 72  # libFuzzer's status when a signal asks it to end
LINE = re.compile(r"^(\w+) +([\d.]+) s of CPU .* (sound|ended early|CRASHED)$", re.MULTILINE)


def spent(log: Path) -> dict[str, float]:
    """Seconds of processor time of each target so far."""
    said = log.read_text(encoding="utf-8") if log.exists() else ""
    found: dict[str, float] = {}
    for name, seconds, _ in LINE.findall(said):
        found[name] = found.get(name, 0.0) + float(seconds)
    return found


def cpu() -> float:
    """Processor time of all calls so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(name: str, seconds: float, findings: Path) -> tuple[str, bool]:
    """One call of libFuzzer: what it says in a line, and whether all was well."""
    learned = findings / name
    learned.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={max(1, round(seconds))}", "-timeout=25", f"-rss_limit_mb={MEMORY}", "-max_len=4096"]
    options += [f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1"]
    command = [sys.executable, str(HERE / "harness.py"), name, *options, str(learned), str(CORPUS / name)]
    before = cpu()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", done.stderr)
    peak = re.findall(r"stat::peak_rss_mb: +(\d+)", done.stderr)
    ended_early = done.returncode == INTERRUPTED
    sound = done.returncode == 0 or ended_early
    if not sound:
        (findings / f"{name}.stderr").write_text(done.stderr, encoding="utf-8")
    word = "ended early" if ended_early else "sound" if sound else "CRASHED"
    told = f"{name:20} {cpu() - before:8.1f} s of CPU  {runs[-1] if runs else '?':>9} inputs  "
    return told + f"{peak[-1] if peak else '?':>5} MiB at most  {word}", sound


def main(minutes: float, log: Path, findings: Path) -> None:
    """Until every target has had its share."""
    names = sorted(path.name for path in CORPUS.iterdir())
    share = 60 * minutes / len(names)
    log.parent.mkdir(parents=True, exist_ok=True)
    crashed = "CRASHED" in (log.read_text(encoding="utf-8") if log.exists() else "")
    while waiting := [name for name in names if spent(log).get(name, 0.0) < 0.98 * share]:
        for name in waiting:
            told, sound = fuzz(name, min(PIECE, share - spent(log).get(name, 0.0)), findings)
            crashed |= not sound
            print(told, flush=True)
            with log.open("a", encoding="utf-8") as file:
                file.write(told + "\n")
    total = sum(spent(log).values())
    print(f"{total / 60:.1f} minutes of CPU over {len(names)} targets; {'something crashed' if crashed else 'sound'}")
    sys.exit(crashed)


if __name__ == "__main__":
    main(float(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3] if len(sys.argv) > 3 else "build/fuzz"))

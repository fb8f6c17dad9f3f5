"""Kill actions with SIGKILL at seeded moments, begin them again each time, and compare with ones that nobody killed.

A program of its own: it loads torch once and forks for every attempt. Arguments: a folder, how many kills
of each action, the seed of the moments, and the actions.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

import kill_and_prepare
from campaign_order import order
from kill_and_resume import COMMAND
from tiny_training import complete
from torsor.cli import main
from torsor.experiments.run_table import results
from torsor.report import write_report

# What a repeated run does not reproduce: times, where it lay, and the lengths and digests of what holds those.
UNEQUAL = {".lock", "timing.jsonl", "run.json", "state.json"}


def training(folder: Path, _: Path) -> None:
    """The command of a user."""
    try:
        main([*COMMAND.split(), str(folder)])
    except SystemExit as ending:
        if ending.code:
            raise


def checkpoint(folder: Path, _: Path) -> None:
    """A run that does little but write its checkpoint."""
    complete(folder, updates=40, every=1)


def preparing(folder: Path, beside: Path) -> None:
    """A corpus to tokens."""
    kill_and_prepare.fill(beside / "corpus.jsonl", folder)


def table(folder: Path, _: Path) -> None:
    """Two rows of a table, their numbers beside them."""
    wanted, carry_out = order(folder)
    carry_out()
    numbers = [row["columns"] for row in results(wanted)]
    (folder / "numbers").write_text(repr(numbers))


def report(folder: Path, beside: Path) -> None:
    """A page about one run."""
    write_report([beside / "run"], folder / "page.html", "torsor report run")


ACTIONS: dict[str, Callable[[Path, Path], None]] = {
    each.__name__: each for each in (training, checkpoint, preparing, table, report)
}


def attempt(action: Callable[[Path, Path], None], folder: Path) -> int:
    """Begin it in a process of its own; its number."""
    child = os.fork()
    if child:
        return child
    sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - the child ends with it
    try:
        action(folder, folder.parent)
    except BaseException as error:
        print(f"{action.__name__}: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def ending(child: int) -> int:
    """How a process ended: 0, an error, or minus a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def left(folder: Path) -> dict[str, bytes]:
    """What must be equal, file by file."""
    files = (
        path for path in folder.rglob("*") if path.is_file() and path.name not in UNEQUAL and path.suffix != ".tmp"
    )
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def campaign(name: str, beside: Path, kills: int, chance: random.Random) -> None:
    """Kill it again and again, on a new folder whenever it came to its end in spite of that."""
    action = ACTIONS[name]
    started = time.monotonic()
    if ending(attempt(action, beside / "whole")):
        sys.exit(f"{name} failed undisturbed")
    span = time.monotonic() - started
    whole = left(beside / "whole")
    met = number = 0
    while met < kills:
        folder = beside / f"killed {number}"
        child = attempt(action, folder)
        time.sleep(chance.uniform(0, span))
        os.kill(child, signal.SIGKILL)
        ended = ending(child)
        met += ended == -signal.SIGKILL
        number += ended == 0
        if ended > 0:
            sys.exit(f"{name} could not go on after kill {met}")
    if ending(attempt(action, beside / f"killed {number}")):
        sys.exit(f"{name} could not go on after the last kill")
    for each in range(number + 1):
        found = left(beside / f"killed {each}")
        other = sorted(path for path in whole.keys() | found.keys() if whole.get(path) != found.get(path))
        if other:
            sys.exit(f"{name} left another {other[0]} than one that nobody killed")
    print(f"{name}: {met} kills, {number + 1} folders, {len(whole)} equal files", flush=True)


def together(name: str, beside: Path, writers: int = 3) -> None:
    """Several processes at once on one folder: each comes to its end or is refused, and the result is one's."""
    action = ACTIONS[name]
    children = [attempt(action, beside / "shared") for _ in range(writers)]
    endings = [ending(child) for child in children]
    if 0 not in endings or set(endings) - {0, 1}:
        sys.exit(f"{name} by {writers} at once ended with {endings}")
    if left(beside / "shared") != left(beside / "whole"):
        sys.exit(f"{name} by {writers} at once left something else than by one")
    print(f"{name}: {writers} writers", flush=True)


def furnish(beside: Path) -> None:
    """What the actions read."""
    words = ["".join("abcdefgh "[(7 * k * k + 3 * k * n) % 9] for k in range(n % 23)) for n in range(600)]
    (beside / "corpus.jsonl").write_text("".join(f'{{"text": "{word}"}}\n' for word in words))
    complete(beside / "run", updates=3, every=3)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).step()  # loads what torch loads late, once for all
    root, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for name in sys.argv[4:]:
        beside = root / name
        beside.mkdir()
        furnish(beside)
        campaign(name, beside, kills, random.Random(f"{seed} {name}"))
        together(name, beside)

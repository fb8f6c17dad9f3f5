"""SIGKILL at seeded random moments of all that writes: what is begun again ends as if nobody had killed it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("campaign.py")
ACTIONS = ("training", "checkpoint", "preparing", "table", "report")


def campaign(folder: Path, kills: int, actions: tuple[str, ...]) -> None:
    """The program, its words checked."""
    command = [sys.executable, str(PROGRAM), str(folder), str(kills), os.environ.get("TORSOR_SEED", "0"), *actions]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = "".join(
        rf"{name}: {kills} kills, \d+ folders, [1-9]\d* equal files\n{name}: 3 writers\n" for name in actions
    )
    assert re.fullmatch(expected, done.stdout), done.stdout


def test_a_checkpoint_a_table_and_a_report_that_were_killed_end_as_if_nobody_had(tmp_path):
    campaign(tmp_path, 2, ("checkpoint", "table", "report"))


@pytest.mark.long
@pytest.mark.parametrize("action", ACTIONS)
def test_killed_a_hundred_times_it_ends_as_if_nobody_had(action, tmp_path):
    campaign(tmp_path, int(os.environ.get("TORSOR_KILLS", "100")), (action,))

"""What is said about a run folder that is not as it must be: the command is for the folder that is in hand."""

from pathlib import Path

import pytest

from torsor.advice import anew, has_lost_run_file, no_run, train_command
from torsor.experiments.given_arguments import LONGEST, folder_of

HERE = Path("runs/moved")
ARGUMENTS = {"width": 8, "recompute": False, "lambada": True, "text": "a b", "split": None, "seed": 3}


@pytest.mark.parametrize(
    ("stored", "told"),
    [
        ("torsor train x/y --out runs/ref --seed 3", "torsor train x/y --out runs/moved --seed 3"),
        ("torsor train x/y --seed 3 --out=runs/ref", "torsor train x/y --seed 3 --out runs/moved"),
        ("torsor train x/y --text 'a b'", "torsor train x/y --text 'a b' --out runs/moved"),
        ("torsor train x/y --out runs//moved/ --width 8", "torsor train x/y --out runs//moved/ --width 8"),
        ("torsor train x/y --out", "torsor train x/y --out --out runs/moved"),
        ("not 'one line", "not 'one line"),
        ("", ""),
        (
            "torsor demo --out runs/demo",  # trains several runs
            "torsor train x/y --width 8 --no-recompute --lambada --text 'a b' --seed 3 --out runs/moved",
        ),
    ],
)
def test_the_command_that_trained_a_run_is_told_with_the_folder_in_hand(stored, told):
    assert train_command(stored, "x/y", ARGUMENTS, HERE) == told


def test_advice_names_the_folder_in_hand_whether_the_command_is_known_or_not():
    assert anew(HERE, "torsor train x/y").endswith(f"delete {HERE} and train it anew with: torsor train x/y")
    assert anew(HERE).endswith(f"delete {HERE} and train it anew with the command that made it and --out {HERE}")


def test_only_what_a_run_leaves_shows_that_its_run_file_was_lost(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "metrics.jsonl").touch()
    assert not has_lost_run_file(tmp_path)  # another program's may have these names
    assert no_run(tmp_path) == f"{tmp_path} is no run folder: it has no run.json"
    (tmp_path / "timing.jsonl").touch()
    assert has_lost_run_file(tmp_path)
    (tmp_path / "run.json").touch()
    assert not has_lost_run_file(tmp_path)


def test_different_arguments_have_different_folders_whatever_their_order_and_length():
    assert folder_of({}) == ""
    assert folder_of({"width": 32, "updates": 5}) == folder_of({"updates": 5, "width": 32}) == "-updates=5-width=32"
    long = [{"text": f"/a/path/{'x' * 300}/{end}"} for end in "ab"]
    odd = [{"text": name} for name in ("a b", "a_b", "a/b", "a:b")]
    names = [folder_of(each) for each in (*long, *odd)]
    assert len(set(names)) == len(names)
    assert all(len(name) < LONGEST + 10 and "/" not in name for name in names)

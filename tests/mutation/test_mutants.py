"""The list of mutants is of the present sources: each piece stands exactly once where it says."""

import sys
from pathlib import Path

import pytest

import torsor

sys.path.insert(0, str(Path(__file__).parent))
from mutants import MUTANTS

SOURCES = Path(torsor.__file__).parent


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_mutant_changes_one_place_of_the_sources(mutant):
    assert (SOURCES / mutant.file).read_text(encoding="utf-8").count(mutant.right) == 1
    assert mutant.right != mutant.wrong
    assert all((Path(__file__).parents[1] / test).exists() for test in mutant.tests)


def test_there_are_at_least_sixty_mutants():
    assert len(set(MUTANTS)) == len(MUTANTS) >= 60

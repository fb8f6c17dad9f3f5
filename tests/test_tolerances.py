"""The page of tolerances shows the table that the tests read."""

from pathlib import Path

from tolerances import TABLE, markdown

PAGE = (Path(__file__).parents[1] / "docs" / "tolerances.md").read_text(encoding="utf-8")


def test_the_page_shows_the_table_of_the_tests_line_by_line():
    shown = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert shown == markdown().splitlines()


def test_every_bound_has_a_reason():
    for row in TABLE:
        assert row.reason, row.what
        assert row.bound, row.what
    assert len({(row.what, row.kind) for row in TABLE}) == len(TABLE)

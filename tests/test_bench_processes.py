"""Updates that several processes make together, and the case of ``torsor bench`` that times them."""

import json
import math
from contextlib import nullcontext

import pytest
import torch

from test_bench import LIMITS, run
from torsor.bench.looped_processes import measure
from torsor.bench.shared_updates import SharedUpdates, Sizes, updates
from torsor.cli.bench_content import print_case

SMALL = Sizes(width=8, batch=2, length=3, steps=2)


@pytest.fixture
def none_started(monkeypatch):
    """Forms are counted and no process is started."""
    monkeypatch.setattr("torsor.bench.looped_processes.SharedUpdates", lambda *_: nullcontext(lambda: None))


def test_one_process_of_two_threads_and_two_of_one_are_timed(capsys):
    assert run("bench looped-processes --quick --threads 2 --json") == 0
    rows = json.loads(capsys.readouterr().out)["cases"]["looped-processes"]["rows"]
    assert [row["case"] for row in rows] == ["width 8, 1 process of 2 threads", "width 8, 2 processes of 1 thread"]
    assert all(row["seconds"] > 0 for row in rows)
    assert [row.get("reference") for row in rows] == [None, "width 8, 1 process of 2 threads"]


def test_an_update_is_that_of_training():
    torch.set_default_dtype(torch.float32)
    first, second = (record for record, _ in zip(updates(SMALL, False), range(2), strict=False))
    assert (first.update, second.update, first.tokens) == (1, 2, 6)
    assert first.loss == pytest.approx(math.log(60), rel=0.2)  # the 60 elements of A5, none known yet


def test_a_process_that_ends_is_told_by_its_own_words():
    with pytest.raises(RuntimeError, match=r"process 0 .* ended with status 1: ValueError: .*width.* got 7"):
        SharedUpdates(Sizes(7, 2, 3, 2), processes=1, threads=1, compiled=False).__enter__()


def test_one_of_two_that_is_killed_before_they_have_joined_is_told_and_the_other_ended(monkeypatch):
    together, started = SharedUpdates(SMALL, processes=2, threads=1, compiled=False), []
    start = SharedUpdates._start

    def start_and_kill(self, number, environment):
        start(self, number, environment)
        started.append(self._processes[-1])
        if number:
            started[-1].kill()

    monkeypatch.setattr(SharedUpdates, "_start", start_and_kill)
    with pytest.raises(RuntimeError, match=r"process 1 of those that train together ended with status -9$"):
        together.__enter__()
    assert all(process.returncode == -9 for process in started)


@pytest.mark.parametrize(
    ("threads", "batch", "forms"),
    [
        (1, 2, ["1 process of 1 thread"]),
        (3, 2, ["1 process of 3 threads"]),
        (4, 2, ["1 process of 4 threads", "2 processes of 2 threads"]),
        (6, 64, ["1 process of 6 threads", "2 processes of 3 threads"]),
    ],
)
def test_as_many_processes_as_divide_threads_and_batch(none_started, threads, batch, forms):
    torch.set_num_threads(threads)
    content = measure(LIMITS, 1, widths=(8,), batch=batch, length=3, steps=2, compiled=(False, True))
    torch.set_num_threads(1)
    cases = [f"width 8, {form}{compiled}" for form in forms for compiled in ("", ", compiled")]
    assert [row["case"] for row in content["rows"]] == cases
    assert "not measured" not in content["settings"]


def test_without_the_engine_one_process_is_timed_and_this_is_said(none_started, monkeypatch, capsys):
    monkeypatch.setattr("torsor.bench.looped_processes.find_spec", lambda _: None)
    torch.set_num_threads(2)
    content = measure(LIMITS, 1, widths=(8,), batch=2, length=3, steps=2, compiled=(False,))
    assert [row["case"] for row in content["rows"]] == ["width 8, 1 process of 2 threads"]
    print_case("looped-processes", content)
    assert "not measured several processes, which need lightning-fabric: pip install" in capsys.readouterr().out

"""What the documents show runs: the README's code, the examples, the docstrings' examples."""

import doctest
import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest
import torch

import torsor
from torsor.experiments.reading import evaluation
from torsor.training import read_run

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = {
    str(page.relative_to(ROOT)): "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    for page in sorted((ROOT / "docs").rglob("*.md"))
}

KEPT_RECORDS = sorted(each.parent for each in (ROOT / "docs" / "results" / "records").rglob("run.json"))


@pytest.fixture(autouse=True)
def users_numerics():
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_readme_s_python_runs(code, capsys):
    exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", [page for page, code in PAGES.items() if code])
def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    exec(compile(PAGES[page], page, "exec"), {"__name__": "__main__"})


FENCED = re.findall(r"^```([^\n]*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
SHELL = "".join(block for kind, block in FENCED if not kind)
LINES = [line.partition("#")[0].split()[1:] for line in SHELL.splitlines() if line.startswith("torsor ")]


@pytest.mark.parametrize("command", sorted({words[0] for words in LINES if words[0].isalpha()}))
def test_the_readme_s_commands_exist(command, capsys):
    from torsor.cli import main

    with pytest.raises(SystemExit) as ending:
        main([command, "--help"])
    assert ending.value.code == 0
    assert "Usage: torsor" in capsys.readouterr().out


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_every_line_of_the_readme_is_taken_as_it_is_printed(words):
    from torsor.cli.app import app

    command, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    assert command.__name__ != "unknown"  # which takes the name of an experiment that there is not
    assert callable(command)
    assert bound.arguments or len(words) < 3


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)|src=\"([^\":]+)\"", README))))
def test_the_readme_s_links_lead_somewhere(link):
    assert (ROOT / "".join(link)).exists()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plain_model", {"updates": 2}),
        ("word_problem", {"updates": 2}),
        ("geometry", {}),
        ("serve_depths", {"tokens": 3}),
    ],
    ids=["plain_model", "word_problem", "geometry", "serve_depths"],
)
def test_an_example_runs(name, arguments, capsys):
    path = ROOT / "examples" / f"{name}.py"
    assert len(path.read_text().splitlines()) < 60
    runpy.run_path(str(path))["main"](**arguments)
    assert capsys.readouterr().out


def test_the_serving_example_answers_requests_of_different_depths_in_one_batch(capsys):
    runpy.run_path(str(ROOT / "examples" / "serve_depths.py"))["main"](tokens=4)
    size, *answers = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d+\.\d MB for weights and cache, from now on", size)
    told = [re.match(r"turn (\d+): (\d) loops, '[a-z ]+' -> '", line) for line in answers]
    # each of 4 tokens takes as many turns as it has loops; the late one comes as the shallow one ends
    assert [(int(each[2]), int(each[1])) for each in told] == [(1, 4), (2, 4 + 2 * 4), (4, 4 * 4), (8, 8 * 4)]


def test_the_notebook_runs_cell_by_cell(monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = json.loads((ROOT / "examples" / "tour.ipynb").read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    space = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), f"tour.ipynb, {cell['id']}", "exec"), space)
            assert capsys.readouterr().out


@pytest.mark.parametrize("name", [found.name for found in pkgutil.walk_packages(torsor.__path__, "torsor.")])
def test_the_examples_in_docstrings_are_right(name):
    globs = {"torch": torch} | {face: value for module in FACES for face, value in public_names(module).items()}
    result = doctest.testmod(importlib.import_module(name), extraglobs=globs)
    assert not result.failed


FACES = ("torsor.groups", "torsor.maps", "torsor.transitions", "torsor.tasks", "torsor.models")


def public_names(face: str) -> dict[str, object]:
    """What ``from face import *`` would give."""
    module = importlib.import_module(face)
    return {name: getattr(module, name) for name in module.__all__}


@pytest.mark.parametrize("run", KEPT_RECORDS, ids=lambda each: each.name)
def test_a_run_whose_record_is_kept_is_finished_and_has_its_scores(run):
    described = read_run(run)
    assert described.finished
    assert evaluation(run)
    assert described.command(run).startswith(f"torsor train {described.experiment} ")

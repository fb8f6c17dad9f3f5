"""The geometry explorer: its arithmetic is the library's, and the page draws in a browser."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import torsor
from torsor.diagnostics import gram_matrix, toeplitz_defect
from torsor.maps import Dense, Diagonal, ScaledRotation
from torsor.report import write_explorer
from torsor.report.explorer import described_map
from torsor.transitions import BlockConformal, Cayley, Geometric

ARITHMETIC = Path(torsor.__file__).parent / "report" / "explorer_arithmetic.js"
STEPS, PROBES = 12, 5
NODE, BROWSER = shutil.which("node"), shutil.which("chromium")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: the page's arithmetic cannot be run")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed: the page cannot be drawn")

MAPS = {
    "conformal": BlockConformal(8, 2, frequencies=Geometric(50.0), initial_scale=(0.4, 0.9))(),
    "half-split": BlockConformal(8, 2, pairing="half-split", initial_scale=(0.3, 0.7))(),
    "one group": BlockConformal(6, 1, initial_scale=0.6)(),
    "diagonal": Diagonal(torch.linspace(0.2, 0.9, 7, dtype=torch.float64)),
    "chart": Cayley(6)(),
}


def computed(expression: str, **given: object) -> object:
    """The value of a JavaScript expression over the page's arithmetic."""
    program = f"{ARITHMETIC.read_text()}\nconst given = {json.dumps(given)};\nconsole.log(JSON.stringify({expression}))"
    return json.loads(subprocess.run([NODE, "-"], input=program, text=True, capture_output=True, check=True).stdout)


@needs_node
@pytest.mark.parametrize("name", [name for name in MAPS if name != "half-split"])
def test_the_page_carries_as_the_library_does(name):
    carry = MAPS[name]
    x = torch.randn(carry.dim, dtype=torch.float64)
    there = computed("carry(given.map, given.x)", map=described_map(carry), x=x.tolist())
    assert torch.allclose(torch.tensor(there), carry.dense().detach().double() @ x, atol=1e-6)


@needs_node
@pytest.mark.parametrize("name", MAPS)
def test_the_page_s_toeplitz_defect_is_the_library_s(name):
    carry = MAPS[name]
    ours = toeplitz_defect(carry, steps=STEPS, probes=PROBES)
    probes = torch.randn(PROBES, carry.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    described = described_map(carry)
    if name == "half-split":  # the page lists a plane's two coordinates together
        probes = probes.unflatten(-1, (2, 2, -1)).mT.flatten(-3)
    there = computed(
        "defects(given.map, given.probes, given.steps)", map=described, probes=probes.tolist(), steps=STEPS
    )
    assert there["own"] == pytest.approx(ours.own.mean, rel=1e-5, abs=1e-13)
    assert there["whole"] == pytest.approx(ours.whole.mean, rel=1e-5, abs=1e-13)


@needs_node
def test_the_page_s_gram_matrix_is_the_library_s():
    carry = MAPS["diagonal"]
    probe = torch.randn(1, carry.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ours = gram_matrix(carry, steps=STEPS, probes=1).whole
    there = computed(
        "gram(directions(given.map, given.v, given.steps))", map=described_map(carry), v=probe[0].tolist(), steps=STEPS
    )
    assert torch.allclose(torch.tensor(there), ours, atol=1e-12)


@needs_node
def test_the_page_s_conformal_map_is_the_library_s():
    made = computed("conformal(8, [0.4, 0.9], geometric(4, 2, 50))")
    ours = ScaledRotation(torch.tensor([0.4, 0.4, 0.9, 0.9]), Geometric(50.0)(4, 2), groups=2)
    wanted = described_map(ours)
    assert made["blocks"] == wanted["blocks"]
    assert made["scale"] == pytest.approx(wanted["scale"])
    assert made["angle"] == pytest.approx(wanted["angle"])


@needs_node
def test_the_three_leading_axes_hold_a_path_of_rank_three():
    points = torch.linalg.qr(torch.randn(9, 3))[0] @ torch.diag(torch.tensor([3.0, 2.0, 1.0]))
    gram = points @ points.T
    found = computed("principal(given.matrix)", matrix=gram.tolist())
    there = torch.tensor(found["points"])
    assert torch.allclose(there @ there.T, gram, atol=1e-8)


@needs_node
def test_the_page_s_probes_are_standard_normal():
    drawn = torch.tensor(computed("normals(20000, 3)"))
    assert abs(drawn.mean()) < 0.03
    assert abs(drawn.std() - 1) < 0.03
    assert abs((drawn**4).mean() - 3) < 0.3


def test_a_map_that_a_page_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at most 256 wide to be explored, got 300"):
        write_explorer(tmp_path / "page.html", Dense(torch.eye(300)))
    with pytest.raises(ValueError, match="must be one map, got one with the batch axes"):
        write_explorer(tmp_path / "page.html", Dense(torch.eye(4).expand(2, 4, 4)))
    assert not list(tmp_path.iterdir())


def test_a_name_with_markup_stays_text(tmp_path):
    page = write_explorer(tmp_path / "page.html", MAPS["chart"], name="</script><b>x</b>", command="<i>y</i>")
    text = page.read_text()
    assert "<b>" not in text
    assert "<i>" not in text


@needs_browser
@pytest.mark.parametrize("name", [None, "conformal", "chart"])
def test_the_page_draws_in_a_browser_without_an_error(name, tmp_path):
    page = write_explorer(tmp_path / "page.html", None if name is None else MAPS[name], name="a trained map")
    shown = subprocess.run(
        [
            *(
                BROWSER,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
            ),
            *("--no-first-run", "--enable-logging=stderr"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000"),
            *("--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in shown.stderr
    assert 'data-ready="yes"' in shown.stdout
    assert "Toeplitz defect: own blocks" in shown.stdout

"""The geometry explorer: its arithmetic is the library's, and the page draws in a browser."""

import html
import json
import math
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import torsor
from test_report_browser import browsed, luminance
from torsor.cli import main
from torsor.diagnostics import gram_matrix, toeplitz_defect
from torsor.experiments.run import load
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
@pytest.mark.parametrize("name", ["conformal", "one group", "diagonal", "chart"])
def test_the_page_s_drift_of_groups_is_the_library_s(name):
    carry = MAPS[name]
    state = torch.randn(carry.dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    there = computed("shares(given.map, given.v, given.steps)", map=described_map(carry), v=state.tolist(), steps=STEPS)
    for found in there:
        norms = torch.stack([state[block].norm() for block in carry.blocks])
        assert torch.allclose(torch.tensor(found, dtype=torch.float64), (norms / state.norm()).log10(), atol=1e-6)
        state = carry(state).detach()
    if name == "conformal":  # of the rates 0.4 and 0.9 the second takes over, by their ratio at every step
        first, last = there[0], there[-1]
        assert last[0] - last[1] - first[0] + first[1] == pytest.approx((STEPS - 1) * math.log10(0.4 / 0.9), abs=1e-5)


@needs_node
def test_the_page_s_diagonal_map_is_the_library_s():
    made = computed("diagonal(7, 0.55, 0.35)")
    assert made == described_map(Diagonal(torch.linspace(0.2, 0.9, 7, dtype=torch.float64))) | {
        "values": pytest.approx(torch.linspace(0.2, 0.9, 7, dtype=torch.float64).tolist())
    }
    assert computed("diagonal(3, 0.9, 0.5)")["values"] == pytest.approx([0.4, 0.9, 0.9999])  # kept inside (0, 1)


def test_the_command_puts_the_transition_of_a_trained_run_on_the_page(tmp_path, capsys):
    torch.set_default_dtype(torch.float32)
    small = "--width 8 --heads 2 --length 3 --updates 2 --batch 2 --words 4 --threads 1"
    for command in (
        f"train rotate-the-loop/s3 {small} --out {tmp_path / 'run'}",
        f"explore {tmp_path / 'run'} --out {tmp_path / 'page.html'}",
    ):
        with pytest.raises(SystemExit, match="0"):
            main(command.split())
    page = (tmp_path / "page.html").read_text()
    held = re.search(r'<script type="application/json" id="trained">(.*?)</script>', page, re.S)[1]
    assert json.loads(held) == {
        "name": str(tmp_path / "run"),
        "map": described_map(load(tmp_path / "run").transition()),
    }


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


# The page stands in frames of two widths; the page around it moves every control and writes down what changes.
AROUND = """<!doctype html><meta charset="utf-8"><body>{frames}<script>
const drawn = (page, id) => page.getElementById(id).toDataURL();
const blank = (page, id) => {{
  const canvas = page.getElementById(id), empty = page.createElement("canvas");
  [empty.width, empty.height] = [canvas.width, canvas.height];
  return empty.toDataURL() === canvas.toDataURL() || canvas.height < 40;
}};
const IDS = ["sphere-mine", "sphere-other", "gram-mine", "gram-other", "lags", "drift"];
const look = (page) => IDS.map((id) => drawn(page, id)).concat([page.getElementById("defect-mine").textContent]);
function seenOf(frame) {{
  const page = frame.contentDocument, root = page.documentElement;
  const found = {{ width: root.scrollWidth, ready: page.body.dataset.ready, changed: {{}} }};
  found.blank = IDS.filter((id) => blank(page, id));
  const style = frame.contentWindow.getComputedStyle(page.body);
  found.colours = [style.backgroundColor, style.color];
  const source = page.getElementById("source");
  found.sources = [...source.options].map((each) => each.textContent);
  source.value = "own"; source.oninput();
  for (const [id, value] of [["width", 24], ["groups", 1], ["groups", 2], ["frequencies", "uniform"],
    ["frequencies", "geometric"], ["base", 1], ["turn", 0.3], ["steps", 12], ["spread", 0.3], ["probe", 4],
    ["scope", "whole"]]) {{
    const before = JSON.stringify(look(page)), control = page.getElementById(id);
    control.value = value;
    control.oninput();
    found.changed[`${{id}} ${{value}}`] = JSON.stringify(look(page)) !== before;
  }}
  const rate = page.querySelector("#rates input"), before = look(page);
  rate.value = 0.35;
  rate.oninput();
  found.changed.rate = JSON.stringify(look(page)) !== JSON.stringify(before);
  found.drifted = JSON.stringify(look(page)[5]) !== JSON.stringify(before[5]);
  const gram = page.getElementById("gram-mine");
  gram.onmousemove({{ offsetX: gram.clientWidth / 12 * 3.5, offsetY: gram.clientWidth / 12 * 5.5 }});
  found.said = page.getElementById("say-mine").textContent;
  const sphere = page.getElementById("sphere-mine"), still = JSON.stringify(look(page));
  sphere.onpointermove({{ buttons: 1, movementX: 60, movementY: 20 }});
  found.changed.drag = JSON.stringify(look(page)) !== still;
  return found;
}}
addEventListener("load", () => {{
  const seen = {{}};
  for (const frame of document.querySelectorAll("iframe")) seen[frame.width] = seenOf(frame);
  document.body.innerHTML = "<output></output>";
  document.querySelector("output").textContent = JSON.stringify(seen);
}});
</script>"""
WIDE, PHONE = "1100", "360"


@needs_browser
def test_the_page_answers_every_control_fits_a_phone_and_is_light_or_dark(tmp_path):
    page = write_explorer(tmp_path / "page.html", MAPS["conformal"], name="a trained map").read_text()
    frame = f'height="800" srcdoc="{html.escape(page)}"></iframe>'
    frames = "".join(f'<iframe width="{each}" {frame}' for each in (WIDE, PHONE))
    (tmp_path / "around.html").write_text(AROUND.format(frames=frames))
    papers = []
    for scheme in (1, 0):
        done = browsed(tmp_path / "around.html", f"--blink-settings=preferredColorScheme={scheme}")
        assert "CONSOLE" not in done.stderr
        seen = json.loads(html.unescape(done.stdout.partition("<output>")[2].partition("</output>")[0]))
        for width in (WIDE, PHONE):
            found = seen[width]
            assert found["ready"] == "yes"
            assert found["width"] <= int(width)
            assert found["sources"] == ["made here", "a trained map"]
            assert found["blank"] == []  # every picture is drawn
            assert all(found["changed"].values()), found["changed"]
            assert found["drifted"]
            assert found["said"].startswith("step 5 against step 3: ")
        light = [luminance(each) for each in seen[WIDE]["colours"]]
        assert (max(light) + 0.05) / (min(light) + 0.05) > 7
        papers.append(light[0])
    assert papers[0] > 0.9
    assert papers[1] < 0.02


@needs_browser
@pytest.mark.parametrize("name", [None, "conformal", "chart"])
def test_the_page_draws_from_its_file_without_a_network_and_without_an_error(name, tmp_path):
    page = write_explorer(tmp_path / "page.html", None if name is None else MAPS[name], name="a trained map")
    assert not re.search(r"https?:|//\w+\.|@import|@font-face|url\((?!#)", page.read_text())
    shown = browsed(page, "--host-resolver-rules=MAP * ~NOTFOUND")
    assert "CONSOLE" not in shown.stderr
    assert 'data-ready="yes"' in shown.stdout
    assert "Toeplitz defect: own blocks" in shown.stdout

"""The report page in a browser: nothing is amiss, every picture is drawn, tables sort, pictures tell their numbers."""

import html
import json
import re
import shutil
import subprocess
from importlib import resources

import pytest

from test_report import COMMAND, fake_run
from test_report_text import text_run
from test_report_tracking import tracking
from torsor.report import write_report
from torsor.report.page_script import PARTS

NODE, BROWSER = shutil.which("node"), shutil.which("chromium")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed: the page's script cannot be run by itself")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed: the page cannot be drawn")
WIDE, PHONE = 1100, 360

# The page stands in frames of two widths, untouched; the page around it points, clicks and writes down what it sees.
AROUND = """<!doctype html><meta charset="utf-8"><body>{frames}<script>
const seen = {{}};
function look(frame) {{
  const page = frame.contentDocument, root = page.documentElement, found = {{}};
  found.ready = root.dataset.ready;
  found.width = root.scrollWidth;
  found.empty = [...page.querySelectorAll("svg:not(.defs)")]
    .filter((svg) => svg.getBoundingClientRect().height < 40 || !svg.querySelector("path")).map((svg) => svg.outerHTML);
  found.pictures = page.querySelectorAll("svg:not(.defs)").length;
  const point = (element, x, y) => element.dispatchEvent(new frame.contentWindow.PointerEvent(
    "pointermove", {{ clientX: x, clientY: y, bubbles: true }}));
  const tip = page.querySelector(".tip");
  const gram = page.querySelector('svg[aria-label^="Gram, whole vector"]'), matrix = gram.getScreenCTM();
  const at = new DOMPoint(26 + 186 * 2.5 / 12, 24 + 186 * 5.5 / 12).matrixTransform(matrix);
  point(gram, at.x, at.y);
  found.cell = tip.textContent;
  const chart = page.querySelector('svg[aria-label="Accuracy during training"]'), where = chart.getScreenCTM();
  const curve = [...chart.querySelectorAll("path[data-values]")].at(-1);
  const [x, y] = vertices(curve.getAttribute("d")).at(-1);
  const end = new DOMPoint(x + 2, y + 2).matrixTransform(where);
  point(chart, end.x, end.y);
  found.curve = [tip.textContent, curve.dataset.name, curve.dataset.values.split(";").at(-1)];
  found.tip = tip.hidden;
  const depth = page.querySelector('svg[aria-label="Joint accuracy by depth"]');
  const dot = [...depth.querySelectorAll("path.dot")].at(-1), [dx, dy] = middle(dot.getAttribute("d"));
  const over = new DOMPoint(dx, dy).matrixTransform(depth.getScreenCTM());
  point(depth, over.x, over.y);
  found.dot = [tip.textContent, dot.dataset.title];
  const spiral = page.querySelector('svg[aria-label^="phase portrait, block 2"]');
  const orbit = spiral.querySelector("path[data-values]"), [ox, oy] = vertices(orbit.getAttribute("d"))[1];
  const onto = new DOMPoint(ox, oy).matrixTransform(spiral.getScreenCTM());
  point(spiral, onto.x, onto.y);
  found.orbit = [tip.textContent, orbit.dataset.name, orbit.dataset.values.split(";")[1]];
  found.wrote = [...page.querySelectorAll(".sample pre")]
    .map((each) => [each.textContent, each.scrollWidth - each.clientWidth]);
  const style = frame.contentWindow.getComputedStyle(page.body);
  found.colours = [style.backgroundColor, style.color,
    frame.contentWindow.getComputedStyle(page.querySelector(".note")).color,
    frame.contentWindow.getComputedStyle(page.querySelector(".row .badge")).backgroundColor];
  chart.dispatchEvent(new frame.contentWindow.PointerEvent("pointerleave"));
  found.left = tip.hidden;
  for (const name of ["Result table", "All scores", "Tracking scores, mine:model", "Tracking scores, diagonal"]) {{
    const table = page.querySelector(`[aria-label="${{name}}"] table`), steps = [];
    const buttons = [...table.querySelectorAll("thead th[scope=col]")].map((heading) => heading.firstElementChild);
    const button = buttons[name === "Result table" ? 3 : 1];
    const rows = () => [...table.tBodies].flatMap((body) => [...body.rows])
      .map((row) => [...row.cells].map((cell) => cell.textContent.trim()).join("\\t"));
    button.focus();
    found[name + " focus"] = page.activeElement === button;
    found[name + " tags"] = buttons.map((each) => each.tagName);
    steps.push([null, rows()]);
    for (let click = 0; click < 3; click++) {{
      button.click();
      steps.push([button.parentNode.getAttribute("aria-sort"), rows()]);
    }}
    found[name] = steps;
  }}
  return found;
}}
{script}
addEventListener("load", () => {{
  for (const frame of document.querySelectorAll("iframe")) seen[frame.width] = look(frame);
  document.body.innerHTML = "<output></output>";
  document.querySelector("output").textContent = JSON.stringify(seen);
}});
</script>"""


def source(part):
    return (resources.files("torsor.report") / part).read_text()


def browsed(page, *options):
    """The file as a browser leaves it, and what that complained of."""
    return subprocess.run(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr"),
            *("--disable-background-networking", f"--user-data-dir={page.parent / 'profile'}"),
            *("--window-size=1200,900", "--virtual-time-budget=5000", *options, "--dump-dom", page.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )


def seen_by_a_browser(folder, *colours):
    """What a browser saw of one page at two widths, and what it complained of; "dark" where the system is."""
    runs = [fake_run(folder / f"a-{seed}", "diagonal", "diagonal", seed, hazard=0.06) for seed in range(2)]
    runs += [fake_run(folder / f"b-{seed}", "conformal", "conformal, 2 groups", seed, hazard=0.02) for seed in range(2)]
    runs.append(text_run(folder / "c-0"))
    (folder / "own").mkdir()
    (folder / "own" / "tracking.json").write_text(json.dumps(tracking()))
    (runs[0] / "tracking.json").write_text(json.dumps(tracking((2, 4))))
    page = write_report([*runs, folder / "own"], folder / "report.html", COMMAND).read_text()
    frames = "".join(
        f'<iframe width="{width}" height="800" srcdoc="{html.escape(page)}"></iframe>' for width in (WIDE, PHONE)
    )
    (folder / "around.html").write_text(AROUND.format(frames=frames, script=source("hover.js")))
    done = browsed(folder / "around.html", *colours)
    _, opened, rest = done.stdout.partition("<output>")
    assert opened, done.stderr
    return json.loads(html.unescape(rest.partition("</output>")[0])), done.stderr


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a browser saw where the system is light."""
    return seen_by_a_browser(tmp_path_factory.mktemp("browser"), "--blink-settings=preferredColorScheme=1")


both_widths = pytest.mark.parametrize("width", [str(WIDE), str(PHONE)])


@needs_browser
def test_the_page_loads_without_a_word_in_the_console(shown):
    seen, stderr = shown
    assert "CONSOLE" not in stderr
    assert [each["ready"] for each in seen.values()] == ["yes", "yes"]


@needs_browser
def test_the_page_works_from_its_file_where_no_name_of_the_network_is_found(tmp_path):
    page = write_report([fake_run(tmp_path / "a-0")], tmp_path / "report.html", COMMAND)
    done = browsed(page, "--host-resolver-rules=MAP * ~NOTFOUND")
    assert 'data-ready="yes"' in done.stdout
    assert "CONSOLE" not in done.stderr


@needs_browser
@both_widths
def test_every_picture_is_drawn(shown, width):
    assert shown[0][width]["pictures"] > 20
    assert shown[0][width]["empty"] == []


@needs_browser
@both_widths
def test_the_page_is_never_wider_than_its_window(shown, width):
    assert shown[0][width]["width"] <= int(width)


@needs_browser
@both_widths
def test_pointed_at_a_picture_tells_the_number_that_is_there(shown, width):
    seen = shown[0][width]
    assert seen["cell"].startswith("steps 5 and 2: ")
    text, name, pair = seen["curve"]
    x, y = pair.split(" ")
    assert text == f"{name}\noptimizer updates {x}\naccuracy {y}"
    assert seen["dot"][0] == seen["dot"][1]
    assert not seen["tip"]
    assert seen["left"]


@needs_browser
@both_widths
def test_a_heading_is_a_button_that_sorts_turns_round_and_gives_back(shown, width):
    seen = shown[0][width]
    for name in ("Result table", "All scores"):
        assert seen[f"{name} focus"]
        assert set(seen[f"{name} tags"]) == {"BUTTON"}
        (_, first), (up, rising), (down, falling), (none, last) = seen[name]
        assert (up, down, none) == ("ascending", "descending", None)
        assert sorted(first) == sorted(rising) == sorted(falling) == sorted(last)
        assert first == last
        assert rising != falling
    settings = [[row for row in rows if "mean of" in row] for _, rows in seen["Result table"]]
    assert [["diagonal" in row for row in each] for each in settings] == [[True, False]] * 2 + [
        [False, True],
        [True, False],
    ]
    assert all(("seed 0" in rows[1]) and ("seed 1" in rows[2]) for _, rows in seen["Result table"])
    steps = [[row.split("\t")[1] for row in rows] for _, rows in seen["All scores"]]
    assert steps == [["2", "4", "8"] * 4, [*"2222", *"4444", *"8888"], [*"8888", *"4444", *"2222"], ["2", "4", "8"] * 4]


@needs_browser
@both_widths
def test_pointed_at_a_phase_portrait_tells_the_step_and_the_state(shown, width):
    text, name, pair = shown[0][width]["orbit"]
    x, y = pair.split(" ")
    assert name.startswith("turning by ")
    assert text == f"{name}\nstep 1\nRe z {x}\nIm z {y}"


@needs_browser
@both_widths
def test_generated_text_keeps_its_lines_and_never_leaves_its_frame(shown, width):
    ((wrote, over),) = shown[0][width]["wrote"]
    assert wrote == "GREMIO:\nGood   morrow, 0.\n"
    assert over <= 0


@needs_browser
@both_widths
def test_the_lengths_of_the_tracking_table_are_sorted_inside_their_depths(shown, width):
    own, looped = (shown[0][width][f"Tracking scores, {name}"] for name in ("mine:model", "diagonal"))
    firsts = [[row.split("\t")[0].split()[0] for row in rows] for _, rows in own]
    assert firsts == [["8", "32", "1"], ["32", "8", "1"], ["8", "32", "1"], ["8", "32", "1"]]  # the last is read on
    assert [direction for direction, _ in own] == [None, "ascending", "descending", None]
    depths = [[row.split("\t")[0] for row in rows][:6] for _, rows in looped]
    up, down = (["2 loops", *order, "4 loops, trained", *order] for order in (["8", "32"], ["32", "8"]))
    assert depths == [up, down, up, up]


def luminance(colour):
    """Relative luminance of an sRGB colour, as WCAG 2 defines it."""
    parts = [int(each) / 255 for each in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@needs_browser
def test_the_page_is_light_or_dark_as_the_system_is_and_readable_in_both(shown, tmp_path):
    light, dark = shown[0], seen_by_a_browser(tmp_path, "--blink-settings=preferredColorScheme=0")[0]
    for width in (str(WIDE), str(PHONE)):
        papers = [luminance(each[width]["colours"][0]) for each in (light, dark)]
        assert papers[0] > 0.9
        assert papers[1] < 0.02
        for each in (light, dark):
            paper, *inks = (luminance(colour) for colour in each[width]["colours"])
            for ink, least in zip(inks, (7, 4.5, 3), strict=True):  # text, small text, a mark of a row
                assert (max(paper, ink) + 0.05) / (min(paper, ink) + 0.05) >= least


def computed(expression):
    """The value of a JavaScript expression over the page's script."""
    program = "\n".join(source(part) for part in PARTS[:2]) + f"\nconsole.log(JSON.stringify({expression}))"
    return json.loads(subprocess.run([NODE, "-"], input=program, text=True, capture_output=True, check=True).stdout)


@needs_node
def test_what_is_absent_is_sorted_last_either_way_and_equals_stay_as_they_stood():
    keys = "[3, null, 1, 3, 2.5]"
    assert computed(f'order({keys}, "ascending")') == [2, 4, 0, 3, 1]
    assert computed(f'order({keys}, "descending")') == [0, 3, 4, 2, 1]
    assert computed(f'order({keys}, "none")') == [0, 1, 2, 3, 4]
    assert computed('order(["seed 10", "seed 2"], "ascending")') == [1, 0]


@needs_node
def test_a_cell_is_sorted_by_its_number_then_by_its_words():
    assert computed('[key("0.5", "x"), key(null, " – "), key(null, ""), key(null, "1 024"), key(null, "a 2")]') == [
        *(0.5, None, None, 1024, "a 2"),
    ]


@needs_node
def test_a_place_outside_a_heat_map_has_no_cell():
    assert computed("[cellAt(4, [10, 20, 40], 10, 20), cellAt(4, [10, 20, 40], 49.9, 30)]") == [[0, 0], [1, 3]]
    assert computed("[cellAt(4, [10, 20, 40], 9.9, 30), cellAt(4, [10, 20, 40], 20, 60)]") == [None, None]


@needs_node
def test_the_nearest_point_within_reach_is_told():
    points = "[[0, 0], [10, 0], [10, 1]]"
    assert computed(f"[nearest({points}, 9, 0.4, 5), nearest({points}, 9, 0.6, 5), nearest({points}, 5, 20, 5)]") == [
        *(1, 2, -1),
    ]

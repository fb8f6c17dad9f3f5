"""What is shipped: wheel and source archive hold what they must, and importing torsor brings in little else."""

import importlib.util
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MISSING = [name for name in ("build", "hatchling") if importlib.util.find_spec(name) is None]
needs_build = pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed: nothing can be built")
COMPILED = {"__pycache__"}

IMPORTED = """
import sys, torch
before = set(sys.modules)
import torsor
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names))
"""

FROM_THE_WHEEL = """
import sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
import torsor
if not Path(torsor.__file__).is_relative_to(folder):
    sys.exit(f"{torsor.__file__} is not the wheel's")
exec(compile(Path(sys.argv[2]).read_text(), "README.md", "exec"), {})
from torsor.report import write_explorer
write_explorer(folder / "explore.html")
from torsor.report.page_script import page_script
page_script()
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The source archive, and the wheel that is built from it alone."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (archive,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return archive, wheel


def shipped() -> set[str]:
    """Every file of the package, as a path from the folder that holds it."""
    files = (path.relative_to(ROOT / "src") for path in (ROOT / "src" / "torsor").rglob("*") if path.is_file())
    return {str(path) for path in files if not COMPILED & set(path.parts)}


@needs_build
def test_the_wheel_holds_every_file_of_the_package_and_no_test(built):
    names = set(zipfile.ZipFile(built[1]).namelist())
    inside = {name for name in names if ".dist-info/" not in name}
    assert inside == shipped()
    assert {Path(name).suffix for name in inside} >= {".py", ".pyi", ".j2", ".css", ".js"}
    assert "torsor/py.typed" in inside
    metadata = {Path(name).name for name in names - inside}
    assert {"METADATA", "RECORD", "entry_points.txt", "LICENSE"} <= metadata


@needs_build
def test_the_source_archive_holds_what_builds_the_wheel_and_nothing_that_was_made(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in shipped()} | {"pyproject.toml", "README.md", "LICENSE"} <= names
    made = {name for name in names if re.search(r"(^|/)(\.venv|runs|build|dist|__pycache__|\.git|shared)(/|$)", name)}
    assert not made


@needs_build
def test_the_wheel_passes_the_readme_s_quick_start(built, tmp_path):
    zipfile.ZipFile(built[1]).extractall(tmp_path / "wheel")
    (tmp_path / "ten_lines.py").write_text(
        re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    )
    done = subprocess.run(
        [sys.executable, "-c", FROM_THE_WHEEL, str(tmp_path / "wheel"), str(tmp_path / "ten_lines.py")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert "torch.Size" in done.stdout


def test_importing_torsor_after_torch_brings_in_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"torsor", "lazy_loader"}


def installed(venv: Path, *what: str) -> Path:
    """The programs of a new environment that has these and what they need, by the pins."""
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for each in ("torch", *what):  # torch first and by its pin: see the Makefile
        done = subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), each], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return venv / "bin"


@needs_build
@pytest.mark.long
@pytest.mark.parametrize("kind", ["wheel", "source archive"])
def test_an_empty_environment_with_what_is_shipped_alone_passes_the_readme_s_quick_start(kind, built, tmp_path):
    programs = installed(tmp_path / "venv", str(built[kind == "wheel"]))
    given = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    given |= {"OMP_NUM_THREADS": "1", "HOME": str(tmp_path)}

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    python, torsor = str(programs / "python"), str(programs / "torsor")
    where = run(python, "-c", "import torsor; print(torsor.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path / "venv")
    read = (ROOT / "README.md").read_text()
    (tmp_path / "ten_lines.py").write_text(re.findall(r"```python\n(.*?)```", read, re.S)[0])
    assert "torch.Size" in run(python, "ten_lines.py")
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```$", read, re.S | re.M)
    (commands,) = (block for block in blocks if block.startswith("torsor list"))
    typed = [line.partition("#")[0].split()[1:] for line in commands.splitlines() if line.startswith("torsor ")]
    assert ["list"] in typed
    assert ["train", "rotate-the-loop/s3"] in typed
    run(torsor, "list")
    short = ["--width", "16", "--heads", "2", "--length", "4", "--updates", "3", "--words", "20", "--threads", "1"]
    for name, options in (("s3-0", []), ("s3-diagonal", ["--transition", "diagonal"])):
        run(torsor, "train", "rotate-the-loop/s3", *options, *short, "--out", f"runs/{name}")
    for command in typed:
        if command[0] in {"measure", "explore", "report", "track", "plan", "doctor"}:
            small = ["--words", "20", "--lengths", "4"] if command[0] == "track" else []
            assert run(torsor, *command, *small)
    assert (tmp_path / "explore.html").is_file()
    assert (tmp_path / "runs" / "report.html").is_file()
    needs_an_extra = subprocess.run(
        [torsor, "export", "runs/s3-0", "--to", "hf"], capture_output=True, text=True, cwd=tmp_path, env=given
    )
    assert needs_an_extra.returncode == 2
    assert needs_an_extra.stderr.count("\n") == 1
    assert "torsor[hf]" in needs_an_extra.stderr

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

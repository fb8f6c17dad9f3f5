"""The lock of CI: every pinned release with its SHA-256, and a file that differs is refused by its name."""

import hashlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
LOCK = (ROOT / "requirements.lock").read_text().splitlines()


def test_every_line_of_the_lock_is_one_release_with_one_sha_256():
    assert re.fullmatch(r"# cpython \d\.\d+, [a-z0-9]+ \w+: .*", LOCK[0])
    assert len(LOCK) > len(PINS)
    for line in LOCK[1:]:
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.+]+ --hash=sha256:[0-9a-f]{64}", line), line
    names = [line.partition("==")[0] for line in LOCK[1:]]
    assert names == sorted(set(names))


def test_the_lock_holds_every_pin_at_its_version_but_those_that_no_test_needs():
    locked = dict(line.split(" ")[0].split("==") for line in LOCK[1:])
    missing = {name for name in PINS if name not in locked}
    assert missing <= {"datasets"}
    for name in PINS.keys() - missing:
        assert locked[name].partition("+")[0] == PINS[name], name
    assert {"hatchling", "editables"} <= locked.keys()  # which build ours, without an environment of pip's own


def test_the_lock_holds_all_that_tests_lint_types_and_documents_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted, waiting = set(project["dependencies"]), ["dev"]
    while waiting:
        for each in project["optional-dependencies"][waiting.pop()]:
            ours = re.fullmatch(r"torsor\[([\w,]+)\]", each)
            waiting += ours[1].split(",") if ours else []
            wanted |= set() if ours else {each}
    names = {re.match(r"[\w.-]+", each)[0].lower().replace("_", "-") for each in wanted}
    assert len(names) > 20
    assert names <= {line.partition("==")[0] for line in LOCK[1:]}


@pytest.fixture
def wheel(tmp_path) -> Path:
    """A release of nothing."""
    path = tmp_path / "index" / "nothing_at_all-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nothing_at_all.py", "")
        about = "nothing_at_all-1.0.dist-info/"
        archive.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: nothing-at-all\nVersion: 1.0\n")
        archive.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(about + "RECORD", "")
    return path


def installed(wheel: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """As make locked calls pip, into a folder."""
    lock = folder / "requirements.lock"
    options = [
        "--require-hashes",
        "--no-deps",
        "--only-binary",
        ":all:",
        "-r",
        str(lock),
        "--target",
        str(folder / "in"),
    ]
    pip = [sys.executable, "-m", "pip", "--isolated", "install", "--disable-pip-version-check", "--no-cache-dir"]
    where = ["--no-index", "--find-links", str(wheel.parent)]
    return subprocess.run([*pip, *where, *options], capture_output=True, text=True, check=False)


def test_a_file_that_differs_by_one_byte_is_refused_with_both_sums(wheel, tmp_path):
    good = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "requirements.lock").write_text(f"nothing-at-all==1.0 --hash=sha256:{good}\n")
    assert installed(wheel, tmp_path).returncode == 0
    wheel.write_bytes(wheel.read_bytes() + b"\0")
    done = installed(wheel, tmp_path)
    assert done.returncode
    assert "DO NOT MATCH THE HASHES" in done.stderr  # which .ci/run looks for
    for word in ("nothing-at-all==1.0", good, hashlib.sha256(wheel.read_bytes()).hexdigest()):
        assert word in done.stderr


def test_the_lock_is_made_from_pip_s_report_and_of_wheels_alone(tmp_path):
    sys.path.insert(0, str(ROOT / ".ci"))
    try:
        from lock import here, locked, words
    finally:
        sys.path.pop(0)

    def of(name: str, **origin: object) -> dict[str, object]:
        return {"metadata": {"name": name, "version": "1.0"}, "download_info": origin}

    hashes = {"hashes": {"sha256": "ab"}}
    wheels = [of("B_b", url="x/b.whl", archive_info=hashes), of("a", url="x/a.whl", archive_info=hashes)]
    ours = of("torsor", url="file:///here", dir_info={})
    assert list(locked({"install": [*wheels, ours]})) == [
        "a==1.0 --hash=sha256:ab",
        "b-b==1.0 --hash=sha256:ab",
    ]
    with pytest.raises(ValueError, match=r"^a must come as a wheel, got x/a\.tar\.gz$"):
        list(locked({"install": [of("a", url="x/a.tar.gz", archive_info=hashes)]}))
    about = {"implementation_name": "cpython", "python_version": "3.11", "sys_platform": "linux"}
    assert words(about | {"platform_machine": "x86_64"}) == "cpython 3.11, linux x86_64"
    assert here().startswith(f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}, ")

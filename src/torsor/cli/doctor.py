"""``torsor doctor``: what is installed, where it lies, whether it works, and what to do where it does not."""

import importlib.metadata
import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from torsor import __version__
from torsor.cli.data import state
from torsor.cli.tables import JsonFlag
from torsor.text.datasets import DATASETS
from torsor.text.storage import data_folder

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "cyclopts", "rich", "jinja2", "matplotlib", "jaxtyping")
EXTRAS = {
    "dist": ("training on several devices", ("lightning-fabric",)),
    "hf": ("export to transformers", ("transformers", "tokenizers")),
    "text": ("byte pairs: language models and torsor data prepare", ("tokenizers",)),
    "hub": ("documents streamed from the Hugging Face hub", ("datasets", "huggingface-hub", "pyarrow")),
    "eval": ("the evaluation harness for language models", ("lm-eval",)),
    "kernels": ("kernels for GPUs", ("triton",)),
    "docs": ("the documentation site", ("sphinx", "furo", "myst-parser")),
}


@final
@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: "ok", "absent" where it is optional, or "wrong"; and what to do, if anything."""

    name: str
    state: str
    what: str
    advice: str = ""


def doctor(*, as_json: JsonFlag = False) -> None:
    """Look at packages, extras, threads, devices and data, try a map, a gradient and a file, and say what to do.

    Args:
        as_json: print JSON for programs.

    Raises:
        ValueError: when something does not work; the line says what.
    """
    groups = {"installation": _installation(), "extras": _extras()}
    if all(each.state == "ok" for each in groups["installation"]):
        groups["machine"] = _machine()  # it needs torch
    groups |= {"data": _data(), "files": [_files()]}
    wrong = [each for found in groups.values() for each in found if each.state == "wrong"]
    if as_json:
        content = {name: [asdict(each) for each in found] for name, found in groups.items()}
        print(json.dumps({"works": not wrong, **content}))
    else:
        for name, found in groups.items():
            print(name)
            for each in found:
                print(f"  {each.state:<7} {each.name:<18} {each.what}{f': {each.advice}' if each.advice else ''}")
    if wrong:
        raise ValueError(
            "; ".join(f"{each.name} {each.what}{f': {each.advice}' if each.advice else ''}" for each in wrong)
        )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _installation() -> list[Finding]:
    found = [
        Finding("torsor", "ok", f"{__version__}  {Path(__file__).resolve().parents[1]}"),
        Finding("python", "ok", f"{platform.python_version()}  {sys.executable}"),
    ]
    for package in PACKAGES:
        version = _version(package)
        if version is None:
            found.append(Finding(package, "wrong", "is not installed", f"pip install {package}"))
        else:
            found.append(Finding(package, "ok", version))
    return found


def _extras() -> list[Finding]:
    found = []
    for extra, (purpose, packages) in EXTRAS.items():
        versions = {package: _version(package) for package in packages}
        said = ", ".join(f"{package} {version or 'is missing'}" for package, version in versions.items())
        if all(versions.values()):
            found.append(Finding(extra, "ok", said))
        else:
            found.append(Finding(extra, "absent", f"{said}; for {purpose}", f"pip install 'torsor[{extra}]'"))
    return found


def _machine() -> list[Finding]:
    import torch

    from torsor.experiments.machine import accelerators, check_map

    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    limit = next(
        (f" ({name}={os.environ[name]})" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS") if name in os.environ), ""
    )
    advice = "runs take --threads N" if threads < cores else ""
    found = [
        Finding("processor", "ok", f"{platform.machine()}, {platform.system()}"),
        Finding("threads", "ok", f"{threads} of {cores}{limit}", advice),
        Finding("devices", "ok", ", ".join(["cpu", *accelerators()])),
    ]
    try:
        check_map()
    except ValueError as error:
        return [*found, Finding("maps", "wrong", str(error))]
    return [*found, Finding("maps", "ok", "the fast form equals its matrix, and gradients flow")]


def _data() -> list[Finding]:
    found = [Finding("folder", "ok", str(data_folder()), "another one: TORSOR_DATA")]
    for name, dataset in DATASETS.items():
        match state(dataset):
            case "yes":
                found.append(Finding(name, "ok", "here, its checksum right"))
            case "no":
                found.append(Finding(name, "absent", "not here", f"torsor data fetch {name}"))
            case _:
                found.append(
                    Finding(name, "wrong", "has a file that is not the right one", f"torsor data verify {name}")
                )
    return found


def _files() -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=Path.cwd()):
            return Finding("here", "ok", f"{Path.cwd()} can be written")
    except OSError as error:
        return Finding("here", "wrong", f"{Path.cwd()} cannot be written ({error.strerror})", "runs need another --out")

"""``torsor doctor``: what is installed, where it lies, and whether it works."""

import importlib.metadata
import platform
import sys
import tempfile
from pathlib import Path

from torsor import __version__

PACKAGES = ("torch", "numpy", "scipy", "safetensors", "cyclopts", "rich", "jinja2", "matplotlib", "jaxtyping")


def doctor() -> None:
    """Print versions, paths, threads and devices, and try a map, a gradient and a file.

    Raises:
        ValueError: when something does not work; the line says what.
    """
    print(f"torsor {__version__}  {Path(__file__).resolve().parents[1]}")
    print(f"python {platform.python_version()}  {sys.executable}")
    for package in PACKAGES:
        print(f"{package} {importlib.metadata.version(package)}")
    import torch

    from torsor.experiments.machine import accelerators, check_map

    print(f"machine {platform.machine()}, {platform.system()}; {torch.get_num_threads()} threads")
    print(f"devices {', '.join(['cpu', *accelerators()])}")
    check_map()
    print("maps: the fast form equals its matrix, and gradients flow")
    try:
        with tempfile.NamedTemporaryFile(dir=Path.cwd()):
            print(f"files: {Path.cwd()} can be written")
    except OSError as error:
        raise ValueError(f"{Path.cwd()} cannot be written ({error.strerror}): runs need another --out") from error

"""Which implementations a register must hold: every concrete subclass that the package defines."""

import importlib
import inspect
from pathlib import Path

import torsor

SOURCE = Path(torsor.__file__).parent


def concrete_subclasses(base: type) -> set[type]:
    """Import every module of the package that names ``base`` and collect what is built on it."""
    for file in SOURCE.rglob("*.py"):
        if file.name != "__init__.py" and base.__name__ in file.read_text(encoding="utf-8"):
            importlib.import_module(".".join(["torsor", *file.relative_to(SOURCE).with_suffix("").parts]))
    found, waiting = set(), [base]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("torsor.") and not inspect.isabstract(kind):
                found.add(kind)
    return found

"""A user's own model by its written name: ``pkg.module:factory``."""

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any, Literal

from torch import nn

from torsor.experiments.examined_run import Examined
from torsor.experiments.experiment import nearest
from torsor.groups import named
from torsor.kinds import kind_of
from torsor.tasks import WordProblem
from torsor.tracking import subject_of

_WRITTEN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def examined_model(
    written: str, group: str, alphabet: Literal["generators", "all"], length: int, seed: int
) -> Examined:
    """The model that a factory makes, to be examined on a word problem.

    Args:
        written: ``pkg.module:factory``; the module may lie in the current folder.
        group: name of the finite group.
        alphabet: letters: the standard generators, or all elements.
        length: that the model was trained on.
        seed: of the words.

    Raises:
        ValueError: when there is no such group, module or factory, or it makes no model. What the user's own
            code raises besides comes through as it is.
    """
    task = WordProblem(named(group), length, alphabet, seed)
    return Examined(subject_of(made_by(written), written, task.vocabulary), task)


def made_by(written: str) -> Any:
    """Call a factory by its written name.

    Args:
        written: ``pkg.module:factory``.

    Raises:
        ValueError: when there is no such module or factory.
    """
    if not _WRITTEN.fullmatch(written):
        raise ValueError(f"model must be written pkg.module:factory, got {written!r}")
    name, _, wanted = written.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as python -m does, and an installed program does not
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        raise ValueError(f"the module {name} cannot be imported: {error}") from error
    except SyntaxError as error:
        raise ValueError(f"the module {name} is not Python: {error}") from error
    found = vars(module)
    if wanted not in found:
        known = [each for each, value in found.items() if callable(value) and not each.startswith("_")]
        raise ValueError(f"the module {name} has no {wanted!r}{nearest(wanted, known) if known else ''}")
    factory = found[wanted]
    if not callable(factory) or isinstance(factory, nn.Module):
        rule = "must be a factory, a function without arguments that returns the model"
        raise ValueError(f"{written} {rule}, got {kind_of(factory)}")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ValueError(f"{written} must be a factory that needs no arguments: {error}") from error
    except ValueError:  # a builtin that does not tell its signature; it may still need none
        pass
    return factory()

"""Arguments that were given in place of a table's own, in the name of the folder of its runs."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

LONGEST = 100  # characters: a file system takes names of 255 bytes


def folder_of(given: Mapping[str, Any]) -> str:
    """What is put behind a folder's name: ``-updates=5-width=32``, nothing where nothing is given.

    Different arguments have different names, whatever their order; what no name may hold, or is too long, is cut and
    told apart by a digest.

    Args:
        given: arguments by name.
    """
    told = "".join(f"-{name}={value}" for name, value in sorted(given.items()))
    kept = re.sub(r"[^\w.=+-]+", "_", told, flags=re.ASCII)
    if kept == told and len(told) <= LONGEST:
        return told
    return f"{kept[:LONGEST]}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"

"""The geometry explorer: one page on which a map can be chosen and its directions watched."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from torsor.maps import Diagonal, LinearMap, ScaledRotation
from torsor.report.own_page import replaces_page
from torsor.report.whole_file import write_whole

__all__ = ["write_explorer"]

PROBES = 8  # as many as explorer_page.js draws
LARGEST_DENSE = 256


def write_explorer(path: Path, carry: LinearMap | None = None, name: str = "", command: str = "torsor explore") -> Path:
    """Write the explorer as one HTML file that needs no other file and no network.

    Args:
        path: the file to write, a new one or an earlier page; its folder is made where it is missing.
        carry: a map to look at beside those that can be made on the page: a trained one, say.
        name: what the page calls it.
        command: what a user typed, printed on the page.

    Returns:
        The path of the file.

    Raises:
        ValueError: when the map has batch axes or is dense and wider than 256, when a file is there that is no page of
            torsor's, or when the page cannot be written.
    """
    replaces_page(path)
    described = None if carry is None else {"name": name, "map": described_map(carry)}
    environment = Environment(
        loader=PackageLoader("torsor", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    # inside a script element only "</" could end it early; JSON allows the slash to be written as an escape
    trained = Markup(json.dumps(described).replace("<", "\\u003c"))
    page = environment.get_template("explorer.html.j2").render(trained=trained, probes=PROBES, command=command)
    write_whole(path, page.encode())
    return path


def described_map(carry: LinearMap) -> dict[str, Any]:
    """A map as the page's arithmetic takes it; the coordinates of a scaled rotation are listed plane by plane.

    Raises:
        ValueError: when the map has batch axes, or is dense and wider than 256.
    """
    blocks = [[block.start, block.stop] for block in carry.blocks]
    if isinstance(carry, ScaledRotation) and carry.scale.ndim == 1:
        return {"kind": "planes", "scale": carry.scale.tolist(), "angle": carry.angle.tolist(), "blocks": blocks}
    if isinstance(carry, Diagonal) and carry.values.ndim == 1:
        return {"kind": "diagonal", "values": carry.values.tolist(), "blocks": blocks}
    matrix = carry.dense().detach()
    if matrix.ndim != 2:
        raise ValueError(f"carry must be one map, got one with the batch axes {tuple(matrix.shape[:-2])}")
    if len(matrix) > LARGEST_DENSE:
        raise ValueError(f"a dense map must be at most {LARGEST_DENSE} wide to be explored, got {len(matrix)}")
    return {"kind": "dense", "matrix": matrix.tolist(), "blocks": blocks}

"""How the documentation site is built: ``make docs`` writes it to ``build/docs``."""

import importlib.metadata
import json
from pathlib import Path

from torsor.report import write_explorer

project = "torsor"
author = "the torsor developers"
copyright = "2026, the torsor developers"
release = importlib.metadata.version("torsor")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"torsor {release}"

# the geometry explorer, written anew so that it is the one of this version
root = Path(__file__).parents[1]
write_explorer(root / "build" / "extra" / "explore.html")
html_extra_path = ["../build/extra"]

# the notebook's cells as a page
cells = json.loads((root / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
sources = {"markdown": "{}", "code": "```python\n{}\n```"}
tour = "\n\n".join(sources[cell["cell_type"]].format("".join(cell["source"])) for cell in cells)
(root / "build" / "tour.md").write_text(tour, encoding="utf-8")

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes stand in the signature; repeated under every argument they hide the text
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True, "exclude-members": "extra_repr"}
napoleon_numpy_docstring = False
napoleon_use_rtype = False

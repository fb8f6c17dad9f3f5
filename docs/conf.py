"""How the documentation site is built: ``make docs`` writes it to ``build/docs``."""

import importlib.metadata
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
write_explorer(Path(__file__).parents[1] / "build" / "extra" / "explore.html")
html_extra_path = ["../build/extra"]

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes stand in the signature; repeated under every argument they hide the text
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "show-inheritance": True, "exclude-members": "extra_repr"}
napoleon_numpy_docstring = False
napoleon_use_rtype = False
